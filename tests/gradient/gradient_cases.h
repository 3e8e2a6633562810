// Programs to differentiate: every differentiable op, with the shapes and
// broadcasts that its rule tells apart.
#ifndef KILN_TESTS_GRADIENT_GRADIENT_CASES_H_
#define KILN_TESTS_GRADIENT_GRADIENT_CASES_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "client/cpp/graph.h"

namespace kiln::testing {

struct GradientCase {
  std::string name;
  // Inputs are float64, drawn from [low, high], all different.
  std::vector<client::Shape> inputs;
  double low = -2;
  double high = 2;
  std::function<client::Tensor(const std::vector<client::Tensor>&)> make;
};

// The name, for GoogleTest.
inline void PrintTo(const GradientCase& c, std::ostream* out) { *out << c.name; }

std::vector<GradientCase> GradientCases();

}  // namespace kiln::testing

#endif  // KILN_TESTS_GRADIENT_GRADIENT_CASES_H_
