// What waits in a device's queue behind a run that is stopped in the middle: it was accepted
// while the memory was healthy, and meets the poison all the same.
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

class StoppedTest : public ServerTest {
 protected:
  // A run of seconds in place, on mine_; and of `first` of its elements, in the place of others.
  void SetUp() override {
    ServerTest::SetUp();
    int last = 0;
    std::string text = SinesText(last);
    absl::StrAppend(&text, last + 1, " STORE [1, ", last, "]\n", last + 2, " AFTER [1, ", last + 1, "]\n", last + 3,
                    " TUPLE [", last + 2, "]\n");
    long_.set_graph_hash(Compile(*stubs_, GraphOf(text))->graph_hash());
    store_.set_graph_hash(Compile(*stubs_, GraphOf(kReplace))->graph_hash());
    mine_ = *AllocateFloats(*stubs_, kLongElements);
    AddBuffer(long_, 0, mine_);
    part_ = View(mine_);
    other_ = *AllocateFloats(*stubs_, 8);
    collectives_ = v1::CollectiveService::NewStub(stubs_->channel);
  }

  uint64_t View(uint64_t of) {
    v1::ViewRequest request;
    v1::ViewResponse response;
    request.mutable_of()->set_handle(of);
    request.set_dtype(v1::FLOAT32);
    request.add_shape(8);
    EXPECT_TRUE(Call(*stubs_->buffer, &v1::BufferService::Stub::View, request, response).ok());
    return response.buffer().handle();
  }
  void Fill(uint64_t handle, const std::string& pattern) {
    v1::FillRequest request;
    v1::FillResponse response;
    request.mutable_buffer()->set_handle(handle);
    request.set_pattern(pattern);
    ASSERT_TRUE(Call(*stubs_->buffer, &v1::BufferService::Stub::Fill, request, response).ok());
  }

  // With the device, or waiting for their turn.
  uint64_t Submitted() {
    const auto& device = *server_->engine().devices()[0];
    return device.stats().queue_depth + server_->engine().turns().waiting(device);
  }

  v1::ExecuteRequest long_, store_;
  uint64_t mine_ = 0, part_ = 0, other_ = 0;
  std::unique_ptr<v1::CollectiveService::Stub> collectives_;
};

TEST_F(StoppedTest, WhatWaitsBehindItMeetsItsPoison) {
  v1::RecordSequenceRequest record;
  record.add_programs()->set_graph_hash(store_.graph_hash());
  v1::RecordedStep& step = *record.add_steps();
  for (uint32_t slot : {0u, 1u}) {
    v1::RecordedArgument& argument = *step.add_arguments();
    argument.set_slot(slot);
    argument.mutable_memory()->set_buffer(slot);
  }
  v1::RecordSequenceResponse recorded;
  ASSERT_TRUE(Call(*stubs_->kernel, &v1::KernelService::Stub::RecordSequence, record, recorded).ok());

  struct Way {
    const char* name;
    std::function<absl::Status()> use;
    bool writes_nothing;  // what it would have written, it leaves as it was
  };
  const Way ways[] = {
      {"read", [&] { return Download(*stubs_, mine_, 0, 32).status(); }, true},
      {"read of several chunks", [&] { return Download(*stubs_, mine_, 0, 3 << 20).status(); }, true},
      {"execute",
       [&] {
         v1::ExecuteRequest request = store_;
         AddBuffer(request, 0, part_);
         AddBuffer(request, 1, other_);
         return Execute(*stubs_, request).status();
       },
       true},
      {"replay",
       [&] {
         v1::ReplaySequenceRequest request;
         v1::ReplaySequenceResponse response;
         request.set_recording(recorded.recording());
         request.add_handles(mine_);
         request.add_handles(other_);
         return Call(*stubs_->kernel, &v1::KernelService::Stub::ReplaySequence, request, response);
       },
       true},
      {"copy",
       [&] {
         v1::CopyRequest request;
         v1::CopyResponse response;
         request.mutable_from()->set_handle(mine_);
         request.mutable_to()->set_handle(other_);
         request.set_bytes(32);
         return Call(*stubs_->buffer, &v1::BufferService::Stub::Copy, request, response);
       },
       false},
      {"collective",
       [&] {
         v1::CollectiveRequest request;
         v1::CollectiveResponse report;
         request.add_input()->set_handle(part_);
         request.add_output()->set_handle(other_);
         request.set_dtype(v1::FLOAT32);
         request.set_count(8);
         request.set_op(v1::ADD);
         return Call(*collectives_, &v1::CollectiveService::Stub::AllReduce, request, report);
       },
       false},
  };
  const auto record_of_mine = server_->engine().buffers().table().Find(mine_).value();
  const auto* floats = static_cast<const volatile float*>(record_of_mine->slice.host_data());
  const std::string one = BytesOf({1.0f});
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    Fill(mine_, one);
    Fill(other_, one);
    grpc::ClientContext context;
    std::thread runs([&] {
      v1::ExecuteResponse response;
      EXPECT_EQ(stubs_->kernel->Execute(&context, long_, &response).error_code(), grpc::StatusCode::CANCELLED);
    });
    EXPECT_TRUE(Eventually([&] { return floats[0] != 1.0f; }));
    absl::Status status;
    std::thread waits([&] { status = way.use(); });
    EXPECT_TRUE(Eventually([&] { return Submitted() > 1; }));
    context.TryCancel();
    runs.join();
    waits.join();
    EXPECT_EQ(CodeOf(status), v1::CALL_CANCELLED) << status;
    EXPECT_EQ(CodeOf(Download(*stubs_, mine_, 0, 4).status()), v1::CALL_CANCELLED);
    const auto left = Download(*stubs_, other_);
    if (way.writes_nothing) {
      ASSERT_TRUE(left.ok()) << left.status();
      EXPECT_EQ(FloatsOf(*left), std::vector<float>(8, 1.0f));
    } else {
      EXPECT_EQ(CodeOf(left.status()), v1::CALL_CANCELLED);
    }
  }
}

// What overwrites it does not read it, and heals it.
TEST_F(StoppedTest, WhatOverwritesBehindItHeals) {
  const std::string one = BytesOf({1.0f}), two = BytesOf({2.0f});
  Fill(mine_, one);
  const auto record = server_->engine().buffers().table().Find(mine_).value();
  const auto* floats = static_cast<const volatile float*>(record->slice.host_data());
  grpc::ClientContext context;
  std::thread runs([&] {
    v1::ExecuteResponse response;
    EXPECT_EQ(stubs_->kernel->Execute(&context, long_, &response).error_code(), grpc::StatusCode::CANCELLED);
  });
  EXPECT_TRUE(Eventually([&] { return floats[0] != 1.0f; }));
  std::thread waits([&] { Fill(mine_, two); });
  EXPECT_TRUE(Eventually([&] { return Submitted() > 1; }));
  context.TryCancel();
  runs.join();
  waits.join();
  const auto found = Download(*stubs_, mine_, 0, 8);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(FloatsOf(*found), (std::vector<float>{2.0f, 2.0f}));
}

}  // namespace
}  // namespace kiln::e2e
