// Forward passes of whole models, as graphs with their weights as parameters; what
// models.py has in Python, for benches of the compiler.
#ifndef KILN_TESTS_BENCH_MODELS_H_
#define KILN_TESTS_BENCH_MODELS_H_

#include <cstdint>
#include <vector>

#include "kiln/v1/graph.pb.h"

namespace kiln::bench {

// ResNet-50 on one image of 224 x 224, batch normalization in the weights before it.
v1::Graph ResNet50();
// GPT-2 small on so many tokens: the greatest logit after each.
v1::Graph Gpt2(int64_t tokens);

// The slots of such a graph's weights, ascending: of all parameters but the first one.
std::vector<uint32_t> WeightSlots(const v1::Graph& graph);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_MODELS_H_
