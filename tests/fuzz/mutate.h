// Damages wire messages, as bytes and as graphs.
#ifndef KILN_TESTS_FUZZ_MUTATE_H_
#define KILN_TESTS_FUZZ_MUTATE_H_

#include <string>

#include "kiln/v1/graph.pb.h"
#include "tests/support/random.h"

namespace kiln::testing {

// Flips, overwrites, removes, inserts and repeats bytes, or cuts the end off.
void MutateBytes(std::string& bytes, Random& random);

// One plausible fault: another op, source, argument, size, dtype or order.
void MutateGraph(v1::Graph& graph, Random& random);

}  // namespace kiln::testing

#endif  // KILN_TESTS_FUZZ_MUTATE_H_
