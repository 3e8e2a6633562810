#include "tests/bench/load/child_process.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace kiln::bench {

Line::~Line() { close(file_); }

void Line::Say(const std::string& text) {
  const std::string line = text + "\n";
  KILN_CHECK(write(file_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
}

std::string Line::Hear() {
  for (;;) {
    if (const size_t end = heard_.find('\n'); end != std::string::npos) {
      const std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    char some[256];
    const ssize_t came = read(file_, some, sizeof(some));
    if (came <= 0) return "";
    heard_.append(some, static_cast<size_t>(came));
  }
}

ChildProcess::ChildProcess(const std::function<void(Line&)>& work) {
  int ends[2];
  KILN_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  pid_ = fork();
  KILN_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    close(ends[0]);
    std::signal(SIGPIPE, SIG_IGN);
    {
      Line line(ends[1]);
      work(line);
    }
    std::_Exit(0);
  }
  close(ends[1]);
  line_ = std::make_unique<Line>(ends[0]);
}

ChildProcess::~ChildProcess() {
  line_ = nullptr;
  waitpid(pid_, nullptr, 0);
}

uint64_t ChildProcess::Status(const std::string& row) const {
  std::ifstream status(absl::StrCat("/proc/", pid_, "/status"));
  for (std::string word; status >> word;) {
    uint64_t value = 0;
    if (word == row + ":" && status >> value) return value;
  }
  return 0;
}

double ChildProcess::CpuSeconds() const {
  clockid_t clock;
  timespec time;
  KILN_CHECK(clock_getcpuclockid(pid_, &clock) == 0 && clock_gettime(clock, &time) == 0);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

}  // namespace kiln::bench
