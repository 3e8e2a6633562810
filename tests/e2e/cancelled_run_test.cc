// What a run leaves behind that was cancelled in the middle: what it was writing is
// poisoned, and says so by a code of the protocol to whatever asks for it, until it is
// overwritten. Of one program, a recording, and a program on several devices.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/v1/collective_service.grpc.pb.h"
#include "server/engine/engine.h"
#include "tests/e2e/long_run.h"

namespace kiln::e2e {
namespace {

// A run of seconds is cancelled when it has begun to write; with one device or two.
class CancelledRunTest : public ServerTest {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_cpu_devices(2);
    Start(config);
  }

  // A hundred sines of slot 0, in place. On devices: ("A", "B").
  static v1::Graph Sines(const std::string& devices, const char* root) {
    int last = 0;
    std::string text = SinesText(last, devices);
    absl::StrAppend(&text, last + 1, " STORE [1, ", last, "]\n", last + 2, " ", root, " [", last + 1, "]\n");
    return GraphOf(text);
  }

  uint64_t Ones(const std::string& device, int64_t elements) {
    v1::AllocateRequest request;
    request.set_device(device);
    request.mutable_type()->set_dtype(v1::FLOAT32);
    request.mutable_type()->add_shape(elements);
    const uint64_t handle = Allocate(*stubs_, request)->handle();
    Refill(handle);
    return handle;
  }

  void Refill(uint64_t handle) {
    v1::FillRequest ones;
    v1::FillResponse filled;
    ones.mutable_buffer()->set_handle(handle);
    ones.set_pattern(BytesOf({1.0f}));
    ASSERT_TRUE(Call(*stubs_->buffer, &v1::BufferService::Stub::Fill, ones, filled).ok());
    EXPECT_EQ(FloatsOf(*Download(*stubs_, handle, 0, 8)), (std::vector<float>{1.0f, 1.0f}));
  }

  // The memory, as this process sees it, shows that the run has begun to write to `handle`.
  void Cancel(uint64_t handle, const std::function<grpc::Status(grpc::ClientContext&)>& run) {
    grpc::ClientContext context;
    grpc::Status status;
    std::thread client([&] { status = run(context); });
    const auto record = server_->engine().buffers().table().Find(handle).value();
    const auto* floats = static_cast<const volatile float*>(record->slice.host_data());
    EXPECT_TRUE(Eventually([&] { return floats[0] != 1.0f; }));
    context.TryCancel();
    client.join();
    ASSERT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
    ASSERT_TRUE(Eventually([&] { return !Download(*stubs_, handle, 0, 4).ok(); }));
    ExpectCancelled(Download(*stubs_, handle, 0, 4).status());
  }

  // What asks for it is told so by a code of the protocol.
  static void ExpectCancelled(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_EQ(CodeOf(status), v1::CALL_CANCELLED) << status;
  }
};

TEST_F(CancelledRunTest, OfOneProgramSaysSo) {
  v1::ExecuteRequest request;
  request.set_graph_hash(Compile(*stubs_, Sines("", "SINK"))->graph_hash());
  const uint64_t mine = Ones("", kLongElements);
  AddBuffer(request, 0, mine);
  Cancel(mine, [&](grpc::ClientContext& context) {
    v1::ExecuteResponse response;
    return stubs_->kernel->Execute(&context, request, &response);
  });
  ExpectCancelled(Execute(*stubs_, request).status());
  const auto collectives = v1::CollectiveService::NewStub(stubs_->channel);
  v1::CollectiveRequest broadcast;
  v1::CollectiveResponse report;
  broadcast.add_input()->set_handle(mine);
  broadcast.add_output()->set_handle(*AllocateBytes(*stubs_, 4));
  broadcast.set_dtype(v1::FLOAT32);
  broadcast.set_count(1);
  ExpectCancelled(Call(*collectives, &v1::CollectiveService::Stub::Broadcast, broadcast, report));
  Refill(mine);
}

TEST_F(CancelledRunTest, OfARecordingSaysSo) {
  v1::RecordSequenceRequest recording;
  recording.add_programs()->set_graph_hash(Compile(*stubs_, Sines("", "SINK"))->graph_hash());
  recording.add_steps()->add_arguments()->mutable_memory()->set_buffer(0);
  v1::RecordSequenceResponse recorded;
  ASSERT_TRUE(Call(*stubs_->kernel, &v1::KernelService::Stub::RecordSequence, recording, recorded).ok());
  v1::ReplaySequenceRequest replay;
  replay.set_recording(recorded.recording());
  const uint64_t mine = Ones("", kLongElements);
  replay.add_handles(mine);
  v1::ReplaySequenceResponse response;
  Cancel(mine,
         [&](grpc::ClientContext& context) { return stubs_->kernel->ReplaySequence(&context, replay, &response); });
  ExpectCancelled(Call(*stubs_->kernel, &v1::KernelService::Stub::ReplaySequence, replay, response));
  Refill(mine);
}

TEST_F(CancelledRunTest, OfAProgramOnSeveralDevicesSaysSo) {
  v1::ExecuteRequest request;
  const auto compiled = Compile(*stubs_, Sines(" device=(\"CPU:0\", \"CPU:1\")", "TUPLE"));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  request.set_graph_hash(compiled->graph_hash());
  const uint64_t shares[] = {Ones("CPU:0", kLongElements / 2), Ones("CPU:1", kLongElements / 2)};
  for (const uint64_t share : shares) {
    if (request.arguments_size() == 0) request.add_arguments();
    request.mutable_arguments(0)->mutable_shards()->add_buffer()->set_handle(share);
  }
  Cancel(shares[0], [&](grpc::ClientContext& context) {
    v1::ExecuteResponse response;
    return stubs_->kernel->Execute(&context, request, &response);
  });
  // The other share's device may have been farther, or not so far; the run was one.
  ExpectCancelled(Download(*stubs_, shares[1], 0, 4).status());
  ExpectCancelled(Execute(*stubs_, request).status());
  for (const uint64_t share : shares) Refill(share);
}

}  // namespace
}  // namespace kiln::e2e
