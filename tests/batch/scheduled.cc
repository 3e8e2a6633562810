#include "tests/batch/scheduled.h"

#include <gtest/gtest.h>

#include "compiler/batch/row_wise.h"
#include "compiler/pass/pipeline.h"

namespace kiln::testing {

Scheduled::Scheduled(const v1::Graph& sent) : wire(sent) {
  lowering.wire = &wire;
  for (const compiler::Stage stage :
       {compiler::Stage::kImport, compiler::Stage::kCallify, compiler::Stage::kRangeify}) {
    const auto next = compiler::RunStage(lowering, stage, calls);
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok()) return;
    calls = *next;
  }
}

compiler::Batching Scheduled::BatchingOf(uint32_t slot) const {
  for (const compiler::Batching& batching : lowering.batching) {
    if (batching.slot == slot) return batching;
  }
  ADD_FAILURE() << "no variable has slot " << slot;
  return {};
}

std::vector<compiler::RowEquation> Scheduled::EquationsOf(uint32_t slot) {
  std::vector<compiler::RowEquation> used;
  size_t left = compiler::kMaxNodesLookedAt;
  for (compiler::UOp* variable : lowering.function.variables) {
    if (variable->arg_as<compiler::BufferArg>().slot != slot) continue;
    if (ProveRowWise(graph, lowering.function, calls, variable, left, &used).obstacle.has_value()) used.clear();
  }
  return used;
}

}  // namespace kiln::testing
