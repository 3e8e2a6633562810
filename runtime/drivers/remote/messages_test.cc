// Messages that no rank would send: each is refused with an error, and the rank goes on.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "runtime/cluster/loopback.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/drivers/remote/switchboard.h"
#include "runtime/drivers/remote/worker.h"
#include "runtime/testing/programs.h"

namespace kiln::runtime::remote {
namespace {

using cluster::Packer;

// Rank 1 is a worker with one device; the test is rank 0, and says what it likes.
class MessagesTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kDeviceLane = 0, kSharedLane = 1;

  void SetUp() override {
    cpu::DeviceOptions options;
    options.threads = 1;
    options.memory_limit_bytes = 64 << 20;
    worker_ = *Worker::Make(*cpu::CreateDevices(1, options),
                            [](cluster::Transport&, absl::string_view task, const cluster::Ranges&) {
                              return task == "a song" ? absl::OkStatus() : cluster::BadMessage("is no song");
                            });
    cluster::TransportOptions zero, one;
    zero.silence = one.silence = absl::Seconds(60);
    zero.reader = [this](cluster::Message message) { return Note(std::move(message)); };
    one.reader = [this](cluster::Message message) { return worker_->Read(std::move(message)); };
    one.died = [this](uint32_t, const absl::Status&) { died_.Notify(); };
    zero_ = *cluster::Transport::Open([this] { return loopback_.MakeWire(0); }, std::move(zero));
    one_ = *cluster::Transport::Open([this] { return loopback_.MakeWire(1); }, std::move(one));
    worker_->Begin(one_.get(), "host");
    absl::MutexLock lock(&mutex_);
    const auto said = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return hello_.devices.size() == 1; };
    mutex_.Await(absl::Condition(&said));
    base_ = hello_.devices[0].base;
    end_ = base_ + hello_.devices[0].reach;
    target_ = hello_.devices[0].target;
  }
  void TearDown() override {
    worker_ = nullptr;
    one_ = nullptr;
    zero_ = nullptr;
  }

  absl::Status Note(cluster::Message message) {
    cluster::Unpacker unpacker(message.bytes);
    const auto kind = unpacker.Number<MessageKind>();
    absl::MutexLock lock(&mutex_);
    if (kind == MessageKind::kHello) {
      KILN_ASSIGN_OR_RETURN(hello_, UnpackHello(unpacker));
      return absl::OkStatus();
    }
    const auto number = unpacker.Number<uint64_t>();
    Answer& answer = answers_[number];
    answer.status = UnpackStatus(unpacker);
    answer.rest = std::string(unpacker.Rest());
    return absl::OkStatus();
  }

  static std::string Message(uint32_t lane, uint64_t number, Command command, const std::string& rest) {
    return NewMessage(MessageKind::kCommand).Number(lane).Number(number).Number(command).Rest(rest).Take();
  }
  // What the other rank answers.
  absl::Status Ask(uint32_t lane, Command command, const std::string& rest, std::string* answer = nullptr) {
    const uint64_t number = ++last_;
    zero_->Tell(1, Message(lane, number, command, rest));
    absl::MutexLock lock(&mutex_);
    const auto answered = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return answers_.count(number) != 0; };
    mutex_.Await(absl::Condition(&answered));
    if (answer != nullptr) *answer = answers_[number].rest;
    return answers_[number].status;
  }
  // A module of x[i] += x[i] over eight floats.
  uint64_t LoadDouble() {
    std::string answer;
    const std::string executable = testing::DoubleProgram(8, target_).SerializeAsString();
    EXPECT_EQ(Ask(kSharedLane, Command::kLoad, Packer().Number(uint32_t{0}).Rest(executable).Take(), &answer),
              absl::OkStatus());
    return cluster::Unpacker(answer).Number<uint64_t>();
  }
  static std::string Launch(uint64_t module, uint32_t kernel, const std::vector<uint64_t>& operands) {
    Packer rest;
    rest.Number(module).Number(int64_t{0}).Number(uint32_t{1}).Number(kernel);
    rest.Number(static_cast<uint32_t>(operands.size()));
    for (const uint64_t operand : operands) rest.Number(operand);
    return rest.Take();
  }
  uint32_t DoubleKernel() const { return testing::DoubleProgram(8, target_).steps(0).kernel(); }
  // It works as ever.
  void ExpectWorks() {
    const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    std::string bytes(reinterpret_cast<const char*>(ones), sizeof(ones));
    const uint64_t size = bytes.size();
    EXPECT_EQ(Ask(kDeviceLane, Command::kWrite, Packer().Number(base_).Number(size).Rest(bytes).Take()),
              absl::OkStatus());
    EXPECT_EQ(Ask(kDeviceLane, Command::kLaunch, Launch(LoadDouble(), DoubleKernel(), {base_})), absl::OkStatus());
    std::string got;
    EXPECT_EQ(Ask(kDeviceLane, Command::kRead, Packer().Number(base_).Number(size).Take(), &got), absl::OkStatus());
    ASSERT_EQ(got.size(), size);
    float values[8];
    std::memcpy(values, got.data(), size);
    for (const float value : values) EXPECT_EQ(value, 2.0f);
    EXPECT_EQ(Ask(kSharedLane, Command::kTask, "a song"), absl::OkStatus());
    EXPECT_EQ(one_->Life(0), absl::OkStatus());
  }

  struct Answer {
    absl::Status status;
    std::string rest;
  };
  cluster::Loopback loopback_{2};
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<cluster::Transport> zero_, one_;
  uint64_t base_ = 0, end_ = 0, last_ = 0;
  v1::Target target_;
  absl::Notification died_;  // rank 0, to the other
  absl::Mutex mutex_;
  Hello hello_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Answer> answers_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(MessagesTest, WhatNamesWhatTheRankHasNotGivenIsRefused) {
  const uint64_t module = LoadDouble();
  const uint32_t kernel = DoubleKernel();
  const auto place = [](uint64_t address, uint64_t bytes) { return Packer().Number(address).Number(bytes); };
  const auto copy = [](uint64_t from, uint64_t to, uint64_t bytes) {
    return Packer().Number(from).Number(to).Number(bytes).Take();
  };
  const auto elsewhere = reinterpret_cast<uint64_t>(this);
  const std::string executable = testing::DoubleProgram(8, target_).SerializeAsString();
  v1::Executable stepless;
  stepless.add_steps()->set_kernel(7);
  const struct {
    Command command;
    std::string rest;
    const char* part;
  } rows[] = {
      {Command::kWrite, place(elsewhere, 4).Rest("abcd").Take(), "memory that this rank has not given"},
      {Command::kWrite, place(base_ - 1, 4).Rest("abcd").Take(), "memory that this rank has not given"},
      {Command::kWrite, place(end_ - 3, 4).Rest("abcd").Take(), "memory that this rank has not given"},
      {Command::kWrite, place(base_, 4).Rest("abc").Take(), "has not the bytes"},
      {Command::kWrite, "", "names no place"},
      {Command::kRead, place(elsewhere, 8).Take(), "memory that this rank has not given"},
      {Command::kRead, place(end_, 8).Take(), "memory that this rank has not given"},
      {Command::kFill, place(base_, UINT64_MAX).Bytes("x").Take(), "memory that this rank has not given"},
      {Command::kFill, place(base_, 8).Number(uint64_t{9}).Take(), "no pattern"},
      {Command::kClear, place(elsewhere & ~uint64_t{4095}, 4096).Take(), "memory that this rank has not given"},
      {Command::kCopy, copy(elsewhere, base_, 8), "copies what this rank has not given"},
      {Command::kCopy, copy(base_, elsewhere, 8), "memory that this rank has not given"},
      {Command::kCopy, copy(end_ - 4, base_, 8), "copies what this rank has not given"},
      {Command::kLoad, Packer().Number(uint32_t{1}).Rest(executable).Take(), "device that this rank has not"},
      {Command::kLoad, Packer().Number(uint32_t{0}).Rest("\xff\xff").Take(), "no executable"},
      {Command::kLoad, Packer().Number(uint32_t{0}).Rest(stepless.SerializeAsString()).Take(), "step of no kernel"},
      {Command::kUnload, Packer().Number(module + 1).Take(), "names no module"},
      {Command::kLaunch, Launch(module + 1, kernel, {base_}), "no module of this device"},
      {Command::kLaunch, Launch(module, 1000, {base_}), "launches no kernel"},
      {Command::kLaunch, Launch(module, kernel, {}), "operands of its kernel"},
      {Command::kLaunch, Launch(module, kernel, {base_, base_}), "operands of its kernel"},
      {Command::kLaunch, Launch(module, kernel, {elsewhere}), "memory of another"},
      {Command::kLaunch, Packer().Number(module).Number(int64_t{0}).Number(UINT32_MAX).Take(), "ends within"},
      {Command::kTask, "noise", "is no song"},
      {static_cast<Command>(200), "", "no command that this build knows"},
  };
  for (const auto& row : rows) {
    const absl::Status status = Ask(kDeviceLane, row.command, row.rest);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << row.part;
    EXPECT_TRUE(absl::StrContains(status.message(), row.part)) << status;
  }
  EXPECT_TRUE(absl::StrContains(Ask(kSharedLane, Command::kLaunch, Launch(module, kernel, {base_})).message(),
                                "no module of this device"));
  ExpectWorks();
}

// Cut anywhere, and each byte changed. What then still is a command does what it says, within
// the memory that was given: so a parcel is never named, and code is not changed.
TEST_F(MessagesTest, DamagedCommandsDoNoHarm) {
  const uint64_t module = LoadDouble();
  const std::pair<Command, std::string> commands[] = {
      {Command::kWrite, Packer().Number(base_ + 4096).Number(uint64_t{4}).Rest("abcd").Take()},
      {Command::kFill, Packer().Number(base_ + 4096).Number(uint64_t{64}).Bytes("xy").Take()},
      {Command::kClear, Packer().Number(base_ + 4096).Number(uint64_t{8192}).Take()},
      {Command::kCopy, Packer().Number(base_ + 4096).Number(base_ + 8192).Number(uint64_t{64}).Take()},
      {Command::kLaunch, Launch(module, DoubleKernel(), {base_ + 4096})},
  };
  for (const auto& [command, rest] : commands) {
    for (size_t size = 0; size < rest.size(); ++size) {
      EXPECT_FALSE(Ask(kDeviceLane, command, rest.substr(0, size)).ok()) << static_cast<int>(command) << " " << size;
    }
    for (size_t i = 0; i < rest.size(); ++i) {
      for (const int change : {1, 0x80, 0xff}) {
        std::string damaged = rest;
        damaged[i] = static_cast<char>(damaged[i] ^ change);
        // More bytes would be parcels, for which the test would have to send.
        if (command == Command::kWrite && i >= 8 && i < 16) continue;
        Ask(kDeviceLane, command, damaged).IgnoreError();
      }
    }
  }
  const std::string executable = testing::DoubleProgram(8, target_).SerializeAsString();
  for (size_t size = 0; size < executable.size(); size += 61) {
    Ask(kSharedLane, Command::kLoad, Packer().Number(uint32_t{0}).Rest(executable.substr(0, size)).Take())
        .IgnoreError();
  }
  ExpectWorks();
}

TEST_F(MessagesTest, WhatIsNoCommandIsNotTaken) {
  const std::string good =
      Message(kDeviceLane, 1000, Command::kClear, Packer().Number(base_).Number(uint64_t{8}).Take());
  const auto read = [this](std::string bytes, uint32_t from = 0) {
    return std::string(worker_->Read({from, std::move(bytes)}).message());
  };
  EXPECT_EQ(read(good), "");
  EXPECT_TRUE(absl::StrContains(read(good, 1), "not of rank 0"));
  EXPECT_TRUE(absl::StrContains(read(Message(2, 1001, Command::kClear, "")), "a lane that this rank has not"));
  EXPECT_TRUE(absl::StrContains(read(NewMessage(MessageKind::kAnswer).Number(uint32_t{0}).Take()), "no command"));
  for (size_t size = 0; size < 1 + sizeof(uint32_t) + sizeof(uint64_t); ++size)
    EXPECT_NE(read(good.substr(0, size)), "");
  ExpectWorks();
}

// A rank 0 that would wait for ever for a parcel hears no more, and so that this rank is gone.
TEST_F(MessagesTest, AParcelToNowhereEndsTheJob) {
  const auto place = Packer().Number(base_ - 1).Number(kMaxBytesInMessage + 1).Take();
  zero_->Tell(1, Message(kDeviceLane, ++last_, Command::kRead, place));
  died_.WaitForNotification();
  EXPECT_TRUE(absl::StrContains(one_->Life(0).message(), "memory that this rank has not given"));
}

TEST(SwitchboardTest, ARankThatSendsNoMessagesIsTakenForDead) {
  const std::string answer_of_none = NewMessage(MessageKind::kStop).Number(uint64_t{1}).Take();
  const std::string cut = Pack(Hello{"host", 1, {{"CPU", v1::Target(), 4096, 4096, 4096}}}).substr(0, 40);
  Hello wide{"host", 1, {{"CPU", v1::Target(), 4096, UINT64_MAX, 4096}}};
  for (const std::string& message : {std::string(), std::string(1, '\x7f'), answer_of_none, cut, Pack(wide)}) {
    cluster::Loopback loopback(2);
    const auto board = Switchboard::Open([&] { return loopback.MakeWire(0); }, absl::Seconds(60), nullptr);
    const auto one = *cluster::Transport::Open([&] { return loopback.MakeWire(1); }, {.silence = absl::Seconds(60)});
    one->Tell(0, message);
    EXPECT_EQ(DetailOf((*board)->Gather(absl::Seconds(60)).status()).value_or(v1::ErrorDetail()).code(),
              v1::PARTICIPANT_MISSING);
    EXPECT_TRUE(absl::StrContains((*board)->transport().Life(1).message(), "a message between ranks"))
        << message.size();
  }
}

TEST(ProtocolTest, DamagedHellosAndStatusesDoNoHarm) {
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  Packer packed;
  PackStatus(MakeError(detail, "too much"), packed);
  const std::string status = packed.Take();
  const std::string hello = Pack(Hello{"host", 1, {{"CPU", v1::Target(), 4096, 8192, 4096}}}).substr(1);
  for (size_t size = 0; size < hello.size(); ++size) {
    const std::string cut = hello.substr(0, size);
    cluster::Unpacker unpacker(cut);
    EXPECT_FALSE(UnpackHello(unpacker).ok()) << size;
  }
  for (size_t size = 0; size < status.size(); ++size) {
    const std::string cut = status.substr(0, size);
    cluster::Unpacker unpacker(cut);
    EXPECT_EQ(UnpackStatus(unpacker).code(), absl::StatusCode::kInternal) << size;
  }
  for (const std::string& whole : {status, hello}) {
    for (size_t i = 0; i < whole.size(); ++i) {
      for (const int change : {1, 0x80, 0xff}) {
        std::string damaged = whole;
        damaged[i] = static_cast<char>(damaged[i] ^ change);
        cluster::Unpacker as_hello(damaged), as_status(damaged);
        UnpackHello(as_hello).IgnoreError();
        UnpackStatus(as_status).IgnoreError();
      }
    }
  }
}

}  // namespace
}  // namespace kiln::runtime::remote
