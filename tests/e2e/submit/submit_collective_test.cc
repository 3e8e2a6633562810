// Collectives as commands of a stream: their order among the others, what they answer, and
// what becomes of their outputs when they fail.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

using Kind = v1::CollectiveCommand;

class SubmitCollectiveTest : public ServerTest {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    config.set_cpu_devices(kDevices);
    Start(config);
  }

  // Handles `first`, `first` + 1, …, one a device, of `bytes` each.
  static void AllocateOnEach(SubmitClient& client, uint64_t first, uint64_t bytes) {
    for (int i = 0; i < kDevices; ++i) {
      v1::SubmitRequest request;
      request.mutable_allocate()->set_handle(first + i);
      request.mutable_allocate()->set_bytes(bytes);
      request.mutable_allocate()->set_device(absl::StrCat("CPU:", i));
      client.Send(request);
    }
  }
  static v1::SubmitRequest Collective(Kind::Kind kind, const std::vector<uint64_t>& inputs,
                                      const std::vector<uint64_t>& outputs, uint64_t count, v1::Op op) {
    v1::SubmitRequest request;
    request.mutable_collective()->set_kind(kind);
    v1::CollectiveRequest& asked = *request.mutable_collective()->mutable_request();
    for (uint64_t handle : inputs) asked.add_input()->set_handle(handle);
    for (uint64_t handle : outputs) asked.add_output()->set_handle(handle);
    asked.set_dtype(v1::FLOAT32);
    asked.set_count(count);
    asked.set_op(op);
    return request;
  }
  static v1::SubmitRequest AllReduce(const std::vector<uint64_t>& buffers, uint64_t count) {
    return Collective(Kind::ALL_REDUCE, buffers, buffers, count, v1::ADD);
  }
  static void ExpectGoodEnd(SubmitClient& client) {
    client.WritesDone();
    EXPECT_FALSE(client.Next().has_value());
    EXPECT_TRUE(client.Finish().ok());
  }

  static constexpr int kDevices = 3;
};

TEST_F(SubmitCollectiveTest, InOneFlightAndInOrder) {
  SubmitClient client(*stubs_);
  AllocateOnEach(client, 1, 12);
  for (uint64_t i = 0; i < kDevices; ++i) client.Write(1 + i, BytesOf({float(i), float(10 * i), 1.0f}));
  client.Send(AllReduce({1, 2, 3}, 3));
  client.Write(2, BytesOf({7.0f}));  // after the first, before the second
  client.Send(AllReduce({1, 2, 3}, 3));
  EXPECT_EQ(FloatsOf(client.ReadBack(1)), (std::vector<float>{13, 90, 9}));
  EXPECT_EQ(FloatsOf(client.ReadBack(3)), (std::vector<float>{13, 90, 9}));
  ExpectGoodEnd(client);
}

TEST_F(SubmitCollectiveTest, EachKindIsItself) {
  SubmitClient client(*stubs_);
  const std::vector<uint64_t> wholes = {1, 2, 3}, parts = {11, 12, 13}, others = {21, 22, 23};
  for (uint64_t first : {1, 11, 21}) AllocateOnEach(client, first, 12);
  const auto floats = [&](uint64_t handle) { return FloatsOf(client.ReadBack(handle)); };
  for (uint64_t i = 0; i < kDevices; ++i) client.Write(1 + i, BytesOf({float(i + 1), float(i + 2), float(i + 3)}));
  client.Send(Collective(Kind::REDUCE, wholes, {21}, 3, v1::MAX));
  EXPECT_EQ(floats(21), (std::vector<float>{3, 4, 5}));
  client.Send(Collective(Kind::REDUCE_SCATTER, wholes, parts, 3, v1::MUL));
  EXPECT_EQ(floats(12), (std::vector<float>{24, 0, 0}));
  client.Send(Collective(Kind::ALL_GATHER, parts, others, 3, v1::OP_UNSPECIFIED));
  EXPECT_EQ(floats(23), (std::vector<float>{6, 24, 60}));
  client.Send(Collective(Kind::GATHER, parts, {1}, 3, v1::OP_UNSPECIFIED));
  EXPECT_EQ(floats(1), (std::vector<float>{6, 24, 60}));
  client.Send(Collective(Kind::BROADCAST, {1}, wholes, 3, v1::OP_UNSPECIFIED));
  EXPECT_EQ(floats(3), (std::vector<float>{6, 24, 60}));
  client.Send(Collective(Kind::SCATTER, {1}, others, 3, v1::OP_UNSPECIFIED));
  EXPECT_EQ(floats(22), (std::vector<float>{24, 24, 60}));
  client.Send(Collective(Kind::ALL_REDUCE, wholes, others, 3, v1::ADD));
  EXPECT_EQ(floats(22), (std::vector<float>{18, 72, 180}));
  ExpectGoodEnd(client);
}

TEST_F(SubmitCollectiveTest, AnswersWhenAsked) {
  SubmitClient client(*stubs_);
  constexpr uint64_t kCount = 1 << 16;
  AllocateOnEach(client, 1, 4 * kCount);
  v1::SubmitRequest request = AllReduce({1, 2, 3}, kCount);
  request.mutable_collective()->set_want_report(true);
  const uint64_t id = client.Send(request);
  const auto report = client.Next();
  ASSERT_TRUE(report.has_value() && report->has_collective()) << report->ShortDebugString();
  EXPECT_EQ(report->command_id(), id);
  EXPECT_FALSE(report->collective().algorithm().empty());
  EXPECT_GT(report->collective().bus_bandwidth_gb_s(), 0);
  request = AllReduce({1, 2, 3}, kCount);
  request.set_answer(true);
  client.Send(request);
  EXPECT_TRUE(client.Next()->has_done());
  ExpectGoodEnd(client);
}

TEST_F(SubmitCollectiveTest, PoisonReachesEveryOutput) {
  SubmitClient client(*stubs_);
  AllocateOnEach(client, 1, 8);
  AllocateOnEach(client, 11, 8);
  v1::SubmitRequest wrong;
  wrong.set_tag("step 7");
  wrong.mutable_write()->mutable_buffer()->set_handle(2);
  wrong.mutable_write()->set_data(std::string(9, 'x'));
  const uint64_t first = client.Send(wrong);
  client.Send(Collective(Kind::ALL_GATHER, {1, 2, 3}, {11, 12, 13}, 3, v1::OP_UNSPECIFIED));
  client.Read(13);
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
    EXPECT_EQ(client.failed.cause_command_id(), first);
    EXPECT_EQ(client.failed.tag(), "step 7");
  }
  // What was only read is as it was.
  EXPECT_EQ(client.ReadBack(1), std::string(8, '\0'));
  ExpectGoodEnd(client);
}

TEST_F(SubmitCollectiveTest, BadInputIsEachItsOwnErrorAndPoisonsTheOutputs) {
  struct Case {
    v1::SubmitRequest request;
    v1::ErrorCode code;
  };
  const auto with = [](v1::SubmitRequest request, Kind::Kind kind) {
    request.mutable_collective()->set_kind(kind);
    return request;
  };
  v1::SubmitRequest bad_op = AllReduce({1, 2, 3}, 2);
  bad_op.mutable_collective()->mutable_request()->set_op(v1::SUB);
  const Case cases[] = {
      {with(AllReduce({1, 2, 3}, 2), Kind::KIND_UNSPECIFIED), v1::BAD_ARGUMENT},
      {with(AllReduce({1, 2, 3}, 2), static_cast<Kind::Kind>(99)), v1::BAD_ARGUMENT},
      {bad_op, v1::BAD_ARGUMENT},
      {AllReduce({1, 2, 2}, 2), v1::DUPLICATE_DEVICE},
      {AllReduce({1, 2, 3}, 3), v1::OUT_OF_BOUNDS},
      {AllReduce({1, 2, 99}, 2), v1::UNKNOWN_HANDLE},
      {Collective(Kind::ALL_REDUCE, {1, 2, 3}, {2, 1, 3}, 2, v1::ADD), v1::BUFFER_DEVICE_MISMATCH},
      {Collective(Kind::ALL_REDUCE, {1, 2}, {1, 2, 3}, 2, v1::ADD), v1::BAD_ARGUMENT},
  };
  for (const Case& bad : cases) {
    SubmitClient client(*stubs_);
    AllocateOnEach(client, 1, 8);
    const uint64_t id = client.Send(bad.request);
    client.Read(1);
    EXPECT_EQ(client.FailureCode(), bad.code) << bad.request.ShortDebugString();
    EXPECT_EQ(client.failed_id, id);
    EXPECT_EQ(client.FailureCode(), bad.code);
    EXPECT_EQ(client.failed.cause_command_id(), id);
    ExpectGoodEnd(client);
  }
}

TEST_F(SubmitCollectiveTest, FreedHandlesAndThoseOfOthers) {
  SubmitClient client(*stubs_), other(*stubs_);
  AllocateOnEach(client, 1, 8);
  AllocateOnEach(other, 31, 8);
  other.Fence();
  ASSERT_TRUE(other.Next()->has_fence());
  client.Free({2});
  client.Send(AllReduce({1, 2, 3}, 2));
  EXPECT_EQ(client.FailureCode(), v1::HANDLE_FREED);
  client.Send(Collective(Kind::ALL_REDUCE, {31, 32, 33}, {31, 32, 33}, 2, v1::ADD));
  EXPECT_EQ(client.FailureCode(), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(other.ReadBack(31), std::string(8, '\0'));
  ExpectGoodEnd(client);
  ExpectGoodEnd(other);
}

}  // namespace
}  // namespace kiln::e2e
