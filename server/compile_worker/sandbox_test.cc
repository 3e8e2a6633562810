// What of the sandbox can be tried without seccomp, which ends the process for much. The rest is tested by
// tests/hostile/compile_workers_test and tests/hostile/executor_sandbox_test.
#include "server/compile_worker/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>

namespace kiln::server {
namespace {

// What `look` returns in a process that is gone afterwards.
int InChild(const std::function<int()>& look) {
  const pid_t child = fork();
  if (child == 0) _exit(look());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kOpened = 200, kNoSandbox = 201;

int ErrorOfOpening(const char* path, int flags) {
  if (!BeginRunnerSandbox().ok()) return kNoSandbox;
  return open(path, flags, 0600) >= 0 ? kOpened : errno;
}

TEST(Sandbox, LandlockItselfRefuses) {
  if (LandlockVersion() == 0) GTEST_SKIP() << "this kernel has none";
  // EACCES is Landlock's answer; that of seccomp would be EPERM.
  EXPECT_EQ(InChild([] { return ErrorOfOpening("/etc/passwd", O_RDONLY); }), EACCES);
  EXPECT_EQ(InChild([] { return ErrorOfOpening("/tmp/kiln_sandbox_test", O_CREAT | O_WRONLY); }), EACCES);
  EXPECT_EQ(InChild([] { return ErrorOfOpening("/proc/self/status", O_WRONLY); }), EACCES);
  EXPECT_EQ(InChild([] { return ErrorOfOpening("/proc/self/status", O_RDONLY); }), kOpened);
}

TEST(Sandbox, IsEndedFirstWhereMemoryIsShort) {
  const int score = InChild([] {
    BeEndedFirst();
    int after = 0;
    std::ifstream("/proc/self/oom_score_adj") >> after;
    return after / 10;
  });
  EXPECT_EQ(score, 100);
}

}  // namespace
}  // namespace kiln::server
