// Programs of a tenant in a process of its own: the same values, and whatever it does or suffers
// is nobody else's affair. This program is its own executor.
#include "server/executors/executors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/testing/compile_ir.h"
#include "runtime/testing/programs.h"
#include "server/executors/serve.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_SANITIZED 1
#elif __has_feature(thread_sanitizer)
#define KILN_SANITIZED 1
#define KILN_NO_ARENAS 1  // its address space has no room where they lie
#endif
#endif

namespace kiln::server {
namespace {

namespace hal = runtime::hal;
namespace programs = runtime::testing;

// More than an executor may take beside it.
constexpr uint64_t kMemoryBytes = uint64_t{2} << 30;

v1::ErrorCode CodeOf(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
}

// Processes that this one has started.
std::set<pid_t> Children() {
  std::set<pid_t> children;
  std::error_code failed;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    std::ifstream list(task.path() / "children");
    for (pid_t pid = 0; list >> pid;) children.insert(pid);
  }
  return children;
}

// Whether none of its threads runs: it waits to be buried.
bool Ended(pid_t pid) {
  std::string line;
  std::getline(std::ifstream(absl::StrCat("/proc/", pid, "/stat")), line);
  std::error_code failed;
  const std::filesystem::directory_iterator threads(absl::StrCat("/proc/", pid, "/task"), failed);
  return line.find(") Z") != std::string::npos && std::distance(begin(threads), end(threads)) == 1;
}

// A minute is far more than it takes.
bool Eventually(const std::function<bool()>& condition) {
  for (const absl::Time end = absl::Now() + absl::Minutes(1); absl::Now() < end; absl::SleepFor(absl::Milliseconds(1)))
    if (condition()) return true;
  return false;
}

class ExecutorsTest : public ::testing::Test {
 protected:
  ExecutorsTest() { Make(absl::Minutes(1)); }

  void Make(absl::Duration idle, absl::Duration stop_patience = absl::Seconds(10)) {
    executors_ = nullptr;
    ExecutorOptions options;
    options.threads = 2;
    options.stop_patience = stop_patience;
    executors_ = std::make_unique<Executors>(options, servers_, log_, idle);
    ASSERT_TRUE(executors_->SetTenants({{"a", true}, {"b", true}, {"shared", false}}).ok());
  }

  hal::Device& Device(absl::string_view tenant, size_t number = 0) { return *executors_->Of(tenant)->at(number); }

  static absl::Status Launch(hal::Device& device, hal::Module& module, std::vector<void*> operands,
                             const hal::LaunchControl& control = {}) {
    absl::Status status;
    absl::Notification ended;
    device.queue().Submit(
        [&] {
          status = module.Launch(0, operands.data(), control);
          ended.Notify();
        },
        0);
    ended.WaitForNotification();
    return status;
  }

  static std::unique_ptr<hal::Module> Load(hal::Device& device, const v1::Executable& executable) {
    auto module = device.LoadModule(executable);
    EXPECT_TRUE(module.ok()) << module.status();
    return *std::move(module);
  }
  static std::unique_ptr<hal::Module> Doubling(hal::Device& device, int64_t n = 4) {
    return Load(device, programs::DoubleProgram(n, device.target()));
  }
  // A kernel that reads where nothing is.
  static absl::Status Crash(hal::Device& device, hal::Module& doubling) {
    return Launch(device, doubling, {reinterpret_cast<void*>(8)});
  }

  const std::shared_ptr<spdlog::logger> log_ =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  const DeviceList servers_ = *runtime::cpu::CreateDevices(2, {.threads = 2, .memory_limit_bytes = 2 * kMemoryBytes});
  std::unique_ptr<Executors> executors_;
};

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

TEST_F(ExecutorsTest, MemoryIsTheServersAndZero) {
  hal::Device& device = Device("a");
  const auto held = *servers_[0]->allocator().Allocate(kMemoryBytes / 2, hal::MemoryUse::kProgram);
  const auto refused = Device("b").allocator().Allocate(kMemoryBytes + 1, hal::MemoryUse::kClient);
  EXPECT_EQ(CodeOf(refused.status()), v1::OUT_OF_MEMORY);
  EXPECT_TRUE(Device("b").allocator().Allocate(kMemoryBytes, hal::MemoryUse::kClient).ok());
  const auto most = *Device("b").allocator().Allocate(kMemoryBytes, hal::MemoryUse::kClient);
  EXPECT_EQ(CodeOf(device.allocator().Allocate(kMemoryBytes, hal::MemoryUse::kClient).status()), v1::OUT_OF_MEMORY)
      << "of 4 GiB, 1 is the server's and 2 are another tenant's";
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

#if defined(__x86_64__)

// A kernel that makes a system call, with what its second operand points to as the arguments, and
// puts the result where its first one does.
constexpr char kCallIr[] = R"(
define void @call(ptr %b, i64 %begin, i64 %end, ptr %stop) {
  %out = load ptr, ptr %b
  %s1 = getelementptr ptr, ptr %b, i64 1
  %in = load ptr, ptr %s1
  %p1 = getelementptr i64, ptr %in, i64 1
  %p2 = getelementptr i64, ptr %in, i64 2
  %p3 = getelementptr i64, ptr %in, i64 3
  %p4 = getelementptr i64, ptr %in, i64 4
  %n = load i64, ptr %in
  %a1 = load i64, ptr %p1
  %a2 = load i64, ptr %p2
  %a3 = load i64, ptr %p3
  %a4 = load i64, ptr %p4
  %r = call i64 asm sideeffect "syscall", "={rax},{rax},{rdi},{rsi},{rdx},{r10},~{rcx},~{r11},~{memory}"(i64 %n, i64 %a1, i64 %a2, i64 %a3, i64 %a4)
  store i64 %r, ptr %out
  ret void
}
)";

class SandboxTest : public ExecutorsTest {
 protected:
  SandboxTest() {
    v1::Executable executable;
    executable.set_object(programs::CompileIr(kCallIr));
    v1::Kernel& kernel = *executable.add_kernels();
    kernel.set_symbol("call");
    kernel.set_iterations(1);
    kernel.set_grain(1);
    v1::Step& step = *executable.add_steps();
    for (int i = 0; i < 2; ++i) step.add_operands();
    module_ = Load(device_, executable);
    out_ = *device_.allocator().Allocate(8, hal::MemoryUse::kClient);
    in_ = *device_.allocator().Allocate(4096, hal::MemoryUse::kClient);
  }

  int64_t* in() { return static_cast<int64_t*>(in_->host_data()); }
  // Of a call that returned.
  absl::StatusOr<int64_t> Call(long number, std::vector<int64_t> arguments) {
    in()[0] = number;
    for (size_t i = 0; i < 4; ++i) in()[i + 1] = i < arguments.size() ? arguments[i] : 0;
    const absl::Status status = Launch(device_, *module_, {out_->device_data(), in_->device_data()});
    if (!status.ok()) return status;
    return *static_cast<const int64_t*>(out_->host_data());
  }
  // The address of a text that the executor sees.
  int64_t Text(const char* text) {
    char* const at = static_cast<char*>(in_->host_data()) + (text_ += 64);
    std::strcpy(at, text);
    return reinterpret_cast<int64_t>(at);
  }

  hal::Device& device_ = Device("a");
  std::unique_ptr<hal::Module> module_;
  std::shared_ptr<hal::Buffer> out_, in_;
  int64_t text_ = 0;  // where the last one is, after the arguments
};

TEST_F(SandboxTest, NothingIsOpenedStartedOrSignalled) {
#if defined(KILN_SANITIZED)
  GTEST_SKIP() << "a sanitizer's runtime needs more";
#endif
  const auto server = static_cast<int64_t>(getpid());
  EXPECT_EQ(*Call(SYS_getpid, {}), static_cast<int64_t>(*Children().begin())) << "it does make calls";
  struct Try {
    const char* what;
    long number;
    std::vector<int64_t> arguments;
  };
  for (const Try& each : std::vector<Try>{
           {"open", SYS_open, {Text("/etc/hostname"), O_RDONLY}},
           {"openat", SYS_openat, {AT_FDCWD, Text("/etc/hostname"), O_RDONLY}},
           {"open of what the system says", SYS_openat, {AT_FDCWD, Text("/proc/self/status"), O_RDONLY}},
           {"unlink", SYS_unlink, {Text("/tmp/x")}},
           {"fork", SYS_fork, {}},
           {"clone", SYS_clone, {SIGCHLD}},
           {"kill", SYS_kill, {server, 0}},
           {"tgkill", SYS_tgkill, {server, server, 0}},
           {"prlimit", SYS_prlimit64, {server, 0}},
           {"affinity of another", SYS_sched_setaffinity, {server, 8, Text("x")}},
           {"ftruncate of the arena", SYS_ftruncate, {3, 0}},
           {"signals by a descriptor", SYS_fcntl, {4, F_SETOWN, server}},
           {"dumpable", SYS_prctl, {4, 1}},
       }) {
    const auto result = Call(each.number, each.arguments);
    ASSERT_TRUE(result.ok()) << each.what << ": " << result.status();
    EXPECT_EQ(*result, -EPERM) << each.what;
  }
}

TEST_F(SandboxTest, WhatNoKernelDoesIsTheEnd) {
#if defined(KILN_SANITIZED)
  GTEST_SKIP() << "a sanitizer's runtime needs more";
#endif
  const auto result = Call(SYS_socket, {1, 1, 0});
  EXPECT_EQ(CodeOf(result.status()), v1::EXECUTOR_LOST) << result.status();
  EXPECT_NE(result.status().message().find(absl::StrCat("signal ", SIGSYS)), std::string::npos) << result.status();
}

TEST_F(SandboxTest, AnAnswerThatIsNoneIsTheEnd) {
  // On the channel of the device itself: longer than any answer.
  const auto result = Call(SYS_write, {5, Text("????????????????"), 16});
  EXPECT_EQ(CodeOf(result.status()), v1::EXECUTOR_LOST) << result.status();
  EXPECT_TRUE(Eventually([] { return Children().empty(); }));
}

#endif

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
