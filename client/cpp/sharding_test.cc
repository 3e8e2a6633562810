// Graphs on several devices: the messages, and mistakes where they are made. What they
// compute is for tests/client.
#include "client/cpp/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "client/cpp/ops.h"

namespace kiln::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Devices kTwo = {"CPU:0", "CPU:1"};

void ExpectError(const absl::Status& status, v1::ErrorCode code, absl::string_view message) {
  const auto detail = DetailOf(status);
  ASSERT_TRUE(detail.has_value()) << status;
  EXPECT_EQ(detail->code(), code) << status;
  EXPECT_THAT(status.message(), HasSubstr(message));
}

// The graph that `make` fills fails so.
void ExpectError(void (*make)(Graph&), v1::ErrorCode code, absl::string_view message) {
  Graph graph;
  make(graph);
  ExpectError(graph.status(), code, message);
}

TEST(Sharding, AParameterNamesItsDevicesAndAWholeOneHasARowEach) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {8, 3}, "x", kTwo);
  const Tensor w = WholeParam(graph, 1, v1::FLOAT32, {3}, kTwo, "w");
  EXPECT_EQ(x.shape(), (Shape{8, 3}));
  EXPECT_EQ(w.shape(), Shape{3});
  graph.Output(x * w);
  const auto message = graph.Build();
  ASSERT_TRUE(message.ok()) << message.status();
  int params = 0;
  for (const v1::UOp& uop : message->nodes()) {
    if (uop.op() != v1::PARAM) continue;
    EXPECT_THAT(uop.buffer().device(), ElementsAre("CPU:0", "CPU:1"));
    EXPECT_EQ(message->nodes(static_cast<int>(uop.src(0))).src_size(), 2);  // (8, 3) and (2, 3)
    ++params;
  }
  EXPECT_EQ(params, 2);
}

TEST(Sharding, OnOneDeviceNothingIsSplit) {
  Graph graph;
  const Tensor w = WholeParam(graph, 0, v1::FLOAT32, {3}, {"CPU:1"});
  graph.Output(Replicate(w, {"CPU:0"}));
  const auto message = graph.Build();
  ASSERT_TRUE(message.ok()) << message.status();
  for (const v1::UOp& uop : message->nodes()) EXPECT_NE(uop.op(), v1::REPLICATED);
}

TEST(Sharding, MovesKeepTheShapeAndAllReduceReducesTheFirstAxis) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {8, 4});
  EXPECT_EQ(CopyTo(x, kTwo).shape(), (Shape{8, 4}));
  EXPECT_EQ(Shard(x, kTwo, -1).shape(), (Shape{8, 4}));
  EXPECT_EQ(Replicate(x, kTwo).shape(), (Shape{8, 4}));
  EXPECT_EQ(AllReduce(CopyTo(x, kTwo), 2, v1::MAX).shape(), (Shape{4, 4}));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
}

TEST(Sharding, MistakesAreNamed) {
  ExpectError([](Graph& g) { g.Param(0, v1::FLOAT32, {7}, "x", {"a", "b"}); }, v1::UNSUPPORTED_SHARD,
              "Param: 7 rows are not 2 equal shares");
  ExpectError([](Graph& g) { g.Param(0, v1::FLOAT32, {}, "x", {"a", "b"}); }, v1::UNSUPPORTED_SHARD, "shape ()");
  ExpectError([](Graph& g) { g.Param(0, v1::FLOAT32, {4}, "x", {"a", "a"}); }, v1::BAD_ARGUMENT, "a is there twice");
  ExpectError(
      [](Graph& g) {
        g.Param(0, v1::FLOAT32, {4}, "x", {"a", "b"});
        g.Param(0, v1::FLOAT32, {4}, "x", {"a", "c"});
      },
      v1::BAD_ARGUMENT, "slot 0 is on (a, b) already, not on (a, c)");
  ExpectError([](Graph& g) { CopyTo(g.Param(0, v1::FLOAT32, {5}), kTwo); }, v1::UNSUPPORTED_SHARD, "CopyTo: 5 rows");
  ExpectError([](Graph& g) { Shard(g.Param(0, v1::FLOAT32, {4, 5}), kTwo, 1); }, v1::UNSUPPORTED_SHARD, "5 rows");
  ExpectError([](Graph& g) { Shard(g.Param(0, v1::FLOAT32, {4}), kTwo, 1); }, v1::BAD_ARGUMENT, "no axis 1");
  ExpectError([](Graph& g) { AllReduce(g.Param(0, v1::FLOAT32, {6}), 4); }, v1::UNSUPPORTED_SHARD, "4 equal shares");
  ExpectError([](Graph& g) { AllReduce(g.Param(0, v1::FLOAT32, {6}), 2, v1::XOR); }, v1::BAD_ARGUMENT, "XOR");
  ExpectError([](Graph& g) { Replicated(g.Param(0, v1::FLOAT32, {})); }, v1::UNSUPPORTED_SHARD, "no rows");
}

TEST(Sharding, UpdatesAreOfParametersAlone) {
  Graph graph;
  const Tensor w = WholeParam(graph, 0, v1::FLOAT32, {3}, kTwo);
  graph.Output(graph.Assign(w, w + 1));
  EXPECT_TRUE(graph.Build().ok()) << graph.Build().status();
  graph.Update(Replicate(w + 1, kTwo), w);
  ExpectError(graph.status(), v1::BAD_ARGUMENT, "only a parameter can be updated");
}

TEST(Spread, SplitsWhatIsNamedAndCopiesTheRest) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {8, 3}), w = graph.Param(1, v1::FLOAT32, {3});
  graph.Update(w, w + Sum(x, 0));
  const auto message = graph.Build();
  ASSERT_TRUE(message.ok()) << message.status();
  const auto spread = Spread(*message, kTwo, {0});
  ASSERT_TRUE(spread.ok()) << spread.status();
  int replicated = 0;
  for (const v1::UOp& uop : spread->nodes()) {
    if (uop.op() == v1::REPLICATED) ++replicated;
    if (uop.op() != v1::PARAM) continue;
    EXPECT_THAT(uop.buffer().device(), ElementsAre("CPU:0", "CPU:1"));
  }
  EXPECT_EQ(replicated, 1);
  ExpectError(Spread(*message, kTwo, {0, 5}).status(), v1::UNKNOWN_ARGUMENT, "no parameter in slot 5");
  ExpectError(Spread(*message, {"a", "a"}).status(), v1::BAD_ARGUMENT, "a is there twice");
}

TEST(Spread, ReadsAShapeThatIsOneNumber) {
  v1::Graph graph;
  v1::UOp& size = *graph.add_nodes();
  size.set_op(v1::CONST);
  size.mutable_constant()->set_dtype(v1::WEAKINT);
  size.mutable_constant()->set_i(8);
  v1::UOp& param = *graph.add_nodes();
  param.set_op(v1::PARAM);
  param.add_src(0);
  param.mutable_buffer()->set_dtype(v1::FLOAT32);
  v1::UOp& root = *graph.add_nodes();
  root.set_op(v1::TUPLE);
  root.add_src(1);
  const auto spread = Spread(graph, kTwo);
  ASSERT_TRUE(spread.ok()) << spread.status();
  EXPECT_EQ(spread->nodes(2).op(), v1::STACK);
  EXPECT_THAT(spread->nodes(2).src(), ElementsAre(1, 0));  // (2, 8)
}

}  // namespace
}  // namespace kiln::client
