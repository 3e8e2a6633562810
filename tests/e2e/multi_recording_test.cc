// Recordings with programs for several devices through a whole server with CPU:0 to CPU:3:
// what they leave is what the same steps leave on one device.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/e2e/multi_device_server.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

constexpr char kFour[] = R"(("CPU:0", "CPU:1", "CPU:2", "CPU:3"))";

// x: slot 0, float32 (8, 2); s: slot 1, (4, 2): both split over the devices. x = k x, for
// k in slot 9; s = the sum of x's rows, in each of its own.
constexpr char kStep[] = R"(
  0 CONST [] weakint 8
  1 CONST [] weakint 2
  2 CONST [] weakint 4
  3 STACK []
  4 PARAM [3] slot=9 dtype=int32 space=ALU name="k" min=1 max=9
  5 STACK [0, 1]
  6 PARAM [5] slot=0 dtype=float32 device=DEVICES
  7 STACK [2, 1]
  8 PARAM [7] slot=1 dtype=float32 device=DEVICES
  9 CAST [4] to=float32
  10 MUL [6, 9]
  11 STORE [6, 10]
  12 AFTER [6, 11]
  13 REDUCE [12] ADD axes=(0)
  14 EXPAND [13, 7]
  15 STORE [8, 14]
  16 SINK [11, 15]
)";

// slot 0, float32 (2, 2), += 1: a share of x, or its first rows.
constexpr char kAddOneToRows[] = R"(
  0 CONST [] weakint 2
  1 STACK [0, 0]
  2 PARAM [1] slot=0 dtype=float32
  3 CONST [] float32 1
  4 ADD [2, 3]
  5 STORE [2, 4]
  6 SINK [5]
)";

class MultiRecording : public MultiDeviceServer {
 protected:
  // k x and its sum, the first rows += 1, and k x with k = 2, again.
  absl::StatusOr<v1::RecordSequenceResponse> Record(bool on_four) {
    v1::RecordSequenceRequest request;
    const std::string step = absl::StrReplaceAll(kStep, {{"DEVICES", on_four ? kFour : R"(("CPU:0"))"}});
    for (const std::string& text : {step, std::string(kAddOneToRows)}) {
      const auto compiled = Compile(*stubs_, GraphOf(text));
      KILN_RETURN_IF_ERROR(compiled.status());
      request.add_programs()->set_graph_hash(compiled->graph_hash());
    }
    const int devices = on_four ? 4 : 1;
    for (const int program : {1, 0, 1, 1, 0, 0}) {
      v1::RecordedStep& made = *request.add_steps();
      made.set_program(static_cast<uint32_t>(program));
      AddMemory(made, 0, 0, program == 0 ? devices : 1);
      if (program != 0) continue;
      AddMemory(made, 1, static_cast<uint32_t>(devices), devices);
      v1::RecordedArgument& k = *made.add_arguments();
      k.set_slot(9);
      request.steps_size() > 5 ? k.set_constant(2) : k.set_integer(0);
    }
    v1::RecordSequenceResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs_->kernel, &v1::KernelService::Stub::RecordSequence, request, response));
    return response;
  }

  static void AddMemory(v1::RecordedStep& step, uint32_t slot, uint32_t first, int devices) {
    v1::RecordedArgument& argument = *step.add_arguments();
    argument.set_slot(slot);
    if (devices == 1) return argument.mutable_memory()->set_buffer(first);
    for (int i = 0; i < devices; ++i)
      argument.mutable_shards()->add_memory()->set_buffer(first + static_cast<uint32_t>(i));
  }

  // x's buffers, then s's.
  std::vector<uint64_t> Buffers(int devices) {
    std::vector<uint64_t> handles;
    for (const size_t floats : {16, 8}) {
      const size_t share = floats / static_cast<size_t>(devices);
      for (int i = 0; i < devices; ++i) {
        std::vector<float> values;
        for (size_t k = 0; k < share; ++k) values.push_back(static_cast<float>(static_cast<size_t>(i) * share + k) - 5);
        handles.push_back(FloatsOn(absl::StrCat("CPU:", i), values));
      }
    }
    return handles;
  }

  std::vector<float> All(const std::vector<uint64_t>& handles) {
    std::vector<float> all;
    for (const uint64_t handle : handles) {
      for (const float value : FloatsOf(*Download(*stubs_, handle))) all.push_back(value);
    }
    return all;
  }

  static v1::ReplaySequenceRequest Request(const std::string& recording, const std::vector<uint64_t>& handles,
                                           int64_t k) {
    v1::ReplaySequenceRequest request;
    request.set_recording(recording);
    for (const uint64_t handle : handles) request.add_handles(handle);
    request.add_integers(k);
    return request;
  }

  absl::Status Replay(const v1::ReplaySequenceRequest& request) {
    v1::ReplaySequenceResponse response;
    return Call(*stubs_->kernel, &v1::KernelService::Stub::ReplaySequence, request, response);
  }
};

TEST_F(MultiRecording, FourDevicesLeaveWhatOneLeaves) {
  const auto one = Record(false), four = Record(true);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(one->buffers_size(), 2);
  ASSERT_EQ(four->buffers_size(), 8);
  EXPECT_EQ(four->buffers(3).bytes(), 16u);
  EXPECT_TRUE(four->buffers(3).written());
  EXPECT_EQ(four->buffers(7).bytes(), 8u);
  EXPECT_EQ(four->integers(), 1u);
  EXPECT_GT(four->launches(), one->launches());
  const std::vector<uint64_t> whole = Buffers(1), shares = Buffers(4);
  ASSERT_EQ(All(whole), All(shares));
  for (const int64_t k : {3, 1, 2}) {
    ASSERT_TRUE(Replay(Request(one->recording(), whole, k)).ok());
    const absl::Status replayed = Replay(Request(four->recording(), shares, k));
    ASSERT_TRUE(replayed.ok()) << replayed;
    EXPECT_EQ(All(shares), All(whole)) << k;
  }
  // Under its name it is the same.
  EXPECT_EQ(Record(true)->recording(), four->recording());
  EXPECT_NE(one->recording(), four->recording());
}

TEST_F(MultiRecording, InAStreamItStandsInOrder) {
  const auto one = Record(false), four = Record(true);
  ASSERT_TRUE(one.ok() && four.ok()) << four.status();
  const std::vector<uint64_t> whole = Buffers(1), shares = Buffers(4);
  v1::SubmitRequest command;
  SubmitClient client(*stubs_);
  client.Write(shares[2], BytesOf(std::vector<float>{7, 8, 9, 10}));
  for (const int64_t k : {2, 3}) {
    *command.mutable_replay() = Request(four->recording(), shares, k);
    client.Send(command);
  }
  client.Copy(shares[1], shares[0], 8);
  *command.mutable_replay() = Request(four->recording(), shares, 1);
  command.mutable_replay()->set_want_timing(true);
  client.Send(command);
  const auto answer = client.Next();
  ASSERT_TRUE(answer.has_value() && answer->has_replayed()) << answer->ShortDebugString();
  EXPECT_GT(answer->replayed().timing().device_us(), 0);
  client.WritesDone();
  EXPECT_FALSE(client.Next().has_value());
  EXPECT_TRUE(client.Finish().ok());

  ASSERT_TRUE(Upload(*stubs_, whole[0], BytesOf(std::vector<float>{7, 8, 9, 10}), 32).ok());
  for (const int64_t k : {2, 3}) ASSERT_TRUE(Replay(Request(one->recording(), whole, k)).ok());
  const std::vector<float> now = FloatsOf(*Download(*stubs_, whole[0]));
  ASSERT_TRUE(Upload(*stubs_, whole[0], BytesOf(std::vector<float>{now[4], now[5]})).ok());
  ASSERT_TRUE(Replay(Request(one->recording(), whole, 1)).ok());
  EXPECT_EQ(All(shares), All(whole));
}

TEST_F(MultiRecording, InAStreamAFailurePoisonsWhatItWouldHaveWritten) {
  const auto four = Record(true);
  ASSERT_TRUE(four.ok()) << four.status();
  const std::vector<uint64_t> shares = Buffers(4);
  SubmitClient client(*stubs_);
  v1::SubmitRequest command;
  *command.mutable_replay() = Request(four->recording(), shares, 10);  // above the greatest
  client.Send(command);
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  client.Read(shares[3]);
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  EXPECT_EQ(client.failed.cause_command_id(), 1u);
}

TEST_F(MultiRecording, WhatIsWrongIsNamed) {
  const auto four = Record(true);
  ASSERT_TRUE(four.ok()) << four.status();
  std::vector<uint64_t> shares = Buffers(4);
  const auto code = [&](const v1::ReplaySequenceRequest& request) {
    return DetailOf(Replay(request)).value_or(v1::ErrorDetail()).code();
  };
  std::swap(shares[1], shares[2]);
  EXPECT_EQ(code(Request(four->recording(), shares, 1)), v1::BUFFER_DEVICE_MISMATCH);
  std::swap(shares[1], shares[2]);
  EXPECT_EQ(code(Request(four->recording(), {shares.begin(), shares.end() - 1}, 1)), v1::MISSING_ARGUMENT);
  EXPECT_EQ(code(Request(four->recording(), shares, 0)), v1::BAD_ARGUMENT);
  EXPECT_EQ(All(shares), All(Buffers(1)));  // none of it ran

  // Another number of memories than of devices; a buffer on two devices.
  v1::RecordSequenceRequest request;
  const auto compiled = Compile(*stubs_, GraphOf(absl::StrReplaceAll(kStep, {{"DEVICES", kFour}})));
  request.add_programs()->set_graph_hash(compiled->graph_hash());
  v1::RecordedStep& step = *request.add_steps();
  AddMemory(step, 0, 0, 4);
  AddMemory(step, 1, 4, 4);
  v1::RecordedArgument& k = *step.add_arguments();
  k.set_slot(9);
  k.set_constant(1);
  v1::RecordSequenceResponse response;
  const auto recorded = [&] {
    const auto status = Call(*stubs_->kernel, &v1::KernelService::Stub::RecordSequence, request, response);
    return DetailOf(status).value_or(v1::ErrorDetail());
  };
  step.mutable_arguments(1)->mutable_shards()->mutable_memory()->RemoveLast();
  EXPECT_EQ(recorded().code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(recorded().slot(), 1u);
  v1::RecordedMemory& last = *step.mutable_arguments(1)->mutable_shards()->add_memory();
  last.set_buffer(1);
  EXPECT_EQ(recorded().code(), v1::BAD_ARGUMENT);  // it is written by two names
  last.set_offset(64);
  EXPECT_EQ(recorded().code(), v1::BUFFER_DEVICE_MISMATCH);
  EXPECT_EQ(recorded().field(), "steps[0]");
  step.mutable_arguments(1)->mutable_memory()->set_buffer(4);
  EXPECT_EQ(recorded().code(), v1::BAD_ARGUMENT);
}

TEST_F(MultiRecording, ADeviceThatIsStuckIsNamed) {
  const auto four = Record(true);
  ASSERT_TRUE(four.ok()) << four.status();
  const std::string recording = four->recording();
  Begin(absl::Milliseconds(50));
  ASSERT_EQ(Record(true)->recording(), recording);
  const std::vector<uint64_t> shares = Buffers(4);
  absl::Notification release;
  Block(2, release);
  ExpectMissing(Replay(Request(recording, shares, 2)), "CPU:2");
  release.Notify();
  EXPECT_EQ(All(shares), All(Buffers(1)));
  EXPECT_TRUE(Replay(Request(recording, shares, 2)).ok());
}

}  // namespace
}  // namespace kiln::e2e
