#include "runtime/plan/sizes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln::runtime {
namespace {

using Token = std::pair<v1::SizeExpr::Op, int64_t>;

v1::SizeExpr Expr(const std::vector<Token>& tokens) {
  v1::SizeExpr expr;
  for (const auto& [op, value] : tokens) {
    expr.add_token()->set_op(op);
    expr.mutable_token(expr.token_size() - 1)->set_value(value);
  }
  return expr;
}

constexpr auto C = v1::SizeExpr::CONST, V = v1::SizeExpr::VARIABLE;

// max(v0 * v1, 3) + (v0 - 7) // 2.
v1::SizeExpr Long() {
  return Expr({{V, 0},
               {V, 1},
               {v1::SizeExpr::MUL, 0},
               {C, 3},
               {v1::SizeExpr::MAX, 0},
               {V, 0},
               {C, -7},
               {v1::SizeExpr::ADD, 0},
               {C, 2},
               {v1::SizeExpr::FLOORDIV, 0},
               {v1::SizeExpr::ADD, 0}});
}

TEST(SizeExpr, Values) {
  ASSERT_EQ(CheckSizeExpr(Long(), 2), "");
  EXPECT_EQ(SizeExpr(Long()).At({{5, 4}}), 20 - 1);
  EXPECT_EQ(SizeExpr(Long()).At({{0, 4}}), 3 - 4);
  EXPECT_EQ(SizeExpr(Expr({{V, 0}, {C, 0}, {v1::SizeExpr::FLOORDIV, 0}})).At({5}), 0);
  EXPECT_EQ(SizeExpr(Expr({{V, 0}, {C, 0}, {v1::SizeExpr::FLOORMOD, 0}})).At({5}), 5);
  EXPECT_EQ(SizeExpr(Expr({{V, 0}, {C, 3}, {v1::SizeExpr::FLOORMOD, 0}})).At({-1}), 2);
}

TEST(SizeExpr, FaultsAreFound) {
  EXPECT_NE(CheckSizeExpr(Expr({}), 1), "");
  EXPECT_NE(CheckSizeExpr(Expr({{V, 1}}), 1), "");
  EXPECT_NE(CheckSizeExpr(Expr({{V, -1}}), 1), "");
  EXPECT_NE(CheckSizeExpr(Expr({{C, 1}, {C, 1}}), 1), "");
  EXPECT_NE(CheckSizeExpr(Expr({{C, 1}, {v1::SizeExpr::ADD, 0}}), 1), "");
  EXPECT_NE(CheckSizeExpr(Expr({{static_cast<v1::SizeExpr::Op>(99), 0}}), 1), "");
  EXPECT_NE(CheckSizeExpr(Expr(std::vector<Token>(1000, {C, 1})), 1), "");
}

TEST(PlanShape, HasTheBytesOfTheValuesAtHand) {
  v1::Signature::Result result;
  result.add_shape(8);
  result.add_shape(3);
  result.set_bytes(8 * 3 * 4);
  result.add_symbolic()->set_axis(0);
  *result.mutable_symbolic(0)->mutable_size() = Expr({{V, 0}});
  const PlanShape shape(result, 4);
  EXPECT_EQ(shape.BytesAt({5}), 60u);
  EXPECT_EQ(shape.At({5}), (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(shape.BytesAt({0}), 0u);
}

TEST(CheckVariables, NamesVariableAndRange) {
  const std::vector<PlanVariable> plan = {{7, "n", 1, 10}};
  const std::vector<PlanCondition> conditions = {
      {SizeExpr(Expr({{C, 8}, {V, 0}, {C, -1}, {v1::SizeExpr::MUL, 0}, {v1::SizeExpr::ADD, 0}})), "SHRINK"}};
  EXPECT_TRUE(CheckVariables(plan, conditions, {8}).ok());
  const absl::Status over = CheckVariables(plan, conditions, {11});
  EXPECT_EQ(DetailOf(over)->code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(DetailOf(over)->slot(), 7u);
  EXPECT_NE(std::string(over.message()).find("n (slot 7, from 1 to 10): it cannot be 11"), std::string::npos) << over;
  const absl::Status unmet = CheckVariables(plan, conditions, {9});
  EXPECT_EQ(DetailOf(unmet)->code(), v1::OUT_OF_BOUNDS);
  EXPECT_EQ(DetailOf(unmet)->field(), "signature.conditions[0]");
  EXPECT_NE(std::string(unmet.message()).find("SHRINK where n = 9"), std::string::npos) << unmet;
  EXPECT_EQ(DetailOf(CheckVariables(plan, conditions, {}))->code(), v1::MISSING_ARGUMENT);
  EXPECT_EQ(DetailOf(CheckVariables(plan, conditions, {{1, 2}}))->code(), v1::UNKNOWN_ARGUMENT);
}

}  // namespace
}  // namespace kiln::runtime
