#include "tests/reduce/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "absl/time/clock.h"
#include "base/check.h"

namespace kiln::testing {
namespace {

[[noreturn]] void BeChild(const std::function<int(int)>& work, int descriptor) {
  setpgid(0, 0);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  // As if nobody had asked to hear of them.
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SIG_DFL);
  _exit(work(descriptor));
}

// What can be read now; whether there may be more later.
bool Drain(int descriptor, std::string& output) {
  char piece[4096];
  while (true) {
    const ssize_t got = read(descriptor, piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0;
    output.append(piece, static_cast<size_t>(got));
  }
}

}  // namespace

ChildEnd RunInChild(const std::function<int(int descriptor)>& work, double seconds) {
  int ends[2];
  KILN_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = fork();
  KILN_CHECK(child >= 0);
  if (child == 0) BeChild(work, ends[1]);
  setpgid(child, child);  // whoever is first
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const int process = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  KILN_CHECK(process >= 0);

  ChildEnd end;
  const absl::Time deadline = absl::Now() + absl::Seconds(seconds);
  bool open = true;
  while (true) {
    pollfd wanted[2] = {{process, POLLIN, 0}, {ends[0], POLLIN, 0}};
    const double left = absl::ToDoubleMilliseconds(deadline - absl::Now());
    const int ready = poll(wanted, open ? 2 : 1, static_cast<int>(std::max(0.0, left)) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (open) open = Drain(ends[0], end.output);
    if (wanted[0].revents != 0) break;
    if (ready == 0 && absl::Now() >= deadline) {
      end.kind = ChildEnd::kTimedOut;
      break;
    }
  }
  kill(-child, SIGKILL);  // and what it started
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (open) Drain(ends[0], end.output);
  close(ends[0]);
  close(process);
  if (end.kind == ChildEnd::kTimedOut) return end;
  end.kind = WIFSIGNALED(status) ? ChildEnd::kSignalled : ChildEnd::kExited;
  end.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return end;
}

void WriteAll(int descriptor, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = write(descriptor, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return;
    done += static_cast<size_t>(wrote);
  }
}

}  // namespace kiln::testing
