#include "compiler/structure/product_box.h"

#include <gtest/gtest.h>

#include "compiler/testing/expression_text.h"

namespace kiln::compiler {
namespace {

TEST(PlaceForm, SumsOfMultiples) {
  Graph graph;
  const auto form = [&](const char* text) { return PlaceFormOf(testing::ParseExpression(graph, text)); };
  UOp* const a = testing::ParseExpression(graph, "a:int64");
  PlaceForm sum = form("(add (mul (add a:int64 3) 8) (add b:int64 (mul (mul b:int64 2) 5)))");
  EXPECT_EQ(sum.constant, 24);
  ASSERT_EQ(sum.terms.size(), 2u);
  EXPECT_EQ(sum.terms[0], (std::pair<const UOp*, int64_t>{a, 8}));
  EXPECT_EQ(sum.terms[1].second, 11);
  sum.Add(form("(mul a:int64 2)"), -4);
  ASSERT_EQ(sum.terms.size(), 1u);
  EXPECT_EQ(sum.terms[0].second, 11);
  // What is no such sum is a node of its own.
  EXPECT_EQ(form("(mul a:int64 b:int64)").terms.size(), 1u);
  EXPECT_EQ(form("(floordiv a:int64 4)").terms.size(), 1u);
}

// Of a matrix of 100 rows, 64 deep, whose group begins at `place`.
std::optional<ProductBox> Box(const char* place, int64_t step = 72, int64_t step_k = 1) {
  Graph graph;
  return BoxOf(PlaceFormOf(testing::ParseExpression(graph, place)), 100, step, step_k, 64);
}

TEST(ProductBox, OfWhatTheEngineTakes) {
  const auto rows = Box("16");
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->begin, 16);
  EXPECT_EQ(rows->matrices, 1);
  EXPECT_FALSE(rows->rows_beside_each_other);
  EXPECT_EQ(rows->inner, 64);
  EXPECT_EQ(rows->outer, 100);
  EXPECT_EQ(rows->step, 72);
  const auto columns = Box("0", 1, 104);
  ASSERT_TRUE(columns.has_value());
  EXPECT_TRUE(columns->rows_beside_each_other);
  EXPECT_EQ(columns->inner, 100);
  EXPECT_EQ(columns->outer, 64);
  EXPECT_EQ(columns->step, 104);
  const auto several = Box("(add (mul r6 7200) 8)");
  ASSERT_TRUE(several.has_value());
  EXPECT_EQ(several->begin, 8);
  EXPECT_EQ(several->matrices, 6);
  EXPECT_EQ(several->matrix_step, 7200);
}

TEST(ProductBox, OfNothingElse) {
  EXPECT_FALSE(Box("4").has_value());                                // begins beside a multiple of 16 bytes
  EXPECT_FALSE(Box("-8").has_value());                               // before the buffer
  EXPECT_FALSE(Box("0", 68).has_value());                            // rows that do
  EXPECT_FALSE(Box("0", -72).has_value());                           // in reverse
  EXPECT_FALSE(Box("0", 72, 2).has_value());                         // no neighbours
  EXPECT_FALSE(Box("0", 1, 1).has_value());                          // rows that overlap
  EXPECT_FALSE(Box("0", int64_t{1} << 39).has_value());              // too far apart
  EXPECT_FALSE(Box("(mul r6 7204)").has_value());                    // matrices that begin beside
  EXPECT_FALSE(Box("(mul (add r6 -1) 7200)").has_value());           // before the buffer
  EXPECT_FALSE(Box("(mul x:int64 7200)").has_value());               // nobody knows how many
  EXPECT_FALSE(Box("(add (mul r6 7200) (mul r4 80))").has_value());  // two axes of matrices
}

}  // namespace
}  // namespace kiln::compiler
