#include "compiler/rules/decompose.h"

#include <gtest/gtest.h>

#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/symbolic.h"
#include "compiler/testing/expression_text.h"

namespace kiln::compiler {
namespace {

UOp* Rewrite(Graph& graph, UOp* uop, NativeOps native = {}) { return GraphRewrite(uop, DecomposeRules(native), graph); }

struct Row {
  const char* before;
  const char* after;
};

class DecomposeTest : public ::testing::TestWithParam<Row> {};

TEST_P(DecomposeTest, Rewrites) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam().before);
  EXPECT_EQ(testing::ExpressionText(Rewrite(graph, before)), GetParam().after);
}

INSTANTIATE_TEST_SUITE_P(
    All, DecomposeTest,
    ::testing::Values(
        Row{"(add a:bool b:bool)", "(or a:bool b:bool)"}, Row{"(mul a:bool b:bool)", "(and a:bool b:bool)"},
        Row{"(max a:bool b:bool)", "(or a:bool b:bool)"},
        Row{"(add a:float16 b:float16)", "(cast:float16 (add (cast:float32 a:float16) (cast:float32 b:float16)))"},
        Row{"(cmplt a:bfloat16 b:bfloat16)", "(cmplt (cast:float32 a:bfloat16) (cast:float32 b:bfloat16))"},
        Row{"(sqrt a:float16)", "(cast:float16 (sqrt (cast:float32 a:float16)))"},
        // What every target has stays.
        Row{"(sqrt a:float32)", "(sqrt a:float32)"}, Row{"(fdiv a:float64 b:float64)", "(fdiv a:float64 b:float64)"},
        Row{"(max a:float32 b:float32)", "(max a:float32 b:float32)"},
        Row{"(add a:int8 b:int8)", "(add a:int8 b:int8)"},
        Row{"(where c:bool a:float16 b:float16)", "(where c:bool a:float16 b:float16)"}));

// A decomposition of constants, folded, is the interpreter at work on each of
// its ops.
uint64_t Value(Op op, DType dtype, std::vector<uint64_t> operands) {
  Graph graph;
  std::vector<UOp*> src;
  for (uint64_t bits : operands) src.push_back(ConstBits(graph, dtype, bits));
  UOp* result = Rewrite(graph, graph.Make(op, src));
  absl::flat_hash_map<UOp*, UOp*> folded;
  for (UOp* uop : Toposort(result)) {
    std::vector<UOp*> operands_of;
    std::vector<uint64_t> bits;
    for (UOp* source : uop->src()) {
      operands_of.push_back(folded.at(source));
      bits.push_back(operands_of.back()->arg_as<ConstArg>().bits);
    }
    if (uop->op() == Op::CONST) {
      folded[uop] = uop;
      continue;
    }
    const DType from = uop->op() == Op::WHERE ? uop->dtype() : uop->src(0)->dtype();
    folded[uop] = ConstBits(graph, uop->dtype(), EvalScalar(uop->op(), from, uop->dtype(), bits));
  }
  return folded.at(result)->arg_as<ConstArg>().bits;
}

TEST(Decompose, ThreefryHasThePublishedVectors) {
  const auto threefry = [](uint64_t x, uint64_t key) { return Value(Op::THREEFRY, DType::kUint64, {x, key}); };
  EXPECT_EQ(threefry(0, 0), 0x99ba4efe6b200159u);
  EXPECT_EQ(threefry(~uint64_t{0}, ~uint64_t{0}), 0xbb002be71cb996fcu);
  // The digits of pi: counter 243f6a88 85a308d3, key 13198a2e 03707344.
  EXPECT_EQ(threefry(0x85a308d3243f6a88, 0x0370734413198a2e), 0x483df7a0c4923a9cu);
}

TEST(Decompose, ThreefryIsInLanesOf32Bits) {
  Graph graph;
  UOp* x = testing::ParseExpression(graph, "x:uint64");
  UOp* key = testing::ParseExpression(graph, "k:uint64");
  int wide = 0;
  for (const UOp* uop : Toposort(Rewrite(graph, graph.Make(Op::THREEFRY, {x, key})))) {
    EXPECT_NE(uop->op(), Op::THREEFRY);
    if (IsElementwise(uop->op()) && ItemSize(uop->dtype()) == 8) ++wide;
  }
  EXPECT_LE(wide, 6);  // two words apart, twice, and together again
}

TEST(Decompose, NothingTranscendentalIsLeft) {
  for (const char* text : {"(exp2 x:float32)", "(log2 x:float64)", "(sin x:float16)", "(pow x:bfloat16 y:bfloat16)",
                           "(pow x:float64 y:float64)", "(sin x:float64)", "(exp2 (log2 x:float32))"}) {
    Graph graph;
    for (const UOp* uop : Toposort(Rewrite(graph, testing::ParseExpression(graph, text)))) {
      EXPECT_TRUE(uop->op() != Op::EXP2 && uop->op() != Op::LOG2 && uop->op() != Op::SIN && uop->op() != Op::POW)
          << text;
    }
  }
}

TEST(Decompose, WhatTheTargetHasStays) {
  constexpr NativeOp kNative[] = {{Op::EXP2, DType::kFloat32}, {Op::POW, DType::kFloat64}};
  Graph graph;
  for (const char* text : {"(exp2 x:float32)", "(pow x:float64 y:float64)"}) {
    UOp* before = testing::ParseExpression(graph, text);
    EXPECT_EQ(Rewrite(graph, before, kNative), before);
  }
  EXPECT_EQ(testing::ExpressionText(Rewrite(graph, testing::ParseExpression(graph, "(exp2 x:float16)"), kNative)),
            "(cast:float16 (exp2 (cast:float32 x:float16)))");
  UOp* wide = testing::ParseExpression(graph, "(exp2 x:float64)");
  EXPECT_NE(Rewrite(graph, wide, kNative), wide);
}

TEST(Decompose, ComesToRest) {
  Graph graph;
  for (const char* text :
       {"(exp2 x:float32)", "(pow x:float16 y:float16)", "(sin x:float64)", "(threefry x:uint64 k:uint64)"}) {
    UOp* once = Rewrite(graph, testing::ParseExpression(graph, text));
    EXPECT_EQ(Rewrite(graph, once), once) << text;
  }
}

}  // namespace
}  // namespace kiln::compiler
