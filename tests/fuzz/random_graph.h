// Random tensor graphs, as a client might send them: every dtype, empty and odd
// shapes, movement chains, reductions, broadcasts, choices, poison, indexing,
// updates in place, several outputs, shared sub-graphs.
//
// They are made so that two correct engines must agree exactly: where the order
// of a float reduction could show, the values are small integers, and a result
// that docs/ir.md leaves open (the sign of a zero, the last place of sin) is never
// looked at by another op.
#ifndef KILN_TESTS_FUZZ_RANDOM_GRAPH_H_
#define KILN_TESTS_FUZZ_RANDOM_GRAPH_H_

#include <cstdint>
#include <vector>

#include "kiln/v1/graph.pb.h"
#include "tests/support/compare.h"

namespace kiln::testing {

struct RandomGraph {
  v1::Graph graph;
  std::vector<Tolerance> results;  // of each value among the root's sources
};

// The same for the same seed, on every machine.
RandomGraph MakeRandomGraph(uint64_t seed);

}  // namespace kiln::testing

#endif  // KILN_TESTS_FUZZ_RANDOM_GRAPH_H_
