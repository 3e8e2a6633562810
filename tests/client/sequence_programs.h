// Programs for random sequences of calls (sequences.h): graphs, and what they do to numbers
// here. All are of int32, which wraps alike here and there.
#ifndef KILN_TESTS_CLIENT_SEQUENCE_PROGRAMS_H_
#define KILN_TESTS_CLIENT_SEQUENCE_PROGRAMS_H_

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/graph.h"
#include "tests/client/sequence_model.h"

namespace kiln::client {

// The greatest value of a variable.
inline constexpr int64_t kMaxSize = 16;

// A program of parameters x (slot 0) and y (slot 1), whichever it has: results, each of their
// values, and what x becomes.
struct Kind {
  using Function = std::function<Values(const Values& x, const Values& y)>;
  v1::Graph graph;
  bool has_x = false, has_y = false;
  std::vector<Function> results;
  Function update;  // none: x stays
};

// 3x + 1; x * y + x and y from the back; x += y; x = y - 7.
Kind One();
Kind Two();
Kind Update();
Kind Replace();
// One that most likely nobody has compiled.
Kind AnyKind(std::mt19937& random);

// y + the sum of x[:n], as a result or in the place of y: x (slot 2) has m elements (slot 0 is m,
// 1 is n, 3 is y). n > m is OUT_OF_BOUNDS, more than kMaxSize BAD_ARGUMENT.
v1::Graph Partial(bool updates);

// x += 1020, which takes some 40 ms.
v1::Graph Long();
inline constexpr int32_t kLongAdds = 1020;

// Parameters x and y of kSize elements on each of the devices: x * y + 5, split, and the sum
// over the devices of x, whole on each. Or x + y in the place of x.
v1::Graph Split(const Devices& devices, bool updates);

// Graphs that do not compile, and why.
std::vector<std::pair<v1::ErrorCode, v1::Graph>> Broken();

}  // namespace kiln::client

#endif  // KILN_TESTS_CLIENT_SEQUENCE_PROGRAMS_H_
