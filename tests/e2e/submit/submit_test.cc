// KernelService.Submit: commands in a row without waiting, poison, names, order.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

class SubmitTest : public ServerTest {
 protected:
  void SetUp() override { Begin(server::DefaultConfig()); }

  void Begin(const v1::ServerConfig& config) {
    Start(config);
    v1::CompileRequest request;
    *request.mutable_graph() = GraphOf(kAddOne);
    add_one_.set_graph_hash(Compile(*stubs_, request)->graph_hash());
    *request.mutable_graph() = GraphOf(kAddOneInPlace);
    in_place_.set_graph_hash(Compile(*stubs_, request)->graph_hash());
    before_ = FirstDevice(*stubs_).memory_in_use_bytes();
  }

  v1::ExecuteRequest AddOne(uint64_t handle) { return With(add_one_, handle); }
  v1::ExecuteRequest InPlace(uint64_t handle) { return With(in_place_, handle); }
  static v1::ExecuteRequest With(v1::ExecuteRequest request, uint64_t handle) {
    AddBuffer(request, 0, handle);
    return request;
  }

  // The stream ends well, and nothing of it stays.
  void ExpectGoodEnd(SubmitClient& client) {
    client.WritesDone();
    EXPECT_FALSE(client.Next().has_value());
    EXPECT_TRUE(client.Finish().ok());
    ExpectBaseline();
  }
  void ExpectBaseline() {
    EXPECT_TRUE(MemoryReturnsTo(*stubs_, before_));
    EXPECT_TRUE(Eventually([&] { return server_->engine().buffers().count() == 0; }));
  }

  const std::string ones_ = BytesOf(std::vector<float>(8, 1.0f));
  v1::ExecuteRequest add_one_, in_place_;
  uint64_t before_ = 0;
};

TEST_F(SubmitTest, AllInOneFlight) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 32);
  client.Write(1, ones_);
  client.Execute(AddOne(1), {2});
  client.Execute(InPlace(2), {0});
  const uint64_t read = client.Read(2);
  client.Free({1, 2});
  const uint64_t fence = client.Fence();
  const auto data = client.Next();
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->command_id(), read);
  EXPECT_EQ(FloatsOf(data->data()), std::vector<float>(8, 3.0f));
  const auto fenced = client.Next();
  ASSERT_TRUE(fenced.has_value());
  EXPECT_EQ(fenced->command_id(), fence);
  EXPECT_TRUE(fenced->has_fence());
  EXPECT_EQ(client.welcome.protocol(), 1u);
  EXPECT_EQ(client.welcome.accepted(), 0u);
  ExpectGoodEnd(client);
}

// What is behind an execution waits not only for its program, but until it is in the
// device's queue.
TEST_F(SubmitTest, AReadBehindAProgramThatIsCompiled) {
  for (int i = 1; i <= 20; ++i) {
    v1::ExecuteRequest execute;
    *execute.mutable_graph() = GraphOf(absl::StrCat(R"(
      0 CONST [] weakint 8
      1 PARAM : float32 [0] slot=0
      2 CONST [] float32 )",
                                                    i, R"(.0
      3 ADD [1, 2]
      4 TUPLE [3])"));
    SubmitClient client(*stubs_);
    client.Allocate(1, 32);
    client.Write(1, ones_);
    AddBuffer(execute, 0, 1);
    client.Execute(execute, {2});
    EXPECT_EQ(FloatsOf(client.ReadBack(2)), std::vector<float>(8, 1.0f + i));
    client.Free({1, 2});
    client.WritesDone();
    EXPECT_FALSE(client.Next().has_value());
  }
}

TEST_F(SubmitTest, CompileFillCopyViewAndValues) {
  SubmitClient client(*stubs_);
  v1::SubmitRequest compile;
  *compile.mutable_compile()->mutable_graph() = GraphOf(R"(
    0 CONST [] weakint 8
    1 PARAM : float32 [0] slot=0
    2 MUL [1, 1]
    3 TUPLE [2]
  )");
  client.Send(compile);
  const auto compiled = client.Next();
  ASSERT_TRUE(compiled.has_value());
  ASSERT_TRUE(compiled->has_compiled()) << compiled->ShortDebugString();

  client.Allocate(10, 64);
  client.Fill(10, BytesOf({3.0f}));
  client.View(11, 10, 32, 32);
  v1::ExecuteRequest square;
  square.set_graph_hash(compiled->compiled().graph_hash());
  client.Execute(With(square, 11), {12});
  client.Copy(12, 10, 32);
  EXPECT_EQ(FloatsOf(client.ReadBack(10)), (std::vector<float>{9, 9, 9, 9, 9, 9, 9, 9, 3, 3, 3, 3, 3, 3, 3, 3}));

  // Results by value, and a command that is answered because it asks.
  square.set_result_mode(v1::RESULT_INLINE);
  AddFloats(square, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  client.Execute(square, {});
  const auto executed = client.Next();
  ASSERT_TRUE(executed.has_value() && executed->has_executed());
  EXPECT_EQ(FloatsOf(executed->executed().results(0).tensor().data()),
            (std::vector<float>{1, 4, 9, 16, 25, 36, 49, 64}));
  v1::SubmitRequest asks;
  asks.mutable_free()->add_handle(12);
  asks.set_answer(true);
  const uint64_t id = client.Send(asks);
  const auto done = client.Next();
  ASSERT_TRUE(done.has_value() && done->has_done());
  EXPECT_EQ(done->command_id(), id);
  ExpectGoodEnd(client);
}

TEST_F(SubmitTest, ALargeReadComesInPiecesAndWholeAndOfOneMoment) {
  v1::ServerConfig config = server::DefaultConfig();
  config.mutable_stream_limits()->set_max_answer_bytes(2 << 20);
  Begin(config);
  constexpr uint64_t kBytes = (21 << 20) + 12345;
  SubmitClient client(*stubs_);
  client.Allocate(1, kBytes);
  std::string piece(kBytes / 3, 'a');
  client.Write(1, piece);
  client.Write(1, std::string(kBytes / 3, 'b'), kBytes / 3);
  const uint64_t first = client.Read(1);
  v1::SubmitRequest fill;
  fill.mutable_fill()->mutable_buffer()->set_handle(1);
  fill.mutable_fill()->set_pattern("z");
  client.Send(fill);
  client.Read(1, 5, 3);
  const auto data = client.Next();
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->command_id(), first);
  EXPECT_TRUE(data->data() == piece + std::string(kBytes / 3, 'b') + std::string(kBytes - 2 * (kBytes / 3), '\0'));
  const auto after = client.Next();
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->data(), "zzz");
  ExpectGoodEnd(client);
}

TEST_F(SubmitTest, PoisonNamesTheFirstCause) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 32);
  client.Write(1, ones_);
  client.Allocate(5, 16);
  v1::ExecuteRequest wrong = AddOne(5);
  const uint64_t first = client.Execute(wrong, {2}, "layer 3");
  client.Execute(AddOne(2), {3});
  client.Execute(InPlace(3), {0});
  client.Copy(3, 1, 32);
  client.View(6, 1, 0, 8);
  client.Read(6);
  EXPECT_EQ(client.FailureCode(), v1::BUFFER_SIZE_MISMATCH);
  EXPECT_EQ(client.failed_id, first);
  EXPECT_EQ(client.failed.cause_command_id(), 0u);
  EXPECT_EQ(client.failed.tag(), "layer 3");
  for (int i = 0; i < 5; ++i) {
    const absl::Status status = client.Failure();
    const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::BUFFER_SIZE_MISMATCH) << status;
    EXPECT_EQ(detail.slot(), 0u);
    EXPECT_EQ(client.failed_id, first + 1 + i);
    EXPECT_EQ(client.failed.cause_command_id(), first);
    EXPECT_EQ(client.failed.tag(), "layer 3");
  }
  // 5 was only read; the poisoned can be freed, and made anew.
  EXPECT_EQ(client.ReadBack(5), std::string(16, '\0'));
  client.Free({1, 2, 3, 6});
  client.Allocate(2, 8);
  EXPECT_EQ(client.ReadBack(2), std::string(8, '\0'));
  ExpectGoodEnd(client);
}

TEST_F(SubmitTest, WhatTheProgramWouldHaveWrittenIsPoisoned) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 32);
  v1::ExecuteRequest twice = InPlace(1);
  AddBuffer(twice, 0, 1);
  client.Execute(twice, {0});
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  client.Read(1);
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  EXPECT_EQ(client.failed.cause_command_id(), 2u);
  ExpectGoodEnd(client);
}

// A name that the client could not have: whatever uses it is told why, and by which command.
TEST_F(SubmitTest, ANameThatIsRefusedNamesTheFirstCause) {
  v1::ServerConfig config = server::DefaultConfig();
  config.mutable_session_limits()->set_max_handles(2);
  Begin(config);
  SubmitClient client(*stubs_);
  const auto expect_cause = [&client](uint64_t command, uint64_t cause) {
    const auto detail = DetailOf(client.Failure()).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::OUT_OF_MEMORY);
    EXPECT_EQ(detail.limit(), "handles");
    EXPECT_EQ(client.failed_id, command);
    EXPECT_EQ(client.failed.cause_command_id(), cause);
    EXPECT_EQ(client.failed.tag(), "layer 7");
  };
  client.Allocate(1, 32);
  client.Write(1, ones_);
  client.Allocate(2, 32);
  const uint64_t first = client.Execute(AddOne(1), {3}, "layer 7");
  client.Execute(AddOne(3), {4});  // no room for 4, either
  client.Copy(3, 2, 32);
  client.Write(3, ones_);
  client.View(5, 3, 0, 8);
  client.Read(4);
  client.Read(5);
  client.Read(2);
  expect_cause(first, 0);
  for (uint64_t command = first + 1; command <= first + 7; ++command) expect_cause(command, first);
  // What was refused can be freed like what was made, and made anew.
  client.Free({2, 3, 4});
  client.Read(4);
  EXPECT_EQ(client.FailureCode(), v1::HANDLE_FREED);
  client.Execute(AddOne(1), {3});
  EXPECT_EQ(FloatsOf(client.ReadBack(3)), std::vector<float>(8, 2.0f));
  ExpectGoodEnd(client);
}

TEST_F(SubmitTest, BadInputIsEachItsOwnError) {
  const uint64_t of_nobody = *AllocateBytes(*stubs_, 8);
  SubmitClient client(*stubs_), other(*stubs_);
  client.Allocate(1, 32);
  other.Allocate(7, 8);
  EXPECT_EQ(other.ReadBack(7), std::string(8, '\0'));

  client.Allocate(1, 8);
  EXPECT_EQ(client.FailureCode(), v1::HANDLE_TAKEN);
  client.Allocate(of_nobody, 8);
  EXPECT_EQ(client.FailureCode(), v1::HANDLE_TAKEN);
  client.Allocate(0, 8);
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  EXPECT_EQ(client.ReadBack(1), std::string(32, '\0'));  // it stays what it was
  client.Read(7);                                        // another's
  EXPECT_EQ(client.FailureCode(), v1::UNKNOWN_HANDLE);
  client.Free({7});
  EXPECT_EQ(client.FailureCode(), v1::UNKNOWN_HANDLE);
  client.Allocate(2, 8);
  client.Free({2, 99});
  EXPECT_EQ(client.FailureCode(), v1::UNKNOWN_HANDLE);
  EXPECT_EQ(client.ReadBack(2), std::string(8, '\0'));  // all or none
  client.Free({2});
  client.Free({2});
  EXPECT_EQ(client.FailureCode(), v1::HANDLE_FREED);
  client.Read(2);
  EXPECT_EQ(client.FailureCode(), v1::HANDLE_FREED);
  client.Execute(AddOne(2), {3});
  EXPECT_EQ(client.FailureCode(), v1::HANDLE_FREED);
  client.Read(3);
  EXPECT_EQ(client.FailureCode(), v1::HANDLE_FREED);
  client.Write(1, std::string(33, 'x'));
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  client.Read(1);
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  client.Allocate(4, uint64_t{1} << 62);
  EXPECT_EQ(client.FailureCode(), v1::SIZE_OVERFLOW);
  client.Fill(4, "x");
  EXPECT_EQ(client.FailureCode(), v1::SIZE_OVERFLOW);
  client.Allocate(8, 32);
  client.Execute(AddOne(8), {});
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  client.Execute(InPlace(8), {9});
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  v1::SubmitRequest request;
  client.Send(request);
  EXPECT_EQ(client.FailureCode(), v1::NOT_IMPLEMENTED);
  v1::ExecuteRequest unknown;
  unknown.set_graph_hash(std::string(32, 'x'));
  client.Execute(unknown, {20});
  EXPECT_EQ(client.FailureCode(), v1::NEED_GRAPH);
  client.WritesDone();
  EXPECT_FALSE(client.Next().has_value());
  other.WritesDone();
  EXPECT_FALSE(other.Next().has_value());
  ASSERT_TRUE(Free(*stubs_, {of_nobody}).ok());
  ExpectBaseline();
}

TEST_F(SubmitTest, OrderIsKept) {
  {
    SubmitClient client(*stubs_);
    client.Fence();
    v1::SubmitRequest again;
    again.set_command_id(1);
    again.mutable_fence();
    client.Send(again);
    EXPECT_TRUE(client.Next()->has_fence());
    EXPECT_EQ(client.FailureCode(), v1::COMMAND_ORDER);
  }
  {
    const auto context = NewContext();
    const auto stream = stubs_->kernel->Submit(context.get());
    v1::SubmitRequest request;
    request.set_command_id(1);
    request.mutable_fence();
    stream->Write(request);
    v1::SubmitResponse response;
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_EQ(DetailOf(server::FromGrpc(stream->Finish()))->code(), v1::COMMAND_ORDER);
  }
  {
    const auto context = NewContext();
    const auto stream = stubs_->kernel->Submit(context.get());
    stream->WritesDone();
    v1::SubmitResponse response;
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_TRUE(stream->Finish().ok());
  }
  ExpectBaseline();
}

TEST_F(SubmitTest, MemoryThatIsStillInUseIsWaitedFor) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_cpu_memory_bytes(64 << 20);
  Begin(config);
  SubmitClient client(*stubs_);
  for (uint64_t i = 1; i <= 20; ++i) {
    client.Allocate(i, 40 << 20);
    client.Fill(i, std::string(1, static_cast<char>(i)));
    client.Free({i});
  }
  EXPECT_EQ(client.Fence(), 61u);
  const auto fenced = client.Next();
  ASSERT_TRUE(fenced.has_value());
  EXPECT_TRUE(fenced->has_fence()) << fenced->ShortDebugString();
  client.Allocate(30, 80 << 20);
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_MEMORY);
  ExpectGoodEnd(client);
}

TEST_F(SubmitTest, AClientThatVanishesLeavesNothing) {
  for (int i = 0; i < 20; ++i) {
    SubmitClient client(*stubs_);
    client.Allocate(1, 1 << 20);
    client.Fence();
    if (i % 2 == 0) client.Next();
    client.Drop();
  }
  ExpectBaseline();
}

TEST_F(SubmitTest, AServerThatStopsAnswersWhatItTook) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 1 << 20);
  client.Fence();
  ASSERT_TRUE(client.Next()->has_fence());
  EXPECT_TRUE(server_->Drain(absl::Minutes(1)));
  EXPECT_EQ(client.FailureCode(), v1::SHUTTING_DOWN);
}

// Answers that nobody reads hold the client back, and not the server's memory.
TEST_F(SubmitTest, AClientThatDoesNotReadIsHeldBack) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 1 << 20);
  client.Fence();
  ASSERT_TRUE(client.Next()->has_fence());
  constexpr int kReads = 200;
  for (int i = 0; i < kReads; ++i) client.Read(1);
  for (int i = 0; i < kReads; ++i) ASSERT_EQ(client.Next()->data().size(), size_t{1} << 20);
  ExpectGoodEnd(client);
}

}  // namespace
}  // namespace kiln::e2e
