#include "compiler/rules/stable.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
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
  UOp* after = MakeStable(graph, before);
  ASSERT_NE(after, before);
  EXPECT_EQ(MakeStable(graph, after), after) << "does not come to rest";
  EXPECT_TRUE(std::isnan(Evaluate(before, INFINITY)) || Evaluate(before, 0x1p127f) == 0) << "nothing was wrong";
  for (float x : {0.0f, 1e-30f, 1e-10f, 1e-3f, 0.5f, 1.0f, 1.5f, 100.0f, 1e6f, 1e12f}) {
    const double want = GetParam().value(x);
    const double lost = std::fabs(Evaluate(before, x) - want);  // nothing that is lost is won back
    EXPECT_NEAR(Evaluate(after, x), want, std::fabs(want) * 1e-6 + 1e-38 + (std::isfinite(lost) ? lost : 0)) << x;
  }
  EXPECT_EQ(Evaluate(after, INFINITY), static_cast<float>(GetParam().value(1e300)));
  EXPECT_TRUE(std::isnan(Evaluate(after, NAN)));
}

double Once(double x) { return x / (1 + x); }
double Twice(double x) { return x / (1 + x) / (1 + x); }
double Thrice(double x) { return x / (1 + x) / (1 + x) / (1 + x); }

// (y - 1) / (y + 1) of y = 2^x.
double Tanh(double x) { return std::tanh(x * 0.34657359027997264); }
// Of 1 / (1 + 2^-x), but for a constant.
double Slope(double x) { return std::exp2(-x) / std::pow(1 + std::exp2(-x), 2); }

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
        Row{"(fdiv (mul 2.0:float32 x:float32) (add x:float32 1.0:float32))", [](double x) { return 2 * Once(x); }},
        // Divisors with more in them, as a logarithm's gradient has.
        Row{"(fdiv x:float32 (mul (add x:float32 1.0:float32) 2.0:float32))", [](double x) { return Once(x) / 2; }},
        Row{"(mul (fdiv 3.0:float32 (mul 2.0:float32 (add x:float32 1.0:float32))) (mul x:float32 5.0:float32))",
            [](double x) { return 7.5 * Once(x); }},
        Row{"(mul (fdiv 3.0:float32 (add x:float32 1.0:float32)) x:float32)", [](double x) { return 3 * Once(x); }},
        Row{"(mul (fdiv 1.0:float32 (mul (reciprocal (add x:float32 1.0:float32)) 2.0:float32)) (mul x:float32 (mul "
            "(reciprocal (add x:float32 1.0:float32)) (reciprocal (add x:float32 1.0:float32)))))",
            [](double x) { return Once(x) / 2; }},
        Row{"(cast:float32 (mul (cast:float64 x:float32) (reciprocal (add (cast:float64 x:float32) 1.0:float64))))",
            Once},
        Row{"(mul x:float32 (cast:float32 (reciprocal (add (cast:float64 x:float32) 1.0:float64))))", Once},
        Row{"(fdiv (add (exp2 x:float32) -1.0:float32) (add (exp2 x:float32) 1.0:float32))", Tanh},
        Row{"(mul (reciprocal (add 1.0:float32 (exp2 x:float32))) (add (exp2 x:float32) -1.0:float32))", Tanh},
        // As a difference is spelled.
        Row{"(fdiv (add (exp2 x:float32) (mul 1.0:float32 -1.0:float32)) (add (exp2 x:float32) 1.0:float32))", Tanh},
        // What a quotient's gradient gives an exponential.
        Row{"(mul (exp2 x:float32) (add (fdiv 3.0:float32 (add 1.0:float32 (exp2 x:float32))) (mul (mul (fdiv "
            "3.0:float32 (add 1.0:float32 (exp2 x:float32))) (fdiv (exp2 x:float32) (add 1.0:float32 (exp2 "
            "x:float32)))) -1.0:float32)))",
            [](double x) { return 3 * Slope(x); }},
        Row{"(mul (add (mul 3.0:float32 (reciprocal (add 1.0:float32 (exp2 x:float32)))) (mul (mul (mul 3.0:float32 "
            "(exp2 x:float32)) (mul (reciprocal (add 1.0:float32 (exp2 x:float32))) (reciprocal (add 1.0:float32 "
            "(exp2 x:float32))))) -1.0:float32)) (exp2 x:float32))",
            [](double x) { return 3 * Slope(x); }},
        Row{"(mul (exp2 x:float32) (add (fdiv 3.0:float32 (add 1.0:float32 (exp2 x:float32))) (mul (mul (fdiv "
            "3.0:float32 (add 1.0:float32 (exp2 x:float32))) (fdiv (add (exp2 x:float32) -1.0:float32) (add "
            "1.0:float32 (exp2 x:float32)))) -1.0:float32)))",
            [](double x) { return 6 * Slope(x); }}));

// Two gradients of one exponential are one product with it.
TEST(StableSums, OfWhatIsAlikeAreOneProduct) {
  Graph graph;
  const std::string slope =
      "(mul (fdiv 3.0:float32 (add 1.0:float32 (exp2 x:float32))) (reciprocal (add 1.0:float32 (exp2 x:float32))))";
  UOp* before =
      testing::ParseExpression(graph, "(mul (exp2 x:float32) (add " + slope + " (mul " + slope + " 0.5:float32)))");
  EXPECT_TRUE(std::isnan(Evaluate(before, INFINITY)));
  UOp* after = MakeStable(graph, before);
  EXPECT_EQ(Evaluate(after, INFINITY), 0);
  for (float x : {-20.0f, -1.0f, 0.0f, 0.5f, 3.0f, 20.0f}) EXPECT_NEAR(Evaluate(after, x), 4.5 * Slope(x), 1e-6) << x;
}

// A difference that is one product, or stays one of two.
TEST(StableSums, AreThoseOfExponentialsInTheRightProportionAlone) {
  const auto sum = [](const std::string& x, const std::string& factor) {
    const std::string s = "(add 1.0:float32 " + x + ")";
    return "(add (fdiv 3.0:float32 " + s + ") (mul (fdiv 3.0:float32 " + s + ") (mul (fdiv " + x + " " + s + ") " +
           factor + ")))";
  };
  Graph graph;
  EXPECT_EQ(MakeStable(graph, testing::ParseExpression(graph, sum("(exp2 x:float32)", "-1.0:float32")))->op(), Op::MUL);
  for (const std::string& other : {sum("(exp2 x:float32)", "1.0:float32"), sum("(exp2 x:float32)", "-1.5:float32"),
                                   sum("x:float32", "-1.0:float32"), sum("(sin x:float32)", "-1.0:float32")}) {
    EXPECT_EQ(MakeStable(graph, testing::ParseExpression(graph, other))->op(), Op::ADD) << other;
  }
}

class StaysTest : public ::testing::TestWithParam<const char*> {};

TEST_P(StaysTest, Stays) {
  Graph graph;
  UOp* before = testing::ParseExpression(graph, GetParam());
  EXPECT_EQ(MakeStable(graph, before), before);
}

INSTANTIATE_TEST_SUITE_P(All, StaysTest,
                         ::testing::Values("(mul x:float32 (reciprocal (add x:float32 2.0:float32)))",
                                           "(mul y:float32 (reciprocal (add x:float32 1.0:float32)))",
                                           "(fdiv y:float32 (add x:float32 1.0:float32))",
                                           "(mul x:float32 (add x:float32 1.0:float32))",
                                           "(add x:float32 (reciprocal (add x:float32 1.0:float32)))",
                                           "(fdiv 1.0:float32 (add x:float32 1.0:float32))",
                                           "(mul x:int32 (add x:int32 1:int32))",
                                           // Of such a quotient a logarithm is made, of x near 1.
                                           "(fdiv (add x:float32 -1.0:float32) (add x:float32 1.0:float32))",
                                           "(fdiv (add x:float32 (mul 1.0:float32 -1.0:float32)) (add x:float32 "
                                           "1.0:float32))"));

}  // namespace
}  // namespace kiln::compiler
