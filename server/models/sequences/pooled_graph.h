// A model with state as a program over pools: the state of many sequences in one buffer, of which each run reads and
// writes the rows that its sequences have.
//
// The model takes state [batch, ...] and gives it back. The program takes a pool [slots, ...] in place of each, and two
// lists of integers: `from` [batch], the slot that each row's state is read from, or -1, where INDEX reads zeros: so a
// sequence begins; and `row_of` [slots], the row whose new state each slot takes, or -1 for one that stays as it is. So
// one program serves every sequence at every position, alone or with others.
//
// `row_of` says it from the slots' side, since a STORE to places that are computed is done by one thread, in order: two
// of them might be one place (compiler/opt/cpu/heuristic.cc). Each slot gathering its own row is shared by all threads.
#ifndef KILN_SERVER_MODELS_SEQUENCES_POOLED_GRAPH_H_
#define KILN_SERVER_MODELS_SEQUENCES_POOLED_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kiln/v1/graph.pb.h"
#include "models/onnx/model.h"
#include "server/models/sequences/sequence_config.h"

namespace kiln::server {

// What goes around, found in the model.
struct ModelStates {
  struct State {
    size_t input = 0, output = 0;  // of the model's
    std::vector<int64_t> row;      // the shape of one sequence's
    uint64_t row_bytes = 0;
  };
  std::vector<State> states;
  client::SizeVariable batch;  // the first size of all inputs and outputs
};

// BAD_ARGUMENT, whose `field` is the input or output at fault: it is not there, or is no tensor; it does not begin with
// the size that all begin with, or that size cannot be 1; a state whose input and output differ in type or shape, or of
// sizes that each call decides; or all inputs are state. `model` is as imported.
absl::StatusOr<ModelStates> FindStates(const onnx::Model& model, const SequenceConfig& config);

struct PooledGraph {
  v1::Graph graph;           // the results that are no state; each pool has the slot of its state's input
  uint32_t from_slot = 0;    // int32 [batch]
  uint32_t row_of_slot = 0;  // int32 [slots]
};

// SIZE_OVERFLOW if a pool is larger than any memory; BAD_ARGUMENT for a graph of functions, or of the older dialect.
// The model's graph has been compiled, and its root is a TUPLE of its outputs.
absl::StatusOr<PooledGraph> PoolStates(const onnx::Model& model, const ModelStates& found, int64_t slots);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SEQUENCES_POOLED_GRAPH_H_
