// RecordSequence and ReplaySequence, as a client meets them.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/e2e/bad_input/bad_input.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

using absl::StatusCode;

// z = x * y for float32 [8] in slots 0 (z), 1 and 2.
constexpr char kMultiplyInto[] = R"(
  0 CONST [] weakint 8
  1 PARAM : float32 [0] slot=0
  2 PARAM : float32 [0] slot=1
  3 PARAM : float32 [0] slot=2
  4 MUL [2, 3]
  5 STORE [1, 4]
  6 SINK [5]
)";

absl::StatusOr<v1::RecordSequenceResponse> Record(Stubs& stubs, const v1::RecordSequenceRequest& request) {
  v1::RecordSequenceResponse response;
  KILN_RETURN_IF_ERROR(Call(*stubs.kernel, &v1::KernelService::Stub::RecordSequence, request, response));
  return response;
}

absl::StatusOr<v1::ReplaySequenceResponse> Replay(Stubs& stubs, const v1::ReplaySequenceRequest& request) {
  v1::ReplaySequenceResponse response;
  KILN_RETURN_IF_ERROR(Call(*stubs.kernel, &v1::KernelService::Stub::ReplaySequence, request, response));
  return response;
}

void AddMemory(v1::RecordedStep& step, uint32_t slot, uint32_t buffer, uint64_t offset = 0) {
  v1::RecordedArgument& argument = *step.add_arguments();
  argument.set_slot(slot);
  argument.mutable_memory()->set_buffer(buffer);
  argument.mutable_memory()->set_offset(offset);
}

// Buffer 0 is x, then room for two more; x += 1; second = x * buffer 1; third = second *
// x. Compiles the programs.
v1::RecordSequenceRequest Chain(Stubs& stubs) {
  v1::RecordSequenceRequest request;
  for (const char* text : {kAddOneInPlace, kMultiplyInto}) {
    const auto compiled = Compile(stubs, GraphOf(text));
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    request.add_programs()->set_graph_hash(compiled->graph_hash());
  }
  AddMemory(*request.add_steps(), 0, 0);
  for (const uint64_t to : {32, 64}) {
    v1::RecordedStep& step = *request.add_steps();
    step.set_program(1);
    AddMemory(step, 0, 0, to);
    AddMemory(step, 1, 0, to == 32 ? 0 : 32);
    AddMemory(step, 2, to == 32 ? 1 : 0);
  }
  return request;
}

class SequenceTest : public ServerTest {};

TEST_F(SequenceTest, ProgramsRunInARowOnWhatEachCallBrings) {
  const auto recorded = Record(*stubs_, Chain(*stubs_));
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  ASSERT_EQ(recorded->buffers_size(), 2);
  EXPECT_EQ(recorded->buffers(0).bytes(), 96u);
  EXPECT_TRUE(recorded->buffers(0).written());
  EXPECT_EQ(recorded->buffers(1).bytes(), 32u);
  EXPECT_FALSE(recorded->buffers(1).written());
  EXPECT_EQ(recorded->integers(), 0u);
  EXPECT_GE(recorded->launches(), 3u);

  v1::ReplaySequenceRequest replay;
  replay.set_recording(recorded->recording());
  replay.set_want_timing(true);
  v1::BufferRef& memory = *replay.add_buffers();
  v1::BufferRef& factor = *replay.add_buffers();
  factor.set_handle(*AllocateBytes(*stubs_, 32));
  for (const float start : {1.0f, 5.0f}) {
    const uint64_t handle = *AllocateBytes(*stubs_, 160);
    memory.set_handle(handle);
    memory.set_offset(64);
    const std::vector<float> x(8, start), y = {0, 1, 2, 3, 4, 5, 6, 7};
    ASSERT_TRUE(Upload(*stubs_, handle, BytesOf(x), 64).ok());
    ASSERT_TRUE(Upload(*stubs_, factor.handle(), BytesOf(y)).ok());
    for (int again = 1; again <= 2; ++again) {
      const auto answer = Replay(*stubs_, replay);
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_GT(answer->timing().total_us(), 0);
      const std::vector<float> all = FloatsOf(*Download(*stubs_, handle));
      const float now = start + static_cast<float>(again);
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(all[16 + i], now);
        EXPECT_EQ(all[24 + i], now * y[i]);
        EXPECT_EQ(all[32 + i], now * y[i] * now);
      }
    }
  }

  // The short way for buffers from their first byte on.
  replay.mutable_buffers()->RemoveLast();
  const uint64_t factors = *AllocateBytes(*stubs_, 32);
  ASSERT_TRUE(Upload(*stubs_, factors, BytesOf(std::vector<float>(8, 3.0f))).ok());
  replay.add_handles(factors);
  const std::vector<float> before = FloatsOf(*Download(*stubs_, replay.buffers(0).handle()));
  ASSERT_TRUE(Replay(*stubs_, replay).ok());
  const std::vector<float> after = FloatsOf(*Download(*stubs_, replay.buffers(0).handle()));
  EXPECT_EQ(after[24], 3 * (before[16] + 1));
}

TEST_F(SequenceTest, ADeadlineStopsIt) {
  const auto recorded = Record(*stubs_, Chain(*stubs_));
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  v1::ReplaySequenceRequest replay;
  replay.set_recording(recorded->recording());
  replay.add_buffers()->set_handle(*AllocateBytes(*stubs_, 96));
  replay.add_buffers()->set_handle(*AllocateBytes(*stubs_, 32));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  v1::ReplaySequenceResponse response;
  EXPECT_EQ(stubs_->kernel->ReplaySequence(&context, replay, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Replay(*stubs_, replay).ok());
}

// Whichever way its buffers are named.
TEST_F(SequenceTest, AReplayInAStreamIsPoisonedByWhatItUses) {
  const auto recorded = Record(*stubs_, Chain(*stubs_));
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  for (const bool by_handles : {false, true}) {
    SubmitClient client(*stubs_);
    client.Allocate(1, 96);
    client.Allocate(2, 32);
    const uint64_t cause = client.Write(2, std::string(33, 'x'));  // too long
    EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
    v1::SubmitRequest request;
    request.mutable_replay()->set_recording(recorded->recording());
    for (const uint64_t handle : {1, 2}) {
      if (by_handles) {
        request.mutable_replay()->add_handles(handle);
      } else {
        request.mutable_replay()->add_buffers()->set_handle(handle);
      }
    }
    const uint64_t replay = client.Send(request);
    EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
    EXPECT_EQ(client.failed_id, replay);
    EXPECT_EQ(client.failed.cause_command_id(), cause);
    client.Read(1);  // what the replay would have written
    EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
    EXPECT_EQ(client.failed.cause_command_id(), cause);
    client.WritesDone();
    EXPECT_TRUE(client.Finish().ok());
  }
}

class BadSequenceTest : public BadInputTest {};

TEST_F(BadSequenceTest, Rows) {
  const auto compiled = Compile(*stubs_, GraphOf(kAddOne));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto recorded = Record(*stubs_, Chain(*stubs_));
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  const uint64_t large = *AllocateBytes(*stubs_, 96), small = *AllocateBytes(*stubs_, 8);
  const auto recording = [](const v1::RecordSequenceRequest& request) {
    return [request](Stubs& stubs) { return Record(stubs, request).status(); };
  };
  const auto replaying = [&](const std::string& id, const std::vector<uint64_t>& handles, uint64_t offset = 0) {
    v1::ReplaySequenceRequest request;
    request.set_recording(id);
    for (const uint64_t handle : handles) {
      v1::BufferRef& buffer = *request.add_buffers();
      buffer.set_handle(handle);
      if (request.buffers_size() == 2) buffer.set_offset(offset);
    }
    return [request](Stubs& stubs) { return Replay(stubs, request).status(); };
  };
  v1::RecordSequenceRequest fresh, unknown, beside = Chain(*stubs_);
  fresh.add_programs()->set_graph_hash(compiled->graph_hash());
  AddMemory(*fresh.add_steps(), 0, 0);
  unknown.add_programs()->set_graph_hash(std::string(32, 'x'));
  AddMemory(*beside.mutable_steps(1), 5, 0);
  const std::string& id = recorded->recording();
  Check({
      {"no steps", recording({}), StatusCode::kInvalidArgument, v1::BAD_ARGUMENT},
      {"new memory", recording(fresh), StatusCode::kInvalidArgument, v1::BAD_ARGUMENT},
      {"unknown program", recording(unknown), StatusCode::kNotFound, v1::NEED_GRAPH},
      {"unknown slot", recording(beside), StatusCode::kInvalidArgument, v1::UNKNOWN_ARGUMENT, {}, 5},
      {"no recording", replaying("", {}), StatusCode::kInvalidArgument, v1::BAD_ARGUMENT},
      {"unknown recording", replaying(std::string(32, 'x'), {large, large}), StatusCode::kNotFound, v1::NEED_GRAPH},
      {"too few buffers", replaying(id, {large}), StatusCode::kInvalidArgument, v1::MISSING_ARGUMENT},
      {"too small", replaying(id, {large, small}), StatusCode::kInvalidArgument, v1::BUFFER_SIZE_MISMATCH},
      {"unknown handle", replaying(id, {large, 7}), StatusCode::kNotFound, v1::UNKNOWN_HANDLE, {}, {}, 7},
      {"written as one, read as the other", replaying(id, {large, large}, 32), StatusCode::kInvalidArgument,
       v1::BAD_ARGUMENT},
      {"no message", [](Stubs& stubs) { return CallRaw(stubs, "/kiln.v1.KernelService/ReplaySequence", "\xff\xff"); },
       StatusCode::kInvalidArgument, v1::MALFORMED_MESSAGE},
  });
}

}  // namespace
}  // namespace kiln::e2e
