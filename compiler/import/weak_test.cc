#include "compiler/import/weak.h"

#include <gtest/gtest.h>

#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

TEST(Meet, TheStrongOneWins) {
  EXPECT_EQ(Meet(DType::kInt8, DType::kInt8), DType::kInt8);
  EXPECT_EQ(Meet(DType::kWeakint, DType::kUint8), DType::kUint8);
  EXPECT_EQ(Meet(DType::kFloat16, DType::kWeakint), DType::kFloat16);
  EXPECT_EQ(Meet(DType::kWeakfloat, DType::kBfloat16), DType::kBfloat16);
  EXPECT_EQ(Meet(DType::kWeakfloat, DType::kInt32), DType::kFloat32);
  EXPECT_EQ(Meet(DType::kWeakint, DType::kBool), DType::kInt32);
  EXPECT_EQ(Meet(DType::kWeakint, DType::kWeakfloat), DType::kWeakfloat);
  EXPECT_EQ(Meet(DType::kInt8, DType::kInt16), DType::kNone);
}

// What the root's first source of a graph is read as.
UOp* FirstSource(Graph& graph, const std::string& lines) {
  const auto wire =
      ParseGraph("0 STACK []\n1 PARAM [0] slot=0 dtype=float16\n2 PARAM [0] slot=1 dtype=uint8\n" + lines);
  EXPECT_TRUE(wire.ok()) << wire.status();
  const auto root = FromWire(*wire, Limits(), graph);
  EXPECT_TRUE(root.ok()) << root.status();
  return (*root)->src(0);
}

TEST(Weak, AConstantTakesItsPartnersDType) {
  Graph graph;
  EXPECT_EQ(FirstSource(graph, "3 CONST [] weakfloat 0.1\n4 ADD [1, 3]\n5 TUPLE [4]")->src(1),
            ConstNumber(graph, DType::kFloat16, 0.1));
  EXPECT_EQ(FirstSource(graph, "3 CONST [] weakint -1\n4 MUL [3, 2]\n5 TUPLE [4]")->src(0),
            ConstInt(graph, DType::kUint8, 255));
}

TEST(Weak, AnExpressionKeepsItsValueUntilItMeets) {
  Graph graph;
  // 0.1 + 0.2 in float16, not in float32 first.
  UOp* sum =
      FirstSource(graph, "3 CONST [] weakfloat 0.1\n4 CONST [] weakfloat 0.2\n5 ADD [3, 4]\n6 ADD [1, 5]\n7 TUPLE [6]");
  EXPECT_EQ(sum->src(1)->src(0), ConstNumber(graph, DType::kFloat16, 0.1));
  EXPECT_EQ(sum->dtype(), DType::kFloat16);
}

TEST(Weak, DefaultsWhereNothingStrongDecides) {
  Graph graph;
  EXPECT_EQ(FirstSource(graph, "3 CONST [] weakint 7\n4 TUPLE [3]")->dtype(), DType::kInt32);
  EXPECT_EQ(FirstSource(graph, "3 CONST [] weakint 2147483648\n4 TUPLE [3]")->dtype(), DType::kInt64);
  EXPECT_EQ(FirstSource(graph, "3 CONST [] weakfloat 7.5\n4 TUPLE [3]")->dtype(), DType::kFloat32);
}

TEST(Weak, StoresAndLoadsTakeTheMemorysDType) {
  Graph graph;
  EXPECT_EQ(FirstSource(graph, "3 CONST [] weakint 3\n4 STORE [1, 3]\n5 SINK [4]")->src(1),
            ConstNumber(graph, DType::kFloat16, 3));
  EXPECT_EQ(FirstSource(graph, "3 CONST [] weakint 3\n4 CONST [] bool true\n5 LOAD [1, 3, 4]\n6 TUPLE [5]")->src(1),
            ConstNumber(graph, DType::kFloat16, 3));
}

TEST(Weak, ACastTakesTheExactValue) {
  Graph graph;
  EXPECT_EQ(FirstSource(graph, "3 CONST [] weakfloat 300.7\n4 CAST [3] to=uint8\n5 TUPLE [4]"),
            ConstInt(graph, DType::kUint8, 255));
}

}  // namespace
}  // namespace kiln::compiler
