// Polynomials of variables as sizes, and graphs whose shapes are made of them. What such
// graphs compute: tests/client/symbolic_test.cc.
#include "client/cpp/size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.h"
#include "client/cpp/ops.h"

namespace kiln::client {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();

const Size kN(SizeVariable{0, "n", 1, 8});
const Size kM(SizeVariable{1, "m", 0, 5});

TEST(SizeTest, EqualPolynomialsAreEqual) {
  EXPECT_EQ(kN + kN, 2 * kN);
  EXPECT_EQ((kN + kM) * (kN - kM), kN * kN - kM * kM);
  EXPECT_NE(kN, kM);
  EXPECT_NE(kN, kN + 1);
  EXPECT_NE(kN, Size(SizeVariable{0, "n", 1, 9}));
  EXPECT_EQ((kN - kN).number(), 0);
  EXPECT_EQ((kN + 3 - kN).number(), 3);
  EXPECT_FALSE(kN.number().has_value());
}

TEST(SizeTest, TextIsReadable) {
  EXPECT_EQ((kN + kN + 1).Text(), "2*n + 1");
  EXPECT_EQ((kN - 1).Text(), "n - 1");
  EXPECT_EQ((0 - kN).Text(), "-1*n");
  EXPECT_EQ((3 * kM * kN).Text(), "3*n*m");
  EXPECT_EQ(Size(SizeVariable{7, "", 0, 1}).Text(), "v7");
  EXPECT_EQ(Size(kMinInt).Text(), "-9223372036854775808");
  EXPECT_EQ(ShapeText(Sizes{kN, 2}), "(n, 2)");
  EXPECT_EQ(ShapeText(Sizes{kN}), "(n,)");
  EXPECT_EQ(TypeText(v1::FLOAT32, Sizes{}), "float32 ()");
}

TEST(SizeTest, DivisionIsExactOrNone) {
  EXPECT_EQ((6 * kN).DividedBy(3), 2 * kN);
  EXPECT_EQ((kN * kN * kM).DividedBy(kN), kN * kM);
  EXPECT_EQ((kN + 1).DividedBy(kN + 1), 1);
  EXPECT_EQ(Size(0).DividedBy(kN), 0);
  EXPECT_EQ(Size(12).DividedBy(4), 3);
  EXPECT_EQ((6 * kN).DividedBy(4), std::nullopt);
  EXPECT_EQ((kN + 1).DividedBy(kN), std::nullopt);
  EXPECT_EQ(kN.DividedBy(kN * kN), std::nullopt);
  EXPECT_EQ(kN.DividedBy(0), std::nullopt);
  EXPECT_EQ(Size(kMinInt).DividedBy(-1), std::nullopt);
}

TEST(SizeTest, BoundsHoldForAllValues) {
  EXPECT_EQ((2 * kN + 1).least(), 3);
  EXPECT_EQ((2 * kN + 1).greatest(), 17);
  EXPECT_EQ((kN - kM).least(), -4);
  EXPECT_EQ((kN - kM).greatest(), 8);
  EXPECT_EQ((kN * kM).greatest(), 40);
  const Size huge(SizeVariable{2, "h", 0, kMaxInt});
  EXPECT_EQ((huge * huge).greatest(), kMaxInt);
  EXPECT_LE((0 - huge * huge).least(), -kMaxInt);
}

TEST(SizeTest, BeyondInt64IsNoSize) {
  for (const Size& size : {Size(kMaxInt) + 1, Size(kMaxInt) * 2, kN * kMaxInt * 2, Size(kMinInt) - 1}) {
    EXPECT_FALSE(size.valid());
    EXPECT_FALSE(size == size);
    EXPECT_FALSE((size * 0).valid());
    EXPECT_EQ(size.DividedBy(2), std::nullopt);
  }
  EXPECT_EQ((Sizes{kMaxInt, kMaxInt, 0}).Count(), 0);
}

TEST(SizesInGraphs, FollowFromTheOps) {
  Graph graph;
  const Size n = graph.Variable(1, 1, 8, "n");
  const Tensor x = graph.Param(0, v1::FLOAT32, {n, 2}, "x");
  EXPECT_EQ(x.sizes(), (Sizes{n, 2}));
  EXPECT_EQ(x.size(0), n);
  EXPECT_EQ(x.dim(1), 2);
  EXPECT_EQ(Reshape(x, {-1}).sizes(), (Sizes{2 * n}));
  EXPECT_EQ(Reshape(x, {2, -1, 1}).sizes(), (Sizes{2, n, 1}));
  EXPECT_EQ(Flatten(x).sizes(), (Sizes{2 * n}));
  EXPECT_EQ(Expand(Unsqueeze(x, 0), {n + 1, -1, -1}).sizes(), (Sizes{n + 1, n, 2}));
  EXPECT_EQ(Pad(x, {{1, n}, {0, 0}}).sizes(), (Sizes{2 * n + 1, 2}));
  EXPECT_EQ(Slice(x, 0, 1, std::numeric_limits<int64_t>::max()).sizes(), (Sizes{n - 1, 2}));
  EXPECT_EQ(Slice(x, 0, -1, n).sizes(), (Sizes{1, 2}));
  EXPECT_EQ(Concat({x, x}, 0).sizes(), (Sizes{2 * n, 2}));
  EXPECT_EQ(Stack({x, x}).sizes(), (Sizes{2, n, 2}));
  EXPECT_EQ(Repeat(x, {3, 1}).sizes(), (Sizes{3 * n, 2}));
  EXPECT_EQ(Sum(x, 0).sizes(), (Sizes{2}));
  EXPECT_EQ(Mean(x, 1, true).sizes(), (Sizes{n, 1}));
  EXPECT_EQ(Matmul(x, Transpose(x)).sizes(), (Sizes{n, n}));
  EXPECT_EQ((x + graph.Ones({n, 1}, v1::FLOAT32)).sizes(), (Sizes{n, 2}));
  EXPECT_EQ(Bitcast(x, v1::UINT8).sizes(), (Sizes{n, 8}));
  EXPECT_EQ(Conv2d(graph.Ones({n, 1, 4, 4}, v1::FLOAT32), graph.Ones({3, 1, 2, 2}, v1::FLOAT32)).sizes(),
            (Sizes{n, 3, 3, 3}));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
}

TEST(SizesInGraphs, AVariableIsAnInt32InItsSlot) {
  Graph graph;
  graph.Output(graph.Param(0, v1::FLOAT32, {graph.Variable(5, 2, 8, "n")}));
  const auto built = graph.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  ASSERT_EQ(built->nodes_size(), 5);  // (), n, (n,), x, TUPLE
  const v1::BufferArg& variable = built->nodes(1).buffer();
  EXPECT_EQ(variable.slot(), 5u);
  EXPECT_EQ(variable.dtype(), v1::INT32);
  EXPECT_EQ(variable.addrspace(), v1::ALU);
  EXPECT_EQ(variable.name(), "n");
  EXPECT_EQ(variable.min_value(), 2);
  EXPECT_EQ(variable.max_value(), 8);
}

// The same value is one node, of its own dtype, whoever made it first.
TEST(SizesInGraphs, ASizesNodesAreTensorsToo) {
  Graph graph;
  const Size n = graph.Variable(1, 1, 8, "n"), m = graph.Variable(2, 1, 8, "m");
  graph.Param(0, v1::FLOAT32, {n * m});
  EXPECT_EQ((graph.Number(n) * graph.Number(m)).dtype(), v1::INT32);
  const Size big = graph.Variable(3, 1, int64_t{1} << 20), bigger = graph.Variable(4, 1, int64_t{1} << 20);
  EXPECT_EQ(graph.Number(big * bigger, v1::FLOAT32).dtype(), v1::FLOAT32);
  EXPECT_EQ(graph.Number(7, v1::INT8).dtype(), v1::INT8);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
}

struct Mistake {
  v1::ErrorCode code;
  const char* text;
  // Of x (n, 2), n from 1 to 8 in slot 1.
  std::function<void(Graph&, Tensor, Size)> make;
};

TEST(SizesInGraphs, MistakesAreKept) {
  const Mistake kMistakes[] = {
      {v1::SHAPE_MISMATCH, "(n, 2) and (n + 1, 2) do not broadcast",
       [](Graph& graph, Tensor x, Size n) { x + graph.Ones({n + 1, 2}, v1::FLOAT32); }},
      {v1::SHAPE_MISMATCH, "does not divide", [](Graph&, Tensor x, Size) { Reshape(x, {3, -1}); }},
      {v1::SHAPE_MISMATCH, "has 2*n elements; (n,) has not", [](Graph&, Tensor x, Size n) { Reshape(x, {n}); }},
      {v1::SHAPE_MISMATCH, "[0, n + 1) is no part", [](Graph&, Tensor x, Size n) { Shrink(x, {{0, n + 1}, {0, 2}}); }},
      {v1::SHAPE_MISMATCH, "Expand", [](Graph&, Tensor x, Size n) { Expand(x, {n, n}); }},
      {v1::SHAPE_MISMATCH, "Pad", [](Graph&, Tensor x, Size n) { Pad(x, {{0 - n, 0}, {0, 0}}); }},
      {v1::SHAPE_MISMATCH, "axis 0 of (n, 2) must be a number", [](Graph&, Tensor x, Size) { CumSum(x, 0); }},
      {v1::SHAPE_MISMATCH, "axis 0 of (n, 2) must be a number", [](Graph&, Tensor x, Size n) { Slice(x, 0, 0, n, 2); }},
      {v1::SHAPE_MISMATCH, "the value (n + 1, 2)",
       [](Graph& graph, Tensor x, Size n) { graph.Update(x, graph.Ones({n + 1, 2}, v1::FLOAT32)); }},
      {v1::BAD_ARGUMENT, "axis 0 of (n, 2) depends on variables", [](Graph&, Tensor x, Size) { x.dim(0); }},
      {v1::BAD_ARGUMENT, "(n, 2) depends on variables", [](Graph&, Tensor x, Size) { BroadcastTo(x, x.shape()); }},
      {v1::BAD_ARGUMENT, "from 3 to 2", [](Graph& graph, Tensor, Size) { graph.Variable(2, 3, 2); }},
      {v1::BAD_ARGUMENT, "from -1 to 2", [](Graph& graph, Tensor, Size) { graph.Variable(2, -1, 2); }},
      {v1::SHAPE_MISMATCH, "slot 1 is the variable n from 1 to 8 already",
       [](Graph& graph, Tensor, Size) { graph.Variable(1, 1, 9, "n"); }},
      {v1::SHAPE_MISMATCH, "slot 0 is float32 (n, 2) already", [](Graph& g, Tensor, Size) { g.Variable(0, 1, 9); }},
      {v1::SHAPE_MISMATCH, "slot 1 is the variable n", [](Graph& g, Tensor, Size) { g.Param(1, v1::INT32, {}); }},
      {v1::SHAPE_MISMATCH, "slot 0 is float32 (n, 2) already, not float32 (8, 2)",
       [](Graph& graph, Tensor, Size) { graph.Param(0, v1::FLOAT32, {8, 2}); }},
      {v1::SIZE_OVERFLOW, "beyond int64",
       [](Graph& graph, Tensor, Size n) { graph.Param(2, v1::INT8, {n * kMaxInt * kMaxInt}); }},
      {v1::SIZE_OVERFLOW, "no size any memory could hold",
       [](Graph& graph, Tensor, Size n) { graph.Param(2, v1::INT32, {n * kMaxInt}); }},
      {v1::UNSUPPORTED_SHARD, "n rows are not 2 equal shares",
       [](Graph&, Tensor x, Size) { CopyTo(x, {"CPU:0", "CPU:1"}); }},
  };
  for (const Mistake& mistake : kMistakes) {
    Graph graph;
    const Size n = graph.Variable(1, 1, 8, "n");
    mistake.make(graph, graph.Param(0, v1::FLOAT32, {n, 2}, "x"), n);
    const auto detail = DetailOf(graph.status());
    ASSERT_TRUE(detail.has_value()) << mistake.text << ": " << graph.status();
    EXPECT_EQ(detail->code(), mistake.code) << graph.status();
    EXPECT_THAT(graph.status().message(), HasSubstr(mistake.text));
  }
}

}  // namespace
}  // namespace kiln::client
