// What Z3 says of random index arithmetic: simplifying changes no value, bounds
// hold every value, and what the bounds pass proves, Z3 proves.
#include <gtest/gtest.h>

#include "compiler/import/wire.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/bounds.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/symbolic.h"
#include "compiler/testing/z3_oracle.h"
#include "tests/support/expression.h"

namespace kiln::testing {
namespace {

using compiler::Graph;
using compiler::Op;
using compiler::UOp;
using compiler::testing::Verdict;

// How often each verdict came; refuted fails at once.
struct Tally {
  int proved = 0, undecided = 0, not_asked = 0;
  void Add(const Verdict& verdict, const std::string& what) {
    EXPECT_NE(verdict.kind, Verdict::kRefuted) << verdict.why << "\n" << what;
    proved += verdict.kind == Verdict::kProved;
    undecided += verdict.kind == Verdict::kUndecided;
    not_asked += verdict.kind == Verdict::kNotAsked;
  }
};

TEST(Z3, SimplifyingChangesNoValue) {
  Tally tally;
  for (uint64_t seed = 0; seed < 200 && !::testing::Test::HasFailure(); ++seed) {
    Graph graph;
    ExpressionMaker maker(graph, seed);
    UOp* before = seed % 3 == 0 ? maker.Gate(3) : maker.Index(static_cast<int>(maker.random().In(2, 3)));
    UOp* after = compiler::GraphRewrite(before, compiler::SymbolicRules(), graph);
    if (after == before) continue;
    tally.Add(compiler::testing::ProveEqual(before, after),
              "seed " + std::to_string(seed) + "\n" + compiler::ToText(before) + "became\n" + compiler::ToText(after));
  }
  EXPECT_GT(tally.proved, 60) << tally.undecided << " undecided, " << tally.not_asked << " not asked";
  EXPECT_LT(tally.undecided, 10);
}

TEST(Z3, BoundsHoldEveryValue) {
  Tally tally;
  for (uint64_t seed = 1000; seed < 1200 && !::testing::Test::HasFailure(); ++seed) {
    Graph graph;
    ExpressionMaker maker(graph, seed);
    UOp* x = maker.Index(static_cast<int>(maker.random().In(1, 3)));
    tally.Add(compiler::testing::ProveBounded(x), compiler::ToText(x));
  }
  EXPECT_GT(tally.proved, 80) << tally.undecided << " undecided, " << tally.not_asked << " not asked";
  EXPECT_LT(tally.undecided, 10);
}

TEST(Z3, WhatTheBoundsPassProvesIsProved) {
  Tally tally;
  for (uint64_t seed = 2000; seed < 2500 && !::testing::Test::HasFailure(); ++seed) {
    Graph graph;
    ExpressionMaker maker(graph, seed);
    UOp* gate = maker.Gate(3);
    // An index that has to do with what the gate compares.
    UOp* compared = gate;
    while (compared->dtype() == compiler::DType::kBool && !compared->src().empty()) compared = compared->src(0);
    if (compared->dtype() != compiler::kIndexType) continue;
    UOp* index = compiler::Add(graph, compiler::Mul(graph, compared, compiler::Idx(graph, maker.random().In(1, 3))),
                               compiler::Idx(graph, maker.random().In(-5, 12)));
    const int64_t size = maker.random().In(20, 120);
    UOp* buffer =
        graph.Make(Op::PARAM, {compiler::ShapeSource(graph, {size})}, compiler::BufferArg{99, compiler::DType::kInt32});
    UOp* load = graph.Make(Op::LOAD, {graph.Make(Op::INDEX, {buffer, index}),
                                      compiler::ConstInt(graph, compiler::DType::kInt32, 0), gate});
    UOp* out = graph.Make(Op::INDEX, {buffer, compiler::Idx(graph, 0)});
    UOp* sink = graph.Make(Op::SINK, {graph.Make(Op::STORE, {out, load})}, compiler::KernelArg{});
    if (*compiler::ProveBounds(graph, sink, false) != sink) continue;  // it asks for a guard
    UOp* inside = compiler::And(graph, compiler::Not(graph, compiler::Lt(graph, index, compiler::Idx(graph, 0))),
                                compiler::Lt(graph, index, compiler::Idx(graph, size)));
    tally.Add(compiler::testing::ProveImplied(gate, inside), compiler::ToText(load));
  }
  EXPECT_GT(tally.proved, 5) << tally.undecided << " undecided, " << tally.not_asked << " not asked";
}

}  // namespace
}  // namespace kiln::testing
