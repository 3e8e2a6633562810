// Z3 as the judge of what the proof rests on: that each read of a buffer of rows is one of the row that is
// being computed, wherever its gate holds. Where products of variables stand in it, Z3 cannot
// be asked; where it has no answer in time, nothing follows.
#include <gtest/gtest.h>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/testing/z3_oracle.h"
#include "tests/batch/row_maker.h"
#include "tests/batch/scheduled.h"

namespace kiln::testing {
namespace {

using compiler::Op;
using compiler::UOp;

// Rows are counted as the greatest batch has them, and what is loaded may be anything.
UOp* Closed(compiler::Graph& graph, UOp* root, UOp* row) {
  absl::flat_hash_map<UOp*, UOp*> closed;
  uint32_t slot = 1000;
  for (UOp* uop : compiler::Toposort(root)) {
    if (uop == row) {
      const auto most = static_cast<int64_t>(uop->bounds().max) + 1;
      closed[uop] = graph.Make(Op::RANGE, {compiler::Idx(graph, most)}, uop->arg());
    } else if (uop->op() == Op::LOAD) {
      compiler::BufferArg any;
      any.slot = slot++;
      any.dtype = uop->dtype();
      closed[uop] = graph.Make(Op::PARAM, {compiler::ShapeSource(graph, {})}, any);
    }
  }
  return compiler::Substitute(root, closed, graph);
}

TEST(RowEquations, Z3RefutesNone) {
  int asked = 0, beyond = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    const v1::Graph made = MakeRowGraph(seed, 0, false);
    Scheduled program(made);
    compiler::Graph& graph = program.graph;
    for (const compiler::RowEquation& used : program.EquationsOf(kBatch)) {
      UOp* is_of = graph.Make(Op::FLOORDIV, {used.index, used.stride});
      UOp* claim = compiler::Not(graph, graph.Make(Op::CMPNE, {is_of, used.row}));
      // Together, so that both name what is loaded alike.
      UOp* gate = used.gate == nullptr ? compiler::ConstInt(graph, compiler::DType::kBool, 1) : used.gate;
      UOp* closed = Closed(graph, compiler::And(graph, gate, claim), used.row);
      const auto verdict = compiler::testing::ProveImplied(closed->src(0), closed->src(1));
      ASSERT_NE(verdict.kind, compiler::testing::Verdict::kRefuted) << "seed " << seed << ": " << verdict.why;
      ++(verdict.kind == compiler::testing::Verdict::kNotAsked ? beyond : asked);
    }
  }
  EXPECT_GE(asked, 50);
  EXPECT_LE(beyond, asked) << "what Z3 cannot be asked is the exception";
}

}  // namespace
}  // namespace kiln::testing
