// How long poison lasts: until the bytes that it is of are overwritten, by a command of a
// stream or by a call. What a run leaves behind that was stopped: cancelled_run_test.cc.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/e2e/long_run.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

class PoisonTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    add_one_.set_graph_hash(Compile(*stubs_, GraphOf(kAddOne))->graph_hash());
    in_place_.set_graph_hash(Compile(*stubs_, GraphOf(kAddOneInPlace))->graph_hash());
    replace_.set_graph_hash(Compile(*stubs_, GraphOf(kReplace))->graph_hash());
  }

  static v1::ExecuteRequest With(v1::ExecuteRequest request, const std::vector<uint64_t>& handles) {
    for (uint32_t slot = 0; slot < handles.size(); ++slot) AddBuffer(request, slot, handles[slot]);
    return request;
  }
  // A write that is too long: all of the buffer is poisoned.
  uint64_t Poison(SubmitClient& client, uint64_t handle) {
    const uint64_t id = client.Write(handle, std::string(33, 'x'));
    EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
    return id;
  }

  const std::string ones_ = BytesOf(std::vector<float>(8, 1.0f)), twos_ = BytesOf(std::vector<float>(8, 2.0f));
  v1::ExecuteRequest add_one_, in_place_, replace_;
};

TEST_F(PoisonTest, EndsWithWhateverOverwritesAllOfIt) {
  struct Way {
    const char* name;
    std::function<void(SubmitClient&)> overwrite;  // buffer 1, of 32 bytes; 2 has ones
    std::string held;
  };
  const Way ways[] = {
      {"write", [&](SubmitClient& c) { c.Write(1, twos_); }, twos_},
      {"fill", [](SubmitClient& c) { c.Fill(1, "ab"); }, "abababababababababababababababab"},
      {"copy", [](SubmitClient& c) { c.Copy(2, 1, 32); }, ones_},
      {"program", [&](SubmitClient& c) { c.Execute(With(replace_, {2, 1}), {0}); }, twos_},
      {"two halves",
       [&](SubmitClient& c) {
         c.Write(1, twos_.substr(0, 16), 16);
         c.Write(1, twos_.substr(0, 16), 0);
       },
       twos_},
      {"a view of all",
       [&](SubmitClient& c) {
         c.View(3, 1, 0, 32);  // says that it is poisoned
         EXPECT_EQ(c.FailureCode(), v1::OUT_OF_BOUNDS);
         c.Write(3, ones_);
       },
       ones_},
  };
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    SubmitClient client(*stubs_);
    client.Allocate(1, 32);
    client.Allocate(2, 32);
    client.Write(2, ones_);
    Poison(client, 1);
    client.Read(1);
    EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
    way.overwrite(client);
    EXPECT_EQ(client.ReadBack(1), way.held);
    client.Execute(With(add_one_, {1}), {9});
    EXPECT_EQ(client.ReadBack(9).size(), 32u);
    client.Drop();
  }
}

// All in one flight: nothing has failed yet when the rest is begun.
TEST_F(PoisonTest, OrderIsThatOfTheCommands) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 32);
  const uint64_t first = client.Write(1, std::string(33, 'x'));
  client.Read(1);
  client.Write(1, ones_);
  client.Read(1);
  client.Write(1, std::string(40, 'x'));
  client.Execute(With(replace_, {1, 1}), {0});  // BAD_ARGUMENT of its own, but for the poison
  client.Fill(1, "abcd");
  client.Execute(With(add_one_, {1}), {2});
  client.Read(2, 0, 4);
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  EXPECT_EQ(client.failed_id, first);
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  EXPECT_EQ(client.failed.cause_command_id(), first);
  EXPECT_EQ(client.Next()->data(), ones_);
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  const uint64_t second = client.failed_id;
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  EXPECT_EQ(client.failed.cause_command_id(), second);
  float word;
  std::memcpy(&word, "abcd", 4);
  EXPECT_EQ(FloatsOf(client.Next()->data()), std::vector<float>{word + 1});
  client.WritesDone();
  EXPECT_FALSE(client.Next().has_value());
  EXPECT_TRUE(client.Finish().ok());
}

TEST_F(PoisonTest, StaysWhereItIsReadOrOnlyPartlyOverwritten) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 32);
  const uint64_t first = Poison(client, 1);
  client.Execute(With(in_place_, {1}), {0});
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  EXPECT_EQ(client.failed.cause_command_id(), first);
  client.Write(1, ones_.substr(0, 31));
  client.Read(1, 0, 31);
  EXPECT_EQ(client.Next()->data(), ones_.substr(0, 31));
  client.Read(1);
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  EXPECT_EQ(client.failed.cause_command_id(), first);
  // What fails heals nothing, and poisons what was healthy.
  client.Fill(1, "abc");
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  client.Read(1, 31, 1);
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  client.Read(1, 0, 4);
  EXPECT_EQ(client.FailureCode(), v1::BAD_ARGUMENT);
  client.Copy(1, 1, 32);  // onto itself
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  client.Write(1, twos_);
  EXPECT_EQ(client.ReadBack(1), twos_);
  client.Drop();
}

TEST_F(PoisonTest, OfOnePartLeavesTheRestAlone) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 64);
  client.View(2, 1, 0, 32);
  client.View(3, 1, 32, 32);
  client.Write(3, ones_);
  Poison(client, 2);
  EXPECT_EQ(client.ReadBack(3), ones_);
  client.Execute(With(in_place_, {3}), {0});
  EXPECT_EQ(client.ReadBack(3), twos_);
  client.Read(1);
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  client.Fill(2, "x");
  EXPECT_EQ(client.ReadBack(1), std::string(32, 'x') + twos_);
  client.Drop();
}

TEST_F(PoisonTest, OfANameForNothingEndsOnlyWithTheName) {
  SubmitClient client(*stubs_);
  client.Allocate(1, 16);
  const uint64_t first = client.Execute(With(add_one_, {1}), {2});
  EXPECT_EQ(client.FailureCode(), v1::BUFFER_SIZE_MISMATCH);
  client.Write(2, ones_);
  EXPECT_EQ(client.FailureCode(), v1::BUFFER_SIZE_MISMATCH);
  EXPECT_EQ(client.failed.cause_command_id(), first);
  client.Free({2});
  client.Allocate(2, 8);
  EXPECT_EQ(client.ReadBack(2), std::string(8, '\0'));
  client.Drop();
}

// Calls that are no commands meet the same poison, and heal it.
TEST_F(PoisonTest, CallsHealToo) {
  const uint64_t mine = *AllocateBytes(*stubs_, 32), other = *AllocateBytes(*stubs_, 32);
  ASSERT_TRUE(Upload(*stubs_, other, ones_).ok());
  SubmitClient client(*stubs_);
  const std::function<void()> ways[] = {
      [&] { EXPECT_TRUE(Upload(*stubs_, mine, ones_).ok()); },
      [&] {
        v1::CopyRequest request;
        v1::CopyResponse response;
        request.mutable_from()->set_handle(other);
        request.mutable_to()->set_handle(mine);
        request.set_bytes(32);
        EXPECT_TRUE(Call(*stubs_->buffer, &v1::BufferService::Stub::Copy, request, response).ok());
      },
      [&] {
        v1::FillRequest request;
        v1::FillResponse response;
        request.mutable_buffer()->set_handle(mine);
        request.set_pattern("y");
        EXPECT_TRUE(Call(*stubs_->buffer, &v1::BufferService::Stub::Fill, request, response).ok());
      },
      [&] { EXPECT_TRUE(Execute(*stubs_, With(replace_, {other, mine})).ok()); },
  };
  for (const auto& way : ways) {
    Poison(client, mine);
    EXPECT_EQ(CodeOf(Download(*stubs_, mine).status()), v1::OUT_OF_BOUNDS);
    EXPECT_EQ(CodeOf(Execute(*stubs_, With(add_one_, {mine})).status()), v1::OUT_OF_BOUNDS);
    EXPECT_EQ(CodeOf(Execute(*stubs_, With(in_place_, {mine})).status()), v1::OUT_OF_BOUNDS);
    way();
    EXPECT_TRUE(Download(*stubs_, mine).ok());
  }
  client.Drop();
}

// A call that fails before anything ran has changed nothing.
TEST_F(PoisonTest, ACallThatWasRefusedLeavesAllAsItWas) {
  const uint64_t mine = *AllocateBytes(*stubs_, 32);
  ASSERT_TRUE(Upload(*stubs_, mine, ones_).ok());
  EXPECT_EQ(CodeOf(Execute(*stubs_, With(in_place_, {mine, mine})).status()), v1::UNKNOWN_ARGUMENT);
  EXPECT_FALSE(Upload(*stubs_, mine, std::string(33, 'x')).ok());
  EXPECT_EQ(*Download(*stubs_, mine), ones_);
}

}  // namespace
}  // namespace kiln::e2e
