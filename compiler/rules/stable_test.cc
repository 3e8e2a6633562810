#include "compiler/rules/stable.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/testing/expression_text.h"

namespace kiln::compiler {
namespace {

// What an expression of the one variable x:float32 gives.
float Evaluate(UOp* root, float x) {
  absl::flat_hash_map<UOp*, uint64_t> values;
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::CONST) {
      values[uop] = uop->arg_as<ConstArg>().bits;
    } else if (!IsElementwise(uop->op())) {
      values[uop] = FloatBits(DType::kFloat32, x);
    } else {
      std::vector<uint64_t> operands;
      for (UOp* source : uop->src()) operands.push_back(values.at(source));
      const DType from = uop->op() == Op::WHERE ? uop->dtype() : uop->src(0)->dtype();
      values[uop] = EvalScalar(uop->op(), from, uop->dtype(), operands);
    }
  }
  return static_cast<float>(FloatValue(DType::kFloat32, values.at(root)));
}

struct Row {
  const char* text;
  double (*value)(double x);
};

class StableTest : public ::testing::TestWithParam<Row> {};

TEST_P(StableTest, IsFiniteAndAsPreciseAsBefore) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam().text);
  UOp* after = GraphRewrite(before, StableRules(), graph);
  ASSERT_NE(after, before);
  EXPECT_EQ(GraphRewrite(after, StableRules(), graph), after) << "does not come to rest";
  EXPECT_TRUE(std::isnan(Evaluate(before, INFINITY)) || Evaluate(before, 0x1p127f) == 0) << "nothing was wrong";
  for (float x : {0.0f, 1e-30f, 1e-10f, 1e-3f, 0.5f, 1.0f, 1.5f, 100.0f, 1e6f, 1e12f}) {
    const double want = GetParam().value(x);
    EXPECT_NEAR(Evaluate(after, x), want, std::fabs(want) * 1e-6 + 1e-38) << x;
  }
  EXPECT_EQ(Evaluate(after, INFINITY), static_cast<float>(GetParam().value(1e300)));
  EXPECT_TRUE(std::isnan(Evaluate(after, NAN)));
}

double Once(double x) { return x / (1 + x); }
double Twice(double x) { return x / (1 + x) / (1 + x); }
double Thrice(double x) { return x / (1 + x) / (1 + x) / (1 + x); }

INSTANTIATE_TEST_SUITE_P(
    All, StableTest,
    ::testing::Values(
        Row{"(mul x:float32 (reciprocal (add x:float32 1.0:float32)))", Once},
        Row{"(mul (reciprocal (add 1.0:float32 x:float32)) x:float32)", Once},
        Row{"(fdiv x:float32 (add x:float32 1.0:float32))", Once},
        Row{"(mul x:float32 (fdiv 1.0:float32 (add x:float32 1.0:float32)))", Once},
        Row{"(mul (mul x:float32 (reciprocal (add x:float32 1.0:float32))) (reciprocal (add x:float32 1.0:float32)))",
            Twice},
        Row{"(mul x:float32 (mul (reciprocal (add x:float32 1.0:float32)) (reciprocal (add x:float32 1.0:float32))))",
            Twice},
        Row{"(mul x:float32 (reciprocal (mul (add x:float32 1.0:float32) (add x:float32 1.0:float32))))", Twice},
        Row{"(mul x:float32 (mul -1.0:float32 (mul (reciprocal (add x:float32 1.0:float32)) (reciprocal (add x:float32 "
            "1.0:float32)))))",
            [](double x) { return -Twice(x); }},
        Row{"(mul (mul 3.0:float32 x:float32) (mul 2.0:float32 (reciprocal (add x:float32 1.0:float32))))",
            [](double x) { return 6 * Once(x); }},
        Row{"(mul x:float32 (reciprocal (mul (mul (add x:float32 1.0:float32) (add x:float32 1.0:float32)) (add "
            "x:float32 1.0:float32))))",
            Thrice},
        Row{"(fdiv (mul 2.0:float32 x:float32) (add x:float32 1.0:float32))", [](double x) { return 2 * Once(x); }}));

class StaysTest : public ::testing::TestWithParam<const char*> {};

TEST_P(StaysTest, Stays) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam());
  EXPECT_EQ(GraphRewrite(before, StableRules(), graph), before);
}

INSTANTIATE_TEST_SUITE_P(All, StaysTest,
                         ::testing::Values("(mul x:float32 (reciprocal (add x:float32 2.0:float32)))",
                                           "(mul y:float32 (reciprocal (add x:float32 1.0:float32)))",
                                           "(fdiv y:float32 (add x:float32 1.0:float32))",
                                           "(mul x:float32 (add x:float32 1.0:float32))",
                                           "(add x:float32 (reciprocal (add x:float32 1.0:float32)))",
                                           "(fdiv 1.0:float32 (add x:float32 1.0:float32))",
                                           "(mul x:int32 (add x:int32 1:int32))"));

}  // namespace
}  // namespace kiln::compiler
