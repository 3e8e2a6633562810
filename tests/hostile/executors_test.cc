// Programs of a tenant in a process of its own: the same values, and whatever it does or suffers
// is nobody else's affair.
#include "server/executors/executors.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/executors/serve.h"
#include "tests/hostile/executors_fixture.h"

namespace kiln::server {
namespace {

// Whether none of its threads runs: it waits to be buried.
bool Ended(pid_t pid) {
  std::string line;
  std::getline(std::ifstream(absl::StrCat("/proc/", pid, "/stat")), line);
  std::error_code failed;
  const std::filesystem::directory_iterator threads(absl::StrCat("/proc/", pid, "/task"), failed);
  return line.find(") Z") != std::string::npos && std::distance(begin(threads), end(threads)) == 1;
}

TEST_F(ExecutorsTest, ComputeTheRightValues) {
  EXPECT_EQ(executors_->Of("shared"), nullptr);
  EXPECT_EQ(executors_->Of("nobody"), nullptr);
  EXPECT_TRUE(Children().empty()) << "before anything is to be run";
  for (size_t number = 0; number < 2; ++number) {
    hal::Device& device = Device("a", number);
    EXPECT_EQ(device.name(), absl::StrCat("CPU:", number));
    EXPECT_EQ(device.target().SerializeAsString(), servers_[number]->target().SerializeAsString());
    const hal::BufferSlice x = programs::Floats(device, std::vector<float>(100'000, 1.5f));
    const auto module = Doubling(device, 100'000);
    EXPECT_TRUE(Launch(device, *module, {x.device_data()}).ok());
    EXPECT_EQ(programs::ReadFloats(x), std::vector<float>(100'000, 3.0f));
    EXPECT_EQ(device.stats().launches, 1);
  }
  EXPECT_EQ(Children().size(), 1) << "for both devices";
}

TEST_F(ExecutorsTest, ACrashEndsOneExecutorAlone) {
  hal::Device& a = Device("a");
  hal::Device& b = Device("b");
  const hal::BufferSlice of_a = programs::Floats(a, {1, 2, 3, 4}), of_b = programs::Floats(b, {5, 6, 7, 8});
  const auto doubling_a = Doubling(a), doubling_b = Doubling(b);
  const std::set<pid_t> before = Children();
  ASSERT_EQ(before.size(), 2);
  const absl::Status crashed = Crash(a, *doubling_a);
  EXPECT_EQ(CodeOf(crashed), v1::EXECUTOR_LOST) << crashed;
#if !defined(KILN_SANITIZED)  // whose handler makes an exit of it
  EXPECT_NE(crashed.message().find("signal 11"), std::string::npos) << crashed;
#endif
  EXPECT_TRUE(Launch(b, *doubling_b, {of_b.device_data()}).ok());
  EXPECT_EQ(programs::ReadFloats(of_b), (std::vector<float>{10, 12, 14, 16}));
  // The tenant's memory is as it was, and its module is loaded again.
  EXPECT_TRUE(Launch(a, *doubling_a, {of_a.device_data()}).ok());
  EXPECT_EQ(programs::ReadFloats(of_a), (std::vector<float>{2, 4, 6, 8}));
  std::set<pid_t> both = Children();
  EXPECT_EQ(both.size(), 2);
  both.insert(before.begin(), before.end());
  EXPECT_EQ(both.size(), 3) << "b's is the same";
}

TEST_F(ExecutorsTest, ListsOfLaunchesAreOneAfterTheOther) {
  hal::Device& device = Device("a");
  const hal::BufferSlice x = programs::Floats(device, {1, 2, 3, 4});
  const auto four = Doubling(device), two = Doubling(device, 2);
  const std::vector<hal::Launch> launches = {{four.get(), 0, 0}, {two.get(), 0, 1}, {four.get(), 0, 0}};
  const auto list = device.MakeLaunchList(launches);
  // Once with an executor that has the modules, and once with one that has not.
  for (uint32_t round = 1; round <= 2; ++round) {
    void* operands[] = {x.device_data(), static_cast<char*>(x.device_data()) + 8};
    uint32_t launched = 0;
    EXPECT_TRUE(list->Run(operands, {}, launched).ok());
    EXPECT_EQ(launched, 3);
    operands[1] = reinterpret_cast<void*>(8);
    launched = 0;
    EXPECT_EQ(CodeOf(list->Run(operands, {}, launched)), v1::EXECUTOR_LOST);
    EXPECT_EQ(launched, 0);
  }
  // In each round twice, and once by the list that crashed.
  EXPECT_EQ(programs::ReadFloats(x), (std::vector<float>{64, 128, 768, 1024}));
}

TEST_F(ExecutorsTest, AKernelThatOnlyPreparesHasItsOperands) {
  hal::Device& device = Device("a");
  v1::Executable executable = programs::PreparedProgram(4, device.target());
  executable.clear_steps();  // whose kernel is the same
  const auto module = Load(device, executable);
  const hal::BufferSlice x = programs::Floats(device, {1, 2, 3, 4}), twice = programs::Floats(device, {0, 0, 0, 0});
  const absl::Status status = Launch(device, *module, {twice.device_data(), x.device_data(), x.device_data()});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(programs::ReadFloats(twice), (std::vector<float>{2, 4, 6, 8}));
}

TEST_F(ExecutorsTest, OneThatIsKilledWhileIdleIsNotMissed) {
  hal::Device& device = Device("a");
  const hal::BufferSlice x = programs::Floats(device, {1, 2, 3, 4});
  const auto module = Doubling(device);
  const pid_t first = *Children().begin();
  kill(first, SIGKILL);
  ASSERT_TRUE(Eventually([first] { return Ended(first); }));
  EXPECT_TRUE(Launch(device, *module, {x.device_data()}).ok());
  EXPECT_EQ(programs::ReadFloats(x), (std::vector<float>{2, 4, 6, 8}));
}

TEST_F(ExecutorsTest, ThoseThatCrashAgainAndAgainAreWaitedFor) {
  hal::Device& device = Device("a");
  const auto module = Doubling(device);
  EXPECT_EQ(CodeOf(Crash(device, *module)), v1::EXECUTOR_LOST);
  EXPECT_EQ(CodeOf(Crash(device, *module)), v1::EXECUTOR_LOST) << "the first is no reason to wait";
  EXPECT_TRUE(Children().empty());
  const absl::Status refused = Crash(device, *module);
  EXPECT_EQ(CodeOf(refused), v1::EXECUTOR_LOST);
  EXPECT_NE(refused.message().find("the last 2 ended soon"), std::string::npos) << refused;
  EXPECT_GT(DetailOf(refused)->retry_after_ms(), 0);
  EXPECT_TRUE(Children().empty()) << "none was started";
  const hal::BufferSlice x = programs::Floats(device, {1, 2, 3, 4});
  EXPECT_TRUE(Eventually([&] { return Launch(device, *module, {x.device_data()}).ok(); }));
  EXPECT_EQ(programs::ReadFloats(x), (std::vector<float>{2, 4, 6, 8}));
}

TEST_F(ExecutorsTest, ALaunchThatIsToldToStopDoes) {
  hal::Device& device = Device("a");
  const auto module = Load(device, programs::EndlessProgram(device.target()));
  const auto flag = *device.allocator().Allocate(1, hal::MemoryUse::kClient);
  const std::set<pid_t> before = Children();
  std::atomic<bool> cancelled{false};
  absl::Status status;
  absl::Notification ended;
  std::vector<void*> operands = {flag->device_data()};
  device.queue().Submit(
      [&] {
        status = module->Launch(0, operands.data(), {&cancelled});
        ended.Notify();
      },
      0);
  const auto* const byte = static_cast<const volatile char*>(flag->host_data());
  ASSERT_TRUE(Eventually([byte] { return *byte == 1; }));
  cancelled = true;
  ended.WaitForNotification();
  EXPECT_EQ(CodeOf(status), v1::CALL_CANCELLED) << status;
  const absl::Status late = Launch(device, *module, operands, {nullptr, absl::Now() + absl::Milliseconds(20)});
  EXPECT_EQ(CodeOf(late), v1::DEADLINE_PASSED) << late;
  EXPECT_EQ(Children(), before);
}

TEST_F(ExecutorsTest, OneThatDoesNotStopIsEnded) {
  Make(absl::Minutes(1), absl::Milliseconds(50));
  hal::Device& device = Device("a");
  const auto module = Load(device, programs::SpinProgram(device.target()));
  const auto flag = *device.allocator().Allocate(1, hal::MemoryUse::kClient);
  const absl::Status status =
      Launch(device, *module, {flag->device_data()}, {nullptr, absl::Now() + absl::Milliseconds(20)});
  EXPECT_EQ(CodeOf(status), v1::EXECUTOR_LOST) << status;
  EXPECT_NE(status.message().find("did not stop"), std::string::npos) << status;
  EXPECT_TRUE(Children().empty());
}

TEST_F(ExecutorsTest, OneThatNeverEndsIsEndedThoughNobodyAsksForIt) {
  Make(absl::Minutes(1), absl::Milliseconds(50), absl::Milliseconds(20));
  hal::Device& device = Device("a");
  const auto flag = *device.allocator().Allocate(1, hal::MemoryUse::kClient);
  const auto endless = Load(device, programs::EndlessProgram(device.target()));
  EXPECT_EQ(CodeOf(Launch(device, *endless, {flag->device_data()})), v1::DEADLINE_PASSED);
  const auto deaf = Load(device, programs::SpinProgram(device.target()));
  const auto other = *device.allocator().Allocate(1, hal::MemoryUse::kClient);
  EXPECT_EQ(CodeOf(Launch(device, *deaf, {other->device_data()})), v1::EXECUTOR_LOST);
}

TEST_F(ExecutorsTest, OneWithNothingToDoEnds) {
  Make(absl::Milliseconds(1));
  hal::Device& device = Device("a");
  const hal::BufferSlice x = programs::Floats(device, {1, 2, 3, 4});
  const auto module = Doubling(device);
  EXPECT_TRUE(Eventually([] { return Children().empty(); }));
  EXPECT_TRUE(Launch(device, *module, {x.device_data()}).ok());
  EXPECT_EQ(programs::ReadFloats(x), (std::vector<float>{2, 4, 6, 8}));
}

TEST_F(ExecutorsTest, ATenantStaysWhatItIs) {
  const auto module = Doubling(Device("a"));
  EXPECT_EQ(CodeOf(executors_->SetTenants({{"a", false}})), v1::BAD_ARGUMENT);
  EXPECT_EQ(CodeOf(executors_->SetTenants({{"a", true}, {"shared", true}})), v1::BAD_ARGUMENT);
  EXPECT_EQ(Children().size(), 1);
  // One that is there no more has no executor.
  EXPECT_TRUE(executors_->SetTenants({{"b", true}}).ok());
  EXPECT_TRUE(Children().empty());
  Executors none(ExecutorOptions{.binary = ""}, servers_, log_);
  EXPECT_EQ(CodeOf(none.SetTenants({{"a", true}})), v1::NOT_IMPLEMENTED);
  EXPECT_TRUE(none.SetTenants({{"a", false}}).ok());
}

// Whoever has it, in the server or apart: a device has no more memory than it has.
TEST_F(ExecutorsTest, MemoryCountsOnTheServersDevices) {
  hal::Allocator& server = servers_[0]->allocator();
  hal::Allocator& a = Device("a").allocator();
  hal::Allocator& b = Device("b").allocator();
  auto of_server = server.Allocate(kMemoryBytes / 2, hal::MemoryUse::kProgram);  // half
  ASSERT_TRUE(of_server.ok());
  auto of_a = a.Allocate(kMemoryBytes / 4, hal::MemoryUse::kClient);
  ASSERT_TRUE(of_a.ok()) << of_a.status();
  EXPECT_EQ(server.stats().in_use_bytes, kMemoryBytes * 3 / 4);
  EXPECT_EQ(CodeOf(b.Allocate(kMemoryBytes / 2, hal::MemoryUse::kClient).status()), v1::OUT_OF_MEMORY);
  EXPECT_EQ(CodeOf(server.Allocate(kMemoryBytes / 2, hal::MemoryUse::kClient).status()), v1::OUT_OF_MEMORY);
  EXPECT_TRUE(Device("b", 1).allocator().Allocate(kMemoryBytes, hal::MemoryUse::kClient).ok()) << "another device";
  of_server = absl::UnknownError("freed");
  EXPECT_TRUE(b.Allocate(kMemoryBytes / 2, hal::MemoryUse::kClient).ok());
  // A guarantee to one whose programs run in the server holds against these, too.
  Account sure;
  server.guarantees().Set({{&sure, kMemoryBytes * 3 / 4}});
  const absl::Status kept = b.Allocate(kMemoryBytes / 2, hal::MemoryUse::kClient).status();
  EXPECT_EQ(CodeOf(kept), v1::OUT_OF_MEMORY);
  EXPECT_EQ(DetailOf(kept)->limit(), "guaranteed_device_bytes");
  EXPECT_TRUE(server.guarantees().Allocate(&sure, server, kMemoryBytes / 2, hal::MemoryUse::kClient).ok());
}

TEST_F(ExecutorsTest, WhatIsKeptForLaterIsGivenBackWhereItIsShort) {
  hal::Allocator& server = servers_[0]->allocator();
  hal::Device& device = Device("a");
  const uint64_t kept = kMemoryBytes / 4;
  absl::Notification has_scratch, may_end;
  device.queue().Submit(
      [&] {
        EXPECT_TRUE(device.Scratch(kept).ok());
        has_scratch.Notify();
        may_end.WaitForNotification();
      },
      0);
  has_scratch.WaitForNotification();
  device.allocator().Allocate(kept, hal::MemoryUse::kProgram)->reset();
  EXPECT_EQ(server.stats().in_use_bytes, 2 * kept);
  may_end.Notify();
  const auto allocate = [&] {
    return hal::AllocateFor(nullptr, server, kMemoryBytes, hal::MemoryUse::kProgram, MemoryDomain::kNobody);
  };
  // What runs need between their kernels goes once they have ended.
  EXPECT_TRUE(Eventually([&] { return allocate().ok(); }));
  EXPECT_EQ(device.stats().memory.in_use_bytes + device.stats().memory.cached_bytes, 0u);
}

TEST_F(ExecutorsTest, WhatIsKeptForLaterIsGivenBackWithAnIdleExecutor) {
  Make(absl::Milliseconds(1));
  hal::Device& device = Device("a");
  device.allocator().Allocate(kMemoryBytes / 4, hal::MemoryUse::kProgram)->reset();
  const auto module = Doubling(device);  // for which one is started
  EXPECT_TRUE(Eventually([&] { return servers_[0]->stats().memory.in_use_bytes == 0; }));
}

TEST_F(ExecutorsTest, MemoryIsUsedAgainAndZero) {
  hal::Device& device = Device("a");
  for (const uint64_t bytes : {uint64_t{100}, uint64_t{1} << 20}) {
    const void* first = nullptr;
    for (int round = 0; round < 2; ++round) {
      const auto buffer = *device.allocator().Allocate(bytes, hal::MemoryUse::kClient);
      if (round == 0) first = buffer->host_data();
      EXPECT_EQ(buffer->host_data(), first) << "it is used again";
      auto* const data = static_cast<char*>(buffer->host_data());
      EXPECT_EQ(std::string(data, bytes), std::string(bytes, '\0'));
      std::fill(data, data + bytes, 'x');
    }
  }
}

}  // namespace
}  // namespace kiln::server

int main(int argc, char** argv) {
  if (kiln::server::IsExecutor(argc, argv)) return kiln::server::ServeExecutor(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
#if defined(KILN_NO_ARENAS)
  return 0;
#endif
  return RUN_ALL_TESTS();
}
