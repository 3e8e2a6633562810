// The builder makes the messages it should; what they compute is for tests/e2e.
#include "client/cpp/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "client/cpp/ops.h"

namespace kiln::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "0 STACK(); 1 PARAM(0); ..."
std::string Listing(const Graph& graph) {
  const auto message = graph.Build();
  if (!message.ok()) return message.status().ToString();
  std::string text;
  for (int i = 0; i < message->nodes_size(); ++i) {
    const v1::UOp& uop = message->nodes(i);
    absl::StrAppend(&text, i == 0 ? "" : "; ", i, " ", v1::Op_Name(uop.op()), "(", absl::StrJoin(uop.src(), ","), ")");
    if (uop.has_constant()) absl::StrAppend(&text, "=", uop.constant().ShortDebugString());
  }
  return text;
}

void ExpectError(const Graph& graph, v1::ErrorCode code, absl::string_view message) {
  const auto built = graph.Build();
  ASSERT_FALSE(built.ok()) << message;
  const auto detail = DetailOf(built.status());
  ASSERT_TRUE(detail.has_value()) << built.status();
  EXPECT_EQ(detail->code(), code) << built.status();
  EXPECT_THAT(built.status().message(), HasSubstr(message));
}

TEST(GraphTest, ANumberTakesTheTensorsDType) {
  Graph graph;
  graph.Output(graph.Param(3, v1::FLOAT32, {2}, "x") * 0.5 + 1);
  EXPECT_EQ(Listing(graph),
            "0 CONST()=dtype: WEAKINT i: 2; 1 STACK(0); 2 PARAM(1); 3 CONST()=dtype: FLOAT32 f: 0.5; 4 MUL(2,3); "
            "5 CONST()=dtype: FLOAT32 f: 1; 6 ADD(4,5); 7 TUPLE(6)");
  const v1::BufferArg param = graph.Build()->nodes(2).buffer();
  EXPECT_EQ(param.slot(), 3u);
  EXPECT_EQ(param.dtype(), v1::FLOAT32);
  EXPECT_EQ(param.name(), "x");
}

TEST(GraphTest, EqualNodesAreOneAndUnusedNodesDoNotTravel) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::INT32, {});
  Exp(Cast(x, v1::FLOAT64));
  graph.Output((x + 1) * (x + 1));
  graph.Output(x + 1);
  EXPECT_EQ(Listing(graph), "0 STACK(); 1 PARAM(0); 2 CONST()=dtype: INT32 i: 1; 3 ADD(1,2); 4 MUL(3,3); 5 TUPLE(4,3)");
}

TEST(GraphTest, ConstantsAreExact) {
  Graph graph;
  graph.Output(graph.Constant(int64_t{-9223372036854775807} - 1, v1::INT64));
  graph.Output(graph.Constant(~uint64_t{0}, v1::UINT64));
  graph.Output(graph.Constant(true, v1::BOOL));
  graph.Output(graph.Constant(-0.0, v1::FLOAT16));
  graph.Output(graph.Constant(255.0, v1::UINT8));
  EXPECT_EQ(Listing(graph),
            "0 CONST()=dtype: INT64 i: -9223372036854775808; 1 CONST()=dtype: UINT64 u: 18446744073709551615; "
            "2 CONST()=dtype: BOOL b: true; 3 CONST()=dtype: FLOAT16 f: -0; 4 CONST()=dtype: UINT8 u: 255; "
            "5 TUPLE(0,1,2,3,4)");
}

TEST(GraphTest, AConstantMustFit) {
  for (const auto& [value, dtype] : std::vector<std::pair<double, v1::DType>>{
           {0.5, v1::INT32}, {256, v1::UINT8}, {-1, v1::UINT64}, {-129, v1::INT8}, {2, v1::BOOL}, {1e30, v1::INT64}}) {
    Graph graph;
    graph.Output(graph.Constant(value, dtype));
    ExpectError(graph, v1::BAD_ARGUMENT, absl::StrCat("is no ", DTypeName(dtype)));
  }
}

TEST(GraphTest, AssignIsAStoreAndAnAfter) {
  Graph graph;
  const Tensor w = graph.Param(0, v1::FLOAT32, {});
  graph.Output(graph.Assign(w, w - 1));
  graph.Update(w, w + 2);
  EXPECT_EQ(Listing(graph),
            "0 STACK(); 1 PARAM(0); 2 CONST()=dtype: FLOAT32 f: 1; 3 SUB(1,2); 4 STORE(1,3); 5 AFTER(1,4); "
            "6 CONST()=dtype: FLOAT32 f: 2; 7 ADD(1,6); 8 STORE(1,7); 9 TUPLE(5,8)");
}

TEST(GraphTest, ReducedAxesAreReshapedAway) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {2, 3, 4});
  EXPECT_THAT(Sum(x, {0, -1}).shape(), ElementsAre(3));
  EXPECT_THAT(Max(x, 1, true).shape(), ElementsAre(2, 1, 4));
  EXPECT_THAT(Mean(x).shape(), ElementsAre());
  graph.Output(Sum(x, -1));
  const auto message = graph.Build();
  ASSERT_TRUE(message.ok()) << message.status();
  const v1::UOp& reduce = message->nodes(5);
  EXPECT_EQ(reduce.op(), v1::REDUCE);
  EXPECT_EQ(reduce.reduce().op(), v1::ADD);
  EXPECT_THAT(reduce.reduce().axis(), ElementsAre(2));
  EXPECT_EQ(message->nodes(message->nodes_size() - 2).op(), v1::RESHAPE);
}

TEST(GraphTest, PadCarriesItsFill) {
  Graph graph;
  graph.Output(Pad(graph.Param(0, v1::INT8, {2}), {{1, 3}}, -5));
  const auto message = graph.Build();
  ASSERT_TRUE(message.ok()) << message.status();
  const v1::UOp& pad = message->nodes(message->nodes_size() - 2);
  EXPECT_EQ(pad.op(), v1::PAD);
  EXPECT_EQ(pad.pad().fill().i(), -5);
  EXPECT_EQ(pad.pad().fill().dtype(), v1::INT8);
}

TEST(GraphTest, ShapesOfTheUsualFunctions) {
  Graph graph;
  auto param = [&, slot = 0u](Shape shape, v1::DType dtype = v1::FLOAT32) mutable {
    return graph.Param(slot++, dtype, shape);
  };
  const Tensor image = param({2, 6, 9, 8});
  EXPECT_THAT(Conv2d(image, param({4, 6, 3, 3})).shape(), ElementsAre(2, 4, 7, 6));
  EXPECT_THAT(
      Conv2d(image, param({4, 2, 3, 2}), param({4}), {.stride = {2, 3}, .padding = {1, 1}, .groups = 2}).shape(),
      ElementsAre());  // 6 / 2 channels each, not 2: an error
  EXPECT_THAT(MaxPool2d(image).shape(), ElementsAre(2, 6, 4, 4));
  const Tensor a = param({5, 1, 3, 4}), b = param({2, 4, 7}), ids = param({3, 2}, v1::INT64);
  EXPECT_THAT(Matmul(a, b).shape(), ElementsAre(5, 2, 3, 7));
  EXPECT_THAT(Embedding(b, ids).shape(), ElementsAre(3, 2, 4, 7));
  EXPECT_THAT(OneHot(ids, 9, v1::FLOAT32).shape(), ElementsAre(3, 2, 9));
  EXPECT_THAT(Concat({a, a}, -1).shape(), ElementsAre(5, 1, 3, 8));
  EXPECT_THAT(Stack({a, a}, -1).shape(), ElementsAre(5, 1, 3, 4, 2));
  EXPECT_THAT(Slice(b, 2, -6, 7, 2).shape(), ElementsAre(2, 4, 3));
  EXPECT_THAT(SlidingWindow(b, 2, {.size = 3, .stride = 2, .dilation = 2}).shape(), ElementsAre(2, 4, 2, 3));
  EXPECT_THAT(graph.Arange(1000).shape(), ElementsAre(1000));
  ExpectError(graph, v1::SHAPE_MISMATCH, "Conv2d: an image of (2, 6, 9, 8) and a weight of (4, 2, 3, 2)");
}

TEST(GraphTest, TheFirstErrorIsTheOneReported) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {2, 3});
  const Tensor bad = Matmul(x, x);
  EXPECT_FALSE(bad.valid());
  EXPECT_FALSE(Softmax(bad + 1, 7).valid());
  graph.Output(Reshape(x, {5}));
  graph.Output(bad);
  ExpectError(graph, v1::SHAPE_MISMATCH, "Matmul: (2, 3) times (2, 3): the inner axes, 3 and 2, must be equal");
}

TEST(GraphTest, ErrorsSayWhatWouldBeRight) {
  struct Case {
    std::function<Tensor(Graph&, Tensor x, Tensor i)> make;
    v1::ErrorCode code;
    const char* message;
  };
  const Case cases[] = {
      {[](Graph&, Tensor x, Tensor i) { return x + i; }, v1::DTYPE_MISMATCH, "float32 and int32; Cast one"},
      {[](Graph& g, Tensor x, Tensor) { return x + g.Zeros({3, 2}, v1::FLOAT32); }, v1::SHAPE_MISMATCH,
       "do not broadcast"},
      {[](Graph&, Tensor, Tensor i) { return Sqrt(i); }, v1::DTYPE_MISMATCH, "takes floats, not int32"},
      {[](Graph&, Tensor x, Tensor) { return x & x; }, v1::DTYPE_MISMATCH, "takes integers or bool"},
      {[](Graph&, Tensor x, Tensor) { return Where(x, x, x); }, v1::DTYPE_MISMATCH, "the condition must be bool"},
      {[](Graph&, Tensor x, Tensor) { return Where(x < 0, 1, 2); }, v1::BAD_ARGUMENT, "make one of them with Constant"},
      {[](Graph&, Tensor x, Tensor) { return Reshape(x, {4, -1}); }, v1::SHAPE_MISMATCH,
       "does not divide into (4, -1)"},
      {[](Graph&, Tensor x, Tensor) { return Permute(x, {0, 0}); }, v1::SHAPE_MISMATCH, "axis 0 is there twice"},
      {[](Graph&, Tensor x, Tensor) { return Expand(x, {2, 6}); }, v1::SHAPE_MISMATCH, "only axes of size 1 stretch"},
      {[](Graph&, Tensor x, Tensor) { return Shrink(x, {{0, 2}, {1, 4}}); }, v1::SHAPE_MISMATCH, "[1, 4) is no part"},
      {[](Graph&, Tensor x, Tensor) { return Sum(x, 2); }, v1::BAD_ARGUMENT, "no axis 2 in a tensor of rank 2"},
      {[](Graph&, Tensor x, Tensor) { return Index(x, {x}); }, v1::DTYPE_MISMATCH, "an index is an integer"},
      {[](Graph&, Tensor x, Tensor) { return Bitcast(x, v1::FLOAT64); }, v1::SHAPE_MISMATCH,
       "no whole number of float64"},
      {[](Graph& g, Tensor x, Tensor) { return g.Assign(x * 2, x); }, v1::BAD_ARGUMENT, "only a parameter"},
      {[](Graph& g, Tensor x, Tensor) { return g.Assign(x, Sum(x)); }, v1::SHAPE_MISMATCH, "the value ()"},
      {[](Graph& g, Tensor, Tensor) { return g.Param(0, v1::INT8, {2, 3}); }, v1::SHAPE_MISMATCH, "slot 0 is float32"},
      {[](Graph& g, Tensor, Tensor) { return g.Ones({1 << 30, 1 << 30, 1 << 30}, v1::INT8); }, v1::SIZE_OVERFLOW,
       "no size"},
      {[](Graph&, Tensor x, Tensor) { return Pad(x, {{0, 0}, {-1, 0}}); }, v1::SHAPE_MISMATCH, "Shrink takes away"},
      {[](Graph&, Tensor x, Tensor) { return SlidingWindow(x, 1, {.size = 4}); }, v1::SHAPE_MISMATCH, "is longer than"},
  };
  for (const Case& c : cases) {
    Graph graph;
    const Tensor x = graph.Param(0, v1::FLOAT32, {2, 3}), i = graph.Param(1, v1::INT32, {2, 3});
    graph.Output(c.make(graph, x, i));
    ExpectError(graph, c.code, c.message);
  }
}

TEST(GraphTest, AGraphNeedsAResult) {
  Graph graph;
  graph.Param(0, v1::FLOAT32, {});
  ExpectError(graph, v1::BAD_ROOT, "neither a result (Output) nor an update");
  graph.Output(Tensor());
  ExpectError(graph, v1::BAD_ARGUMENT, "never made");
}

TEST(GraphTest, TagsTravel) {
  Graph graph;
  graph.Output((graph.Param(0, v1::FLOAT32, {}) + 1).Tag("the sum"));
  const auto message = graph.Build();
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->nodes(3).tag(), "the sum");
}

}  // namespace
}  // namespace kiln::client
