// Graphs on several devices by the C++ client, through a whole server with four: values,
// updates in place, moves, training, a stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "client/cpp/client.h"
#include "client/cpp/ops.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

using namespace client;  // NOLINT: the builder's functions read best without a prefix.
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const Devices kDevices = {"CPU:0", "CPU:1", "CPU:2", "CPU:3"};

std::vector<float> Counting(int64_t count, float from = 0) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), from);
  return values;
}

class Sharded : public ServerTest {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_cpu_devices(4);
    Start(config);
    auto client = Client::Connect(address());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  Program Compiled(const absl::StatusOr<v1::Graph>& graph, const v1::CompileOptions& options = {}) {
    EXPECT_TRUE(graph.ok()) << graph.status();
    auto program = client_->Compile(*graph, options);
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }
  static RunResults Ran(const Program& program, const Arguments& arguments, const RunOptions& options = {}) {
    auto run = program.Run(arguments, options);
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  }
  std::vector<float> Values(const DeviceShards& shards) {
    const auto tensor = client_->Download(shards);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return tensor.ok() ? tensor->Values<float>() : std::vector<float>();
  }

  std::unique_ptr<Client> client_;
};

// x (8, 2), rows 0 1, 2 3, …; w (2, 1) is 1 and 10.
TEST_F(Sharded, SplitAndWholeParametersByHandleAndByValue) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {8, 2}, "x", kDevices);
  const Tensor w = WholeParam(graph, 1, v1::FLOAT32, {2, 1}, kDevices, "w");
  graph.Output(Matmul(x, w));
  graph.Output(Sum(x, 0));
  const Program program = Compiled(graph.Build());
  const HostTensor rows = HostTensor::Of({8, 2}, Counting(16)), weights = HostTensor::Of<float>({2, 1}, {1, 10});
  const std::vector<float> product = {10, 32, 54, 76, 98, 120, 142, 164};

  const auto xs = client_->UploadShards(rows, kDevices), ws = client_->UploadWhole(weights, kDevices);
  ASSERT_TRUE(xs.ok() && ws.ok()) << xs.status() << ws.status();
  const RunResults kept = Ran(program, Arguments().Set(0, *xs).Set(1, *ws));
  ASSERT_EQ(kept.results.size(), 2u);
  EXPECT_EQ(kept.results[0].shards.axis, 0u);
  EXPECT_EQ(kept.results[0].shards.shape(), (Shape{8, 1}));
  EXPECT_EQ(kept.results[0].shards.shards[3].shape(), (Shape{2, 1}));
  EXPECT_EQ(kept.results[0].shards.shards[3].description().device(), "CPU:3");
  EXPECT_EQ(Values(kept.results[0].shards), product);
  EXPECT_EQ(kept.results[1].shards.axis, std::nullopt);
  EXPECT_EQ(kept.results[1].shards.shards.size(), 4u);
  EXPECT_EQ(Values(kept.results[1].shards), (std::vector<float>{56, 64}));

  HostTensor copies = HostTensor::Of<float>({4, 2, 1}, {1, 10, 1, 10, 1, 10, 1, 10});
  const RunResults sent = Ran(program, Arguments().Set(0, rows).Set(1, copies), {.results = v1::RESULT_INLINE});
  EXPECT_EQ(sent.results[0].tensor.Values<float>(), product);
  EXPECT_EQ(sent.results[1].tensor.Values<float>(), (std::vector<float>{56, 64}));
}

TEST_F(Sharded, ParametersAreUpdatedWhereTheyAre) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {4}, "x", kDevices);
  const Tensor w = WholeParam(graph, 1, v1::FLOAT32, {4}, kDevices, "w");
  graph.Output(graph.Assign(x, x + 1));
  graph.Update(w, w + Sum(x, 0));
  const Program program = Compiled(graph.Build());
  const auto xs = client_->UploadShards(HostTensor::Of({4}, Counting(4)), kDevices);
  const auto ws = client_->UploadWhole(HostTensor::Of({4}, std::vector<float>(4)), kDevices);
  ASSERT_TRUE(xs.ok() && ws.ok()) << xs.status() << ws.status();
  for (int iteration = 0; iteration < 2; ++iteration) {
    const RunResults run = Ran(program, Arguments().Set(0, *xs).Set(1, *ws));
    EXPECT_TRUE(run.results[0].shards.shards.empty()) << "the caller has it already";
  }
  EXPECT_THAT(Values(*xs), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(Values(*ws), std::vector<float>(16, 6 + 10));  // (4, 4): a row each
}

TEST_F(Sharded, Moves) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {4, 8});
  const Tensor split = CopyTo(x, kDevices), wide = Shard(x, {"CPU:2", "CPU:1"}, 1);
  graph.Output(split * 2);
  graph.Output(wide + 1);
  graph.Output(CopyTo(wide + 1, {"CPU:0"}));
  graph.Output(AllReduce(split, 4));
  graph.Output(AllReduce(split, 4, v1::MAX));
  graph.Output(Replicate(x, kDevices) - 1);
  const std::vector<float> values = Counting(32);
  const RunResults run = Ran(Compiled(graph.Build()), Arguments().Set(0, HostTensor::Of({4, 8}, values)));
  ASSERT_EQ(run.results.size(), 6u);
  std::vector<float> twice, more, less, sums, greatest;
  for (float value : values) twice.push_back(2 * value), more.push_back(value + 1), less.push_back(value - 1);
  for (int at = 0; at < 8; ++at) {
    sums.push_back(static_cast<float>(4 * at + 8 + 16 + 24));
    greatest.push_back(static_cast<float>(at + 24));
  }
  EXPECT_EQ(Values(run.results[0].shards), twice);
  EXPECT_EQ(run.results[1].shards.axis, 1u);
  EXPECT_EQ(run.results[1].shards.shards[0].description().device(), "CPU:2");
  EXPECT_EQ(Values(run.results[1].shards), more);
  const auto on_one = client_->Download(run.results[2].buffer);
  ASSERT_TRUE(on_one.ok()) << on_one.status();
  EXPECT_EQ(on_one->Values<float>(), more);
  EXPECT_EQ(Values(run.results[3].shards), sums);
  EXPECT_EQ(Values(run.results[4].shards), greatest);
  EXPECT_EQ(Values(run.results[5].shards), less);
}

TEST_F(Sharded, AStepOfTrainingIsThatOfOneDevice) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {8, 3}), w = graph.Param(1, v1::FLOAT32, {3, 2});
  graph.Update(w, w - 0.25 * Matmul(Transpose(x), Matmul(x, w)));
  std::vector<float> rows, weights = {0.5f, -1, 2, 0.25f, -0.5f, 1};
  for (int i = 0; i < 24; ++i) rows.push_back(static_cast<float>(i * 7 % 5 - 2) / 4);
  const auto message = graph.Build();
  ASSERT_TRUE(message.ok()) << message.status();
  const auto one = client_->Upload(HostTensor::Of({3, 2}, weights));
  ASSERT_TRUE(one.ok()) << one.status();
  Ran(Compiled(message), Arguments().Set(0, HostTensor::Of({8, 3}, rows)).Set(1, *one));
  const auto expected = client_->Download(*one);

  v1::CompileOptions options;
  options.set_deterministic(true);
  const Program program = Compiled(Spread(*message, kDevices, {0}), options);
  const auto xs = client_->UploadShards(HostTensor::Of({8, 3}, rows), kDevices);
  const auto ws = client_->UploadWhole(HostTensor::Of({3, 2}, weights), kDevices);
  ASSERT_TRUE(xs.ok() && ws.ok() && expected.ok()) << xs.status() << ws.status() << expected.status();
  Ran(program, Arguments().Set(0, *xs).Set(1, *ws));
  for (const DeviceBuffer& copy : ws->shards) {
    const auto values = client_->Download(copy);
    ASSERT_TRUE(values.ok()) << values.status();
    // All numbers are multiples of 1/64 and small: sums are exact in any order.
    EXPECT_THAT(values->Values<float>(), ElementsAreArray(expected->Values<float>()));
  }
}

TEST_F(Sharded, AStreamNamesEachShareOfAResult) {
  Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {4}, "x", kDevices);
  graph.Output(x + 1);
  graph.Output(Sum(x, 0));
  const Program program = Compiled(graph.Build());
  const auto xs = client_->UploadShards(HostTensor::Of({4}, Counting(4)), kDevices);
  ASSERT_TRUE(xs.ok()) << xs.status();
  auto stream = client_->OpenStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::vector<v1::BufferRef> results = (*stream)->Execute(program, Arguments().Set(0, *xs));
  ASSERT_EQ(results.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    const auto bytes = (*stream)->Read(results[static_cast<size_t>(i)]).get();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_THAT(FloatsOf(*bytes), ElementsAre(i < 4 ? static_cast<float>(i + 1) : 6)) << i;
  }
}

TEST_F(Sharded, MistakesAreToldWhereTheyAreMade) {
  const auto uneven = client_->UploadShards(HostTensor::Of({6}, Counting(6)), kDevices);
  EXPECT_EQ(DetailOf(uneven.status()).value_or(v1::ErrorDetail()).code(), v1::UNSUPPORTED_SHARD) << uneven.status();
  EXPECT_THAT(uneven.status().message(), HasSubstr("(6,) has no first axis of 4 equal shares"));
  const auto unknown = client_->UploadShards(HostTensor::Of({4}, Counting(4)), {"CPU:0", "CPU:9"});
  EXPECT_EQ(DetailOf(unknown.status()).value_or(v1::ErrorDetail()).code(), v1::UNKNOWN_DEVICE) << unknown.status();

  Graph graph;
  graph.Output(graph.Param(0, v1::FLOAT32, {4}, "x", kDevices) + 1);
  const Program program = Compiled(graph.Build());
  const auto two = client_->UploadShards(HostTensor::Of({4}, Counting(4)), {"CPU:0", "CPU:1"});
  const auto one = client_->Upload(HostTensor::Of({4}, Counting(4)));
  ASSERT_TRUE(two.ok() && one.ok());
  EXPECT_FALSE(program.Run(Arguments().Set(0, *two)).ok());
  EXPECT_FALSE(program.Run(Arguments().Set(0, *one)).ok());
}

}  // namespace
}  // namespace kiln::e2e
