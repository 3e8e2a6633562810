// Client's graphs as "rangeify" leaves them, and what the compiler says of their variables.
#ifndef KILN_TESTS_BATCH_SCHEDULED_H_
#define KILN_TESTS_BATCH_SCHEDULED_H_

#include <vector>

#include "compiler/batch/batching.h"
#include "compiler/batch/kernel_rows.h"
#include "compiler/pass/lowering.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

// A program of tensors, as long as it lives. Fails the test if the graph is none.
struct Scheduled {
  explicit Scheduled(const v1::Graph& graph);

  // Of the variable of this slot: what the compiler says. Fails the test if there is none.
  compiler::Batching BatchingOf(uint32_t slot) const;
  // What the proof about it rests on; empty where there is none.
  std::vector<compiler::RowEquation> EquationsOf(uint32_t slot);

  v1::Graph wire;
  compiler::Options options;
  compiler::Graph graph;
  compiler::Lowering lowering{graph, options};
  compiler::UOp* calls = nullptr;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_BATCH_SCHEDULED_H_
