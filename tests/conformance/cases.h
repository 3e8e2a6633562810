// The conformance cases: graphs, their inputs, and what must come of them.
//
// The same table drives every engine: interp_vs_numpy_test compares the
// interpreter with the reference data, compiled_vs_interp_test each compiled
// program with the interpreter.
#ifndef KILN_TESTS_CONFORMANCE_CASES_H_
#define KILN_TESTS_CONFORMANCE_CASES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/interp/interp.h"
#include "kiln/v1/graph.pb.h"
#include "tests/support/compare.h"

namespace kiln::testing {

// One result of a case's graph.
struct Output {
  std::string name;  // its op
  Tolerance tolerance;
  // What it must be, element by element; kNan for any NaN. Empty: not known.
  static constexpr uint64_t kNan = ~uint64_t{0} - 1;
  std::vector<uint64_t> elements;
  // FNV-1a of the bytes, where the elements are too many to keep.
  std::optional<uint64_t> digest;
};

struct Case {
  std::string name;
  v1::Graph graph;
  compiler::HostTensors arguments;
  std::vector<Output> outputs;
};

// From tests/conformance/reference/: every elementwise op and cast on edges and
// random values; every movement and reduce op on a dozen shapes, of each dtype.
std::vector<Case> ScalarCases();
std::vector<Case> TensorCases();

// Every elementwise op of each dtype on a dozen pairs of shapes that broadcast,
// with the operands of ScalarCases. Expected values are the interpreter's.
std::vector<Case> BroadcastCases();

uint64_t Digest(const std::string& bytes);

}  // namespace kiln::testing

#endif  // KILN_TESTS_CONFORMANCE_CASES_H_
