// Each op's dtype and shape, and each way in which it may be refused.
#include "compiler/ir/infer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

// Nodes that every row builds on.
constexpr char kPrelude[] =
    "0 CONST [] weakint 2\n"
    "1 CONST [] weakint 3\n"
    "2 STACK [0, 1]\n"                    // the shape (2, 3)
    "3 PARAM [2] slot=0 dtype=float32\n"  // f: (2, 3)
    "4 PARAM [2] slot=1 dtype=int32\n"    // i: (2, 3)
    "5 STACK []\n"                        // the shape ()
    "6 PARAM [5] slot=2 dtype=bool\n"     // b: ()
    "7 STACK [1, 0]\n"                    // the shape (3, 2)
    "8 CONST [] weakint 0\n"
    "9 STACK [8, 8]\n"                    // the offset (0, 0)
    "10 STACK [1]\n"                      // the shape (3,)
    "11 PARAM [10] slot=3 dtype=int64\n"  // j: (3,)
    "12 CONST [] float32 0.5\n"
    "13 CONST [] weakint 4611686018427387904\n"  // 2^62
    "14 CONST [] weakint -1\n";
constexpr int kFirst = 15;

absl::StatusOr<UOp*> Read(Graph& graph, const std::string& lines) {
  const auto wire = ParseGraph(std::string(kPrelude) + lines);
  if (!wire.ok()) return wire.status();
  return FromWire(*wire, Limits(), graph);
}

struct Good {
  const char* lines;
  DType dtype;
  Shape shape;
};

class InferTest : public ::testing::TestWithParam<Good> {};

TEST_P(InferTest, Derives) {
  Graph graph;
  const auto root = Read(graph, GetParam().lines);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ((*root)->dtype(), GetParam().dtype) << Name((*root)->dtype());
  EXPECT_EQ((*root)->shape(), GetParam().shape) << ToString((*root)->shape());
}

INSTANTIATE_TEST_SUITE_P(
    Ops, InferTest,
    ::testing::Values(
        Good{"15 ADD [3, 12]", DType::kFloat32, {2, 3}}, Good{"15 CMPLT [4, 4]", DType::kBool, {2, 3}},
        Good{"15 WHERE [6, 3, 12]", DType::kFloat32, {2, 3}}, Good{"15 CAST [3] to=int8", DType::kInt8, {2, 3}},
        Good{"15 PERMUTE [3] axes=(1, 0)", DType::kFloat32, {3, 2}}, Good{"15 RESHAPE [3, 7]", DType::kFloat32, {3, 2}},
        Good{"15 FLIP [3] flip=(1, 0)", DType::kFloat32, {2, 3}},
        Good{"15 REDUCE [3] ADD axes=(1)", DType::kFloat32, {2, 1}},
        Good{"15 REDUCE [6] MAX axes=()", DType::kBool, {}}, Good{"15 STACK [3, 3]", DType::kFloat32, {2, 2, 3}},
        Good{"15 INDEX [3, 0]", DType::kFloat32, {3}}, Good{"15 INDEX [3, 11]", DType::kFloat32, {3, 3}},
        Good{"15 INDEX [3, 4, 11]", DType::kFloat32, {2, 3, 3}}, Good{"15 INDEX [3]", DType::kFloat32, {2, 3}},
        Good{"15 BITCAST [3] to=uint8", DType::kUint8, {2, 12}}, Good{"15 BITCAST [3] to=int32", DType::kInt32, {2, 3}},
        Good{"15 STORE [3, 12]", DType::kVoid, {}}, Good{"15 STORE [3, 3]\n16 AFTER [3, 15]", DType::kFloat32, {2, 3}},
        Good{"15 LOAD [3, 12, 6]", DType::kFloat32, {2, 3}},
        Good{"15 TUPLE [3, 4]\n16 GETTUPLE [15] index=1", DType::kInt32, {2, 3}},
        Good{"15 CONST [] weakint 5\n16 STACK [15, 15]\n17 PAD [3, 9, 16]", DType::kFloat32, {5, 5}},
        Good{"15 CONST [] weakint 1\n16 STACK [15, 0]\n17 SHRINK [3, 9, 16]", DType::kFloat32, {1, 2}},
        Good{"15 CONST [] weakint 1\n16 STACK [15, 1]\n17 REDUCE [3] ADD axes=(0)\n18 EXPAND [17, 2]",
             DType::kFloat32,
             {2, 3}},
        Good{"15 BINARY [] data=\"abcd\"", DType::kUint8, {4}}));

struct Bad {
  const char* lines;
  v1::ErrorCode code;
};

class InferErrorTest : public ::testing::TestWithParam<Bad> {};

// The last node is the one at fault, and named.
TEST_P(InferErrorTest, Refuses) {
  Graph graph;
  const auto root = Read(graph, GetParam().lines);
  ASSERT_FALSE(root.ok());
  const auto detail = DetailOf(root.status());
  ASSERT_TRUE(detail.has_value()) << root.status();
  EXPECT_EQ(v1::ErrorCode_Name(detail->code()), v1::ErrorCode_Name(GetParam().code)) << root.status();
  EXPECT_GE(detail->node(), static_cast<uint32_t>(kFirst));
  EXPECT_NE(detail->op(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Counts, InferErrorTest,
    ::testing::Values(Bad{"15 ADD [3]", v1::WRONG_SOURCE_COUNT}, Bad{"15 SQRT [3, 3]", v1::WRONG_SOURCE_COUNT},
                      Bad{"15 SUB [3]", v1::WRONG_SOURCE_COUNT}, Bad{"15 MULACC [3, 3]", v1::WRONG_SOURCE_COUNT},
                      Bad{"15 LOAD [3, 3, 6, 6]", v1::WRONG_SOURCE_COUNT}, Bad{"15 STORE [3]", v1::WRONG_SOURCE_COUNT},
                      Bad{"15 INDEX []", v1::WRONG_SOURCE_COUNT}));

INSTANTIATE_TEST_SUITE_P(
    Arguments, InferErrorTest,
    ::testing::Values(
        Bad{"15 CAST [3]", v1::BAD_ARGUMENT}, Bad{"15 PAD [3, 9, 2] float32 invalid", v1::BAD_ARGUMENT},
        Bad{"15 PERMUTE [3] flip=(1, 0)", v1::BAD_ARGUMENT}, Bad{"15 NEG [3] axes=(0)", v1::BAD_ARGUMENT},
        Bad{"15 ADD [3, 3] load", v1::BAD_ARGUMENT}, Bad{"15 ADD [3, 3] axes=(0)", v1::BAD_ARGUMENT},
        Bad{"15 PERMUTE [3] axes=(0, 0)", v1::BAD_ARGUMENT}, Bad{"15 PERMUTE [3] axes=(0)", v1::BAD_ARGUMENT},
        Bad{"15 PERMUTE [3] axes=(0, 2)", v1::BAD_ARGUMENT}, Bad{"15 FLIP [3] flip=(1)", v1::BAD_ARGUMENT},
        Bad{"15 REDUCE [3] ADD axes=(2)", v1::BAD_ARGUMENT}, Bad{"15 REDUCE [3] ADD axes=(-1)", v1::BAD_ARGUMENT},
        Bad{"15 REDUCE [3] XOR axes=(0)", v1::BAD_ARGUMENT}, Bad{"15 GETTUPLE [3] index=0", v1::BAD_ARGUMENT},
        Bad{"15 TUPLE [3]\n16 GETTUPLE [15] index=1", v1::BAD_ARGUMENT},
        Bad{"15 STACK [14]\n16 PARAM [15] slot=5 dtype=int32", v1::BAD_ARGUMENT}));

INSTANTIATE_TEST_SUITE_P(
    DTypes, InferErrorTest,
    ::testing::Values(Bad{"15 ADD [3, 4]", v1::DTYPE_MISMATCH}, Bad{"15 XOR [3, 3]", v1::DTYPE_MISMATCH},
                      Bad{"15 SQRT [4]", v1::DTYPE_MISMATCH}, Bad{"15 THREEFRY [4, 4]", v1::DTYPE_MISMATCH},
                      Bad{"15 WHERE [4, 3, 3]", v1::DTYPE_MISMATCH}, Bad{"15 WHERE [6, 3, 4]", v1::DTYPE_MISMATCH},
                      Bad{"15 STACK [3, 4]", v1::DTYPE_MISMATCH}, Bad{"15 INDEX [3, 12]", v1::DTYPE_MISMATCH},
                      Bad{"15 STORE [3, 4]", v1::DTYPE_MISMATCH}, Bad{"15 STORE [3, 3, 4]", v1::DTYPE_MISMATCH},
                      Bad{"15 LOAD [3, 4, 6]", v1::DTYPE_MISMATCH},
                      Bad{"15 PAD [3, 9, 2] fill=int32 0", v1::DTYPE_MISMATCH},
                      Bad{"15 STORE [3, 3]\n16 RESHAPE [15, 5]", v1::DTYPE_MISMATCH},
                      Bad{"15 STORE [3, 3]\n16 ADD [15, 15]", v1::DTYPE_MISMATCH},
                      Bad{"15 ADD : int32 [3, 3]", v1::DTYPE_MISMATCH}, Bad{"15 TUPLE [5]", v1::DTYPE_MISMATCH}));

INSTANTIATE_TEST_SUITE_P(
    Shapes, InferErrorTest,
    ::testing::Values(Bad{"15 PERMUTE [4] axes=(1, 0)\n16 ADD [4, 15]", v1::SHAPE_MISMATCH},
                      Bad{"15 RESHAPE [3, 10]", v1::SHAPE_MISMATCH}, Bad{"15 EXPAND [3, 7]", v1::SHAPE_MISMATCH},
                      Bad{"15 PAD [3, 9, 7]", v1::SHAPE_MISMATCH}, Bad{"15 SHRINK [3, 2, 2]", v1::SHAPE_MISMATCH},
                      Bad{"15 SHRINK [3, 9, 10]", v1::SHAPE_MISMATCH}, Bad{"15 STACK [3, 12]", v1::SHAPE_MISMATCH},
                      Bad{"15 INDEX [3, 0, 0, 0]", v1::SHAPE_MISMATCH},
                      Bad{"15 BITCAST [3] to=float64", v1::SHAPE_MISMATCH},
                      Bad{"15 BITCAST [12] to=uint8", v1::SHAPE_MISMATCH}, Bad{"15 STORE [12, 3]", v1::SHAPE_MISMATCH},
                      Bad{"15 CMPLT [3, 3]\n16 STORE [12, 12, 15]", v1::SHAPE_MISMATCH},
                      Bad{"15 LOAD [12, 3, 6]", v1::SHAPE_MISMATCH}));

INSTANTIATE_TEST_SUITE_P(
    Sizes, InferErrorTest,
    ::testing::Values(Bad{"15 STACK [13]\n16 PARAM [15] slot=5 dtype=int32", v1::SIZE_OVERFLOW},
                      Bad{"15 STACK [13, 13, 13]\n16 PARAM [15] slot=5 dtype=int8", v1::SIZE_OVERFLOW},
                      Bad{"15 STACK [13, 8]\n16 PARAM [15] slot=5 dtype=int8", v1::SIZE_OVERFLOW},
                      Bad{"15 REDUCE [4] ADD axes=(0, 1)\n16 STACK [13, 0]\n17 EXPAND [15, 16]", v1::SIZE_OVERFLOW}));

INSTANTIATE_TEST_SUITE_P(Unbuilt, InferErrorTest,
                         ::testing::Values(Bad{"15 CUSTOM []", v1::NOT_ALLOWED},
                                           Bad{"15 STACK [4, 4]\n16 PARAM [15] slot=5 dtype=int8", v1::BAD_ARGUMENT}));

TEST(Broadcast, RightAlignedEqualOrOne) {
  EXPECT_EQ(*Broadcast({2, 3}, {3}), Shape({2, 3}));
  EXPECT_EQ(*Broadcast({2, 1}, {1, 5}), Shape({2, 5}));
  EXPECT_EQ(*Broadcast({}, {4}), Shape{4});
  EXPECT_EQ(*Broadcast({0}, {1}), Shape{0});
  EXPECT_FALSE(Broadcast({0}, {2}).ok());
  EXPECT_FALSE(Broadcast({2, 3}, {2}).ok());
}

}  // namespace
}  // namespace kiln::compiler
