#include "server/engine/programs/program_rows.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

// A leading size of 2 * variable `variable`.
template <typename Tensor>
void SetRows(Tensor* tensor, int64_t variable, uint32_t axis = 0) {
  auto* symbolic = tensor->add_symbolic();
  symbolic->set_axis(axis);
  for (const auto& [op, value] : std::initializer_list<std::pair<v1::SizeExpr::Op, int64_t>>{
           {v1::SizeExpr::CONST, 2}, {v1::SizeExpr::VARIABLE, variable}, {v1::SizeExpr::MUL, 0}}) {
    auto* token = symbolic->mutable_size()->add_token();
    token->set_op(op);
    token->set_value(value);
  }
}

TEST(ProgramRowsTest, WhatDependsOnTheVariableHasRows) {
  v1::Signature signature;
  signature.add_variables()->set_max_value(9);
  v1::Signature::Variable* rows = signature.add_variables();
  rows->set_max_value(64);
  EXPECT_FALSE(RowsOf(signature).has_value());
  rows->set_row_wise(true);
  SetRows(signature.add_parameters(), 1);
  SetRows(signature.add_parameters(), 0);       // another variable's
  SetRows(signature.add_parameters(), 0, 1);    // and on another axis,
  SetRows(signature.mutable_parameters(2), 1);  // beside rows
  signature.add_parameters();
  signature.add_results();
  SetRows(signature.add_results(), 1);

  const std::optional<ProgramRows> found = RowsOf(signature);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->variable, 1u);
  EXPECT_EQ(found->most, 64);
  EXPECT_EQ(found->parameters, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(found->results, (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace kiln::server
