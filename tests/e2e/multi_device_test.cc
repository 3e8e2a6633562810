// Graphs on tuples of devices through a whole server with CPU:0 to CPU:3: shards by
// handle and by value, and every way to get them wrong.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/e2e/multi_device_server.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

// x: slot 0, float32 (4, 2), split over CPU:0 and CPU:1; doubled in place; and the sum of
// its rows, on both.
constexpr char kStep[] = R"(
  0 CONST [] weakint 4
  1 CONST [] weakint 2
  2 STACK [0, 1]
  3 PARAM [2] slot=0 dtype=float32 device=("CPU:0", "CPU:1")
  4 ADD [3, 3]
  5 STORE [3, 4]
  6 AFTER [3, 5]
  7 REDUCE [6] ADD axes=(0)
  8 TUPLE [6, 7, 4]
)";

class MultiDeviceTest : public MultiDeviceServer {
 protected:
  static v1::ExecuteRequest Step(const std::vector<uint64_t>& shards) {
    v1::ExecuteRequest request;
    *request.mutable_graph() = GraphOf(kStep);
    v1::BufferRefs& refs = *request.add_arguments()->mutable_shards();
    for (uint64_t handle : shards) refs.add_buffer()->set_handle(handle);
    return request;
  }
};

TEST_F(MultiDeviceTest, AStuckDeviceFailsTheRestInTimeAndIsNamed) {
  Begin(absl::Milliseconds(50));
  const uint64_t a = FloatsOn("CPU:0", {1, 2, 3, 4}), b = FloatsOn("CPU:1", {5, 6, 7, 8});
  const uint64_t poisoned[] = {FloatsOn("CPU:0", {0, 0, 0, 0}), FloatsOn("CPU:1", {0, 0, 0, 0})};
  absl::Notification release;
  Block(1, release);
  ExpectMissing(Execute(*stubs_, Step({a, b})).status(), "CPU:1");
  ExpectMissing(AllReduce({a, b}), "CPU:1");
  SubmitClient stream(*stubs_);
  v1::SubmitRequest command;
  command.mutable_collective()->set_kind(v1::CollectiveCommand::BROADCAST);
  v1::CollectiveRequest& broadcast = *command.mutable_collective()->mutable_request();
  broadcast.add_input()->set_handle(poisoned[0]);
  for (uint64_t handle : poisoned) broadcast.add_output()->set_handle(handle);
  broadcast.set_dtype(v1::FLOAT32);
  broadcast.set_count(4);
  stream.Send(command);
  ExpectMissing(stream.Failure(), "CPU:1");
  // Nothing was written.
  EXPECT_EQ(FloatsOf(*Download(*stubs_, a)), (std::vector<float>{1, 2, 3, 4}));
  release.Notify();
  EXPECT_EQ(FloatsOf(*Download(*stubs_, b)), (std::vector<float>{5, 6, 7, 8}));
  EXPECT_TRUE(AllReduce({a, b}).ok());
  EXPECT_EQ(FloatsOf(*Download(*stubs_, a)), (std::vector<float>{6, 8, 10, 12}));
}

TEST_F(MultiDeviceTest, ACallThatWaitsForAStuckDeviceDelaysNoOther) {
  const uint64_t a = FloatsOn("CPU:0", {1, 2, 3, 4}), b = FloatsOn("CPU:1", {5, 6, 7, 8});
  const uint64_t c = FloatsOn("CPU:0", {0, 0, 0, 0}), d = FloatsOn("CPU:1", {9, 9, 9, 9});
  absl::Notification release;
  Block(1, release);
  absl::Status reduced, stepped;
  std::thread collective([&] { reduced = AllReduce({c, d}); });
  std::thread program([&] { stepped = Execute(*stubs_, Step({a, b})).status(); });
  // Each of these takes its turn in the queue of CPU:0, on whose way the two above are.
  for (int i = 0; i < 20; ++i) {
    const uint64_t mine = FloatsOn("CPU:0", {3, 3, 3, 3});
    EXPECT_EQ(FloatsOf(*Download(*stubs_, mine)), (std::vector<float>{3, 3, 3, 3}));
    EXPECT_EQ(FloatsOf(*Download(*stubs_, a)), (std::vector<float>{1, 2, 3, 4}));
  }
  release.Notify();
  collective.join();
  program.join();
  EXPECT_TRUE(reduced.ok()) << reduced;
  EXPECT_TRUE(stepped.ok()) << stepped;
  EXPECT_EQ(FloatsOf(*Download(*stubs_, c)), (std::vector<float>{9, 9, 9, 9}));
}

TEST_F(MultiDeviceTest, AStreamThatWaitsForAStuckDeviceDelaysNoOther) {
  const uint64_t a = FloatsOn("CPU:0", {1, 2, 3, 4}), b = FloatsOn("CPU:1", {9, 9, 9, 9});
  const uint64_t c = FloatsOn("CPU:0", {5, 6, 7, 8});
  absl::Notification release;
  Block(1, release);
  SubmitClient copies(*stubs_), reduces(*stubs_);
  copies.Copy(a, b, 4 * sizeof(float));
  v1::SubmitRequest collective;
  collective.mutable_collective()->set_kind(v1::CollectiveCommand::BROADCAST);
  v1::CollectiveRequest& broadcast = *collective.mutable_collective()->mutable_request();
  broadcast.add_input()->set_handle(c);
  for (uint64_t handle : {c, b}) broadcast.add_output()->set_handle(handle);
  broadcast.set_dtype(v1::FLOAT32);
  broadcast.set_count(4);
  reduces.Send(collective);
  for (int i = 0; i < 20; ++i) {
    const uint64_t mine = FloatsOn("CPU:0", {3, 3, 3, 3});
    EXPECT_EQ(FloatsOf(*Download(*stubs_, mine)), (std::vector<float>{3, 3, 3, 3}));
    EXPECT_EQ(FloatsOf(*Download(*stubs_, a)), (std::vector<float>{1, 2, 3, 4}));
  }
  release.Notify();
  // What stands behind a copy in its stream sees what it did.
  for (int i = 0; i < 20; ++i) {
    copies.Copy(a, b, 4 * sizeof(float));
    copies.Copy(b, c, 4 * sizeof(float));
  }
  EXPECT_EQ(FloatsOf(copies.ReadBack(c)), (std::vector<float>{1, 2, 3, 4}));
  reduces.Fence();
  EXPECT_TRUE(reduces.Next()->has_fence());
}

// Where a run is cancelled while its collective waits for a device: what it was writing says so, by code and
// text, to whatever asks for it.
TEST_F(MultiDeviceTest, ARunThatIsCancelledInItsCollectiveSaysSo) {
  const uint64_t a = FloatsOn("CPU:0", {1, 2, 3, 4}), b = FloatsOn("CPU:1", {5, 6, 7, 8});
  v1::ExecuteRequest request = Step({a, b});
  request.set_graph_hash(Compile(*stubs_, request.graph())->graph_hash());
  request.clear_graph();
  absl::Notification begun;
  const auto release = std::make_shared<absl::Notification>();  // waited on until after the test's end
  // What is kept beside the share goes when the run begins to write to it: then something long is submitted
  // behind that, before the collective.
  std::shared_ptr<void> watcher(nullptr, [&](void*) {
    devices_[1]->queue().Submit(
        [&begun, release] {
          begun.Notify();
          release->WaitForNotification();
        },
        ~uint64_t{0});
  });
  const auto share = server_->engine().buffers().table().Find(b).value();
  share->slice.buffer->KeepDerived({}, std::shared_ptr<runtime::hal::Buffer>(std::move(watcher), nullptr));
  grpc::ClientContext context;
  std::thread client([&] {
    v1::ExecuteResponse response;
    EXPECT_EQ(stubs_->kernel->Execute(&context, request, &response).error_code(), grpc::StatusCode::CANCELLED);
  });
  begun.WaitForNotification();
  EXPECT_TRUE(Eventually([&] { return devices_[1]->queue().depth() > 1; }));  // the collective asks for it
  context.TryCancel();
  client.join();
  EXPECT_TRUE(Eventually([&] { return !Download(*stubs_, a).ok(); }));
  SubmitClient stream(*stubs_);
  v1::SubmitRequest command;
  command.mutable_collective()->set_kind(v1::CollectiveCommand::BROADCAST);
  v1::CollectiveRequest& broadcast = *command.mutable_collective()->mutable_request();
  broadcast.add_input()->set_handle(a);
  broadcast.add_output()->set_handle(FloatsOn("CPU:0", {0, 0, 0, 0}));
  broadcast.add_output()->set_handle(FloatsOn("CPU:2", {0, 0, 0, 0}));
  broadcast.set_dtype(v1::FLOAT32);
  broadcast.set_count(4);
  stream.Send(command);
  for (const absl::Status& status : {Download(*stubs_, a).status(), Download(*stubs_, b).status(), AllReduce({a, b}),
                                     Execute(*stubs_, request).status(), stream.Failure()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_EQ(status.message(), "the run was cancelled");
    EXPECT_EQ(DetailOf(status).value_or(v1::ErrorDetail()).code(), v1::CALL_CANCELLED) << status;
  }
  release->Notify();
}

TEST_F(MultiDeviceTest, InAStreamAProgramStandsInOrderAndSharesHaveNames) {
  const uint64_t a = FloatsOn("CPU:0", {1, 2, 3, 4}), b = FloatsOn("CPU:1", {5, 6, 7, 8});
  SubmitClient client(*stubs_);
  client.Write(a, BytesOf(std::vector<float>{10, 20, 30, 40}));
  client.Execute(Step({a, b}), {0, 0, 1, 2, 3, 4});
  client.Execute(Step({a, b}), {0, 0, 0, 0, 0, 5});
  client.Copy(3, 1, 8);
  EXPECT_EQ(FloatsOf(client.ReadBack(a)), (std::vector<float>{40, 80, 120, 160}));
  EXPECT_EQ(FloatsOf(client.ReadBack(1)), (std::vector<float>{20, 40}));
  EXPECT_EQ(FloatsOf(client.ReadBack(2)), (std::vector<float>{20 + 60 + 10 + 14, 40 + 80 + 12 + 16}));
  EXPECT_EQ(FloatsOf(client.ReadBack(4)), (std::vector<float>{10, 12, 14, 16}));
  EXPECT_EQ(FloatsOf(client.ReadBack(5)), (std::vector<float>{20, 24, 28, 32}));
  v1::ExecuteRequest by_value = Step({a, b});
  by_value.set_result_mode(v1::RESULT_INLINE);
  by_value.set_want_timing(true);
  client.Execute(by_value, {});
  const auto answer = client.Next();
  ASSERT_TRUE(answer.has_value() && answer->has_executed()) << answer->ShortDebugString();
  EXPECT_EQ(FloatsOf(answer->executed().results(1).tensor().data()), (std::vector<float>{416, 592}));
  EXPECT_EQ(answer->executed().collectives_size(), 1);
  client.WritesDone();
  EXPECT_FALSE(client.Next().has_value());
  EXPECT_TRUE(client.Finish().ok());
}

TEST_F(MultiDeviceTest, InAStreamAFailurePoisonsEveryShare) {
  const uint64_t a = FloatsOn("CPU:0", {1, 2, 3, 4}), b = FloatsOn("CPU:1", {5, 6, 7, 8});
  ASSERT_TRUE(Execute(*stubs_, Step({a, b})).ok());
  {
    SubmitClient client(*stubs_);
    client.Execute(Step({a, b}), {0, 0, 1});
    EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
    client.Read(b);  // which it would have written
    EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
    EXPECT_EQ(client.failed.cause_command_id(), 1u);
    client.Read(1);
    EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  }
  const uint64_t c = FloatsOn("CPU:0", {1, 2, 3, 4}), d = FloatsOn("CPU:1", {5, 6, 7, 8});
  SubmitClient client(*stubs_);
  client.Execute(Step({c, d}), {0, 9, 0, 0, 0, 0});
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  client.Execute(Step({b, d}), {0, 0, 0, 0, 10, 0});  // b is poisoned
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  client.Read(10);
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
}

TEST_F(MultiDeviceTest, TheReplyNamesTheCollectives) {
  v1::ExecuteRequest request = Step({FloatsOn("CPU:0", {1, 2, 3, 4}), FloatsOn("CPU:1", {5, 6, 7, 8})});
  auto response = Execute(*stubs_, request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->collectives_size(), 0);
  request.set_want_timing(true);
  response = Execute(*stubs_, request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->collectives_size(), 1);
  const v1::CollectiveRun& ran = response->collectives(0);
  EXPECT_EQ(ran.collective(), "all_reduce");
  EXPECT_EQ(ran.bytes(), 8u);
  EXPECT_FALSE(ran.algorithm().empty());
  EXPECT_GT(ran.bus_bandwidth_gb_s(), 0);
}

TEST_F(MultiDeviceTest, ShardsStayOnTheirDevices) {
  const uint64_t a = FloatsOn("CPU:0", {1, 2, 3, 4}), b = FloatsOn("CPU:1", {5, 6, 7, 8});
  const auto response = Execute(*stubs_, Step({a, b}));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->results_size(), 3);
  // In place: the shards that were sent.
  const v1::ShardedBuffer& updated = response->results(0).shards();
  ASSERT_EQ(updated.buffer_size(), 2);
  EXPECT_EQ(updated.axis(), 0u);
  EXPECT_EQ(updated.buffer(0).handle(), a);
  EXPECT_EQ(updated.buffer(1).handle(), b);
  EXPECT_EQ(FloatsOf(*Download(*stubs_, a)), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(FloatsOf(*Download(*stubs_, b)), (std::vector<float>{10, 12, 14, 16}));
  // Whole on both.
  const v1::ShardedBuffer& sum = response->results(1).shards();
  ASSERT_EQ(sum.buffer_size(), 2);
  EXPECT_FALSE(sum.has_axis());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(sum.buffer(i).device(), absl::StrCat("CPU:", i));
    EXPECT_EQ(sum.buffer(i).bytes(), 8u);
    EXPECT_EQ(FloatsOf(*Download(*stubs_, sum.buffer(i).handle())), (std::vector<float>{32, 40}));
  }
  // New, and split.
  const v1::ShardedBuffer& twice = response->results(2).shards();
  ASSERT_EQ(twice.buffer_size(), 2);
  EXPECT_EQ(twice.buffer(1).device(), "CPU:1");
  EXPECT_EQ(twice.buffer(1).shape(0), 2);
  EXPECT_EQ(FloatsOf(*Download(*stubs_, twice.buffer(1).handle())), (std::vector<float>{10, 12, 14, 16}));
}

TEST_F(MultiDeviceTest, WholeTensorsGoInAndComeOutByValue) {
  v1::ExecuteRequest request = Step({});
  request.clear_arguments();
  AddFloats(request, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  request.mutable_arguments(0)->mutable_tensor()->clear_shape();
  request.mutable_arguments(0)->mutable_tensor()->add_shape(4);
  request.mutable_arguments(0)->mutable_tensor()->add_shape(2);
  request.set_result_mode(v1::RESULT_INLINE);
  for (const bool cached : {false, true}) {
    const auto response = Execute(*stubs_, request);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->from_cache(), cached);
    EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), (std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16}));
    EXPECT_EQ(FloatsOf(response->results(1).tensor().data()), (std::vector<float>{32, 40}));
    EXPECT_EQ(response->results(2).tensor().shape(0), 4);
    request.clear_graph();
    request.set_graph_hash(Compile(*stubs_, GraphOf(kStep))->graph_hash());
  }
}

TEST_F(MultiDeviceTest, CompileSaysWhereEverythingIs) {
  const auto compiled = Compile(*stubs_, GraphOf(kStep));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->parameter_layouts_size(), 1);
  EXPECT_EQ(compiled->parameter_layouts(0).device(1), "CPU:1");
  EXPECT_EQ(compiled->parameter_layouts(0).axis(), 0u);
  ASSERT_EQ(compiled->result_layouts_size(), 3);
  EXPECT_FALSE(compiled->result_layouts(1).has_axis());
  EXPECT_EQ(compiled->signature().parameters(0).bytes(), 32u);
  // One device's program says nothing of the kind.
  EXPECT_EQ(Compile(*stubs_, GraphOf(kAddOne))->parameter_layouts_size(), 0);
}

TEST_F(MultiDeviceTest, WrongShardsAreNamed) {
  const uint64_t a = FloatsOn("CPU:0", {1, 2, 3, 4}), b = FloatsOn("CPU:1", {5, 6, 7, 8});
  const uint64_t large = FloatsOn("CPU:1", {1, 2, 3, 4, 5, 6});
  ExpectError(Step({a}), v1::BAD_ARGUMENT, "1 buffers; the parameter is on 2 devices");
  ExpectError(Step({a, b, b}), v1::BAD_ARGUMENT, "3 buffers");
  ExpectError(Step({}), v1::BAD_ARGUMENT, "0 buffers");
  ExpectError(Step({b, a}), v1::BUFFER_DEVICE_MISMATCH, "slot 0");
  ExpectError(Step({a, a}), v1::BUFFER_DEVICE_MISMATCH, "slot 0");
  ExpectError(Step({a, large}), v1::BUFFER_SIZE_MISMATCH, "slot 0");
  ExpectError(Step({a, 12345}), v1::UNKNOWN_HANDLE, "slot 0");
  v1::ExecuteRequest one = Step({a, b});
  one.mutable_arguments(0)->mutable_buffer()->set_handle(a);
  ExpectError(one, v1::BAD_ARGUMENT, "takes one for each");
  v1::ExecuteRequest none = Step({a, b});
  none.clear_arguments();
  ExpectError(none, v1::MISSING_ARGUMENT, "slot 0");
  // Shards for a program on one device.
  v1::ExecuteRequest single = Step({a, b});
  *single.mutable_graph() = GraphOf(kAddOne);
  ExpectError(single, v1::BAD_ARGUMENT, "one buffer");
  // Nothing was written by any of them.
  EXPECT_EQ(FloatsOf(*Download(*stubs_, a)), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(MultiDeviceTest, UnknownDevicesAndSplitsAreRefused) {
  v1::ExecuteRequest request;
  *request.mutable_graph() = GraphOf(R"(
    0 CONST [] weakint 4
    1 STACK [0]
    2 PARAM [1] slot=0 dtype=float32 device=("CPU:0", "CPU:9")
    3 TUPLE [2]
  )");
  ExpectError(request, v1::UNKNOWN_DEVICE, "CPU:9");
  *request.mutable_graph() = GraphOf(R"(
    0 CONST [] weakint 4
    1 STACK [0]
    2 PARAM [1] slot=0 dtype=float32 device=("CPU:0", "CPU:1")
    3 ADD [2, 2]
    4 STORE [2, 3]
    5 AFTER [2, 4]
    6 REDUCE [5] ADD axes=(0)
    7 ADD [2, 6]
    8 TUPLE [7, 5]
  )");
  ExpectError(request, v1::UNSUPPORTED_SHARD, "read again");
}

// What is made on the way goes back.
TEST_F(MultiDeviceTest, NothingLeaks) {
  const uint64_t a = FloatsOn("CPU:0", {1, 2, 3, 4}), b = FloatsOn("CPU:1", {5, 6, 7, 8});
  v1::ExecuteRequest request = Step({a, b});
  request.set_result_mode(v1::RESULT_INLINE);
  // Before the first run: what a run held may be given back a moment after its answer.
  const uint64_t before = FirstDevice(*stubs_).memory_in_use_bytes();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Execute(*stubs_, request).ok());
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, before));
}

}  // namespace
}  // namespace kiln::e2e
