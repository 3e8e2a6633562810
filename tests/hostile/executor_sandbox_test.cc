// What an executor may not do, tried by a kernel that makes system calls.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/testing/compile_ir.h"
#include "server/compile_worker/sandbox.h"
#include "tests/hostile/executors_fixture.h"

#if defined(__x86_64__)

namespace kiln::server {
namespace {

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
  %r = call i64 asm sideeffect "syscall", "={rax},{rax},{rdi},{rsi},{rdx},{r10},{r8},{r9},~{rcx},~{r11},~{memory}"(i64 %n, i64 %a1, i64 %a2, i64 %a3, i64 %a4, i64 -1, i64 0)
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

TEST_F(SandboxTest, IsEndedBeforeTheServerWhereMemoryIsShort) {
  int score = 0;
  std::ifstream(absl::StrCat("/proc/", *Children().begin(), "/oom_score_adj")) >> score;
  EXPECT_EQ(score, 1000);
}

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
           {"memory that is shared", SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS}},
       }) {
    const auto result = Call(each.number, each.arguments);
    ASSERT_TRUE(result.ok()) << each.what << ": " << result.status();
    EXPECT_EQ(*result, -EPERM) << each.what;
  }
}

TEST_F(SandboxTest, WhatIsTheServersIsNotTradedForMoreOfItsOwn) {
#if defined(KILN_SANITIZED)
  GTEST_SKIP() << "a sanitizer's runtime needs more";
#endif
  constexpr int64_t kPage = 4096, kGiB = int64_t{1} << 30;
  const auto map = [&](int64_t bytes) {
    return *Call(SYS_mmap, {0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS});
  };
  EXPECT_EQ(map(3 * kGiB), -ENOMEM) << "2 GiB are what it may have";
  const int64_t beyond = reinterpret_cast<int64_t>(in_->device_data()) / kPage * kPage + kGiB;
  EXPECT_EQ(*Call(SYS_munmap, {beyond, 4 * kGiB}), 0);
  EXPECT_EQ(map(3 * kGiB), -ENOMEM);
  EXPECT_GT(map(kGiB), 0);
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

}  // namespace
}  // namespace kiln::server

#endif
