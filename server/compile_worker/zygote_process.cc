// Tested by tests/hostile/compile_workers_test.cc.
#include "server/compile_worker/zygote_process.h"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/compile_worker/sandbox.h"
#include "server/compile_worker/zygote.h"

namespace kiln::server {
namespace {

using runtime::hal::LaunchControl;

// A zygote that has not answered by then is broken.
constexpr absl::Duration kMaxAnswerTime = absl::Minutes(1);

absl::Status NoZygote(absl::string_view what) {
  return MakeError(v1::INTERNAL_FAULT, absl::StrCat("compile workers: ", what));
}

absl::StatusOr<std::pair<Descriptor, Descriptor>> SocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return NoZygote(std::strerror(errno));
  return std::make_pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

}  // namespace

bool Comes(int socket, int milliseconds) {
  pollfd wanted = {socket, POLLIN, 0};
  int ready;
  do {
    ready = poll(&wanted, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

ZygoteProcess::~ZygoteProcess() { End(); }

absl::Status ZygoteProcess::Start() {
  const LaunchControl always;
  KILN_RETURN_IF_ERROR(Enter(always));
  const absl::Cleanup leave = [this] { Leave(); };
  KILN_RETURN_IF_ERROR(Spawn());
  KILN_ASSIGN_OR_RETURN(const Received warm, Answer(always));
  if (warm.what == kDone) return absl::OkStatus();
  End();
  return NoZygote(absl::StrCat(binary_, " ", kZygoteFlag, " does not answer"));
}

absl::StatusOr<ZygoteProcess::Child> ZygoteProcess::Fork(const LaunchControl& control) {
  KILN_RETURN_IF_ERROR(Enter(control));
  const absl::Cleanup leave = [this] { Leave(); };
  for (int chance = 0; chance < 2; ++chance) {
    if (process_ == 0) KILN_RETURN_IF_ERROR(Spawn());
    bool here = true;
    if (owes_) {
      // That it is warm; or a worker whose caller has gone, which sees that nobody is at its socket, and ends.
      KILN_ASSIGN_OR_RETURN(const Received unheard, Answer(control));
      here = unheard.what != 0;
    }
    KILN_ASSIGN_OR_RETURN(auto ends, SocketPair());
    if (here && Ask(kFork, ends.second.get())) {
      KILN_ASSIGN_OR_RETURN(Received born, Answer(control));
      if (born.what == kProcess && born.fd.valid())
        return Child{std::move(ends.first), std::move(born.fd), std::exchange(ended_, false)};
      if (born.what == kProcess) return NoZygote("the system starts no process");
    }
    End();  // it was killed for want of memory, perhaps
  }
  return NoZygote("the process that workers are born of has ended twice");
}

absl::Status ZygoteProcess::Enter(const LaunchControl& control) {
  const auto free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !inside_; };
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&free), absl::Milliseconds(kLookMs))) {
        inside_ = true;
        return absl::OkStatus();
      }
    }
    KILN_RETURN_IF_ERROR(control.Check());
  }
}

void ZygoteProcess::Leave() {
  absl::MutexLock lock(&mutex_);
  inside_ = false;
}

absl::Status ZygoteProcess::Spawn() {
  KILN_ASSIGN_OR_RETURN(auto ends, SocketPair());
  KILN_ASSIGN_OR_RETURN(const Descriptor job, SealedMemory(warm_));
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends.second.get(), kZygoteSocket);
  std::string name = "kilnd", flag = kZygoteFlag, memory = absl::StrCat(memory_bytes_);
  char* const arguments[] = {name.data(), flag.data(), memory.data(), nullptr};
  std::vector<std::string> kept = BareEnvironment();
  std::vector<char*> environment;
  for (std::string& entry : kept) environment.push_back(entry.data());
  environment.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawn(&child, binary_.c_str(), &files, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return NoZygote(absl::StrCat(binary_, ": ", std::strerror(failed)));
  process_ = child;
  socket_ = std::move(ends.first);
  Ask(kWarm, job.get());  // one that is gone does not answer either
  return absl::OkStatus();
}

void ZygoteProcess::End() {
  socket_ = Descriptor();
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = 0;
  owes_ = false;
  ended_ = true;
}

bool ZygoteProcess::Ask(char what, int fd) {
  asked_ = SteadyNow();
  owes_ = true;
  return SendDescriptor(socket_.get(), what, fd);
}

absl::StatusOr<Received> ZygoteProcess::Answer(const LaunchControl& control) {
  while (!Comes(socket_.get(), kLookMs)) {
    KILN_RETURN_IF_ERROR(control.Check());
    if (SteadyNow() - asked_ > kMaxAnswerTime) return Received();
  }
  owes_ = false;
  return ReceiveDescriptor(socket_.get());
}

}  // namespace kiln::server
