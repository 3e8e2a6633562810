#include "server/executors/executor_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/compile_worker/sandbox.h"
#include "server/executors/words.h"

namespace kiln::server {
namespace {

// How often one who waits looks whether the answer is still wanted.
constexpr absl::Duration kLook = absl::Milliseconds(5);
// Descriptors for a child are first copied to this number and above: so putting one in its place overwrites no other.
constexpr int kOutOfTheWay = 128;

absl::Status NoProcess(absl::string_view what, int error) {
  return ExecutorLost(absl::StrCat("it cannot be started: ", what, ": ", std::strerror(error)), absl::Seconds(1));
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& each : strings) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Which of `descriptors` becomes which of the child's: the first kExecutorArena, and so on.
absl::StatusOr<pid_t> Spawn(const std::string& binary, std::vector<std::string> arguments,
                            const std::vector<int>& descriptors) {
  std::vector<Descriptor> away;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  int error = 0;
  for (size_t i = 0; i < descriptors.size() && error == 0; ++i) {
    away.emplace_back(fcntl(descriptors[i], F_DUPFD_CLOEXEC, kOutOfTheWay));
    if (!away.back().valid()) error = errno;
    if (error == 0)
      error = posix_spawn_file_actions_adddup2(&files, away.back().get(), kExecutorArena + static_cast<int>(i));
  }
  std::vector<std::string> environment = BareEnvironment();
  pid_t pid = 0;
  if (error == 0) {
    error =
        posix_spawn(&pid, binary.c_str(), &files, nullptr, Pointers(arguments).data(), Pointers(environment).data());
  }
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return NoProcess(binary, error);
  return pid;
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status))
    return absl::StrCat("it was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return absl::StrCat("it ended with status ", WEXITSTATUS(status));
}

}  // namespace

absl::Status ExecutorLost(absl::string_view why, absl::Duration retry_after) {
  v1::ErrorDetail detail;
  detail.set_code(v1::EXECUTOR_LOST);
  detail.set_field("device");
  detail.set_retry_after_ms(static_cast<uint32_t>(std::max<int64_t>(1, absl::ToInt64Milliseconds(retry_after))));
  return MakeError(detail, absl::StrCat("the process that runs this tenant's programs is gone: ", why));
}

ExecutorProcess::ExecutorProcess(const ExecutorOptions& options, Arena* arena, uint64_t number)
    : options_(options), arena_(arena), number_(number), born_(SteadyNow()), used_ns_(absl::ToUnixNanos(born_)) {}

absl::StatusOr<std::shared_ptr<ExecutorProcess>> ExecutorProcess::Start(const ExecutorOptions& options, Arena* arena,
                                                                        uint64_t number) {
  std::shared_ptr<ExecutorProcess> process(new ExecutorProcess(options, arena, number));
  std::vector<Descriptor> theirs;
  std::vector<int> descriptors = {arena->fd()};
  const auto channel = [&]() -> std::unique_ptr<Channel> {
    auto [ours, other] = SocketPair();
    if (!ours.valid()) return nullptr;
    descriptors.push_back(other.get());
    theirs.push_back(std::move(other));
    return std::make_unique<Channel>(std::move(ours), kMaxAnswerBytes);
  };
  auto modules = channel();
  for (uint32_t i = 0; i < options.devices; ++i) process->devices_.push_back(channel());
  if (modules == nullptr || std::count(process->devices_.begin(), process->devices_.end(), nullptr) != 0)
    return NoProcess("sockets", errno);
  {
    absl::MutexLock lock(&process->modules_mutex_);
    process->modules_ = std::move(modules);
  }
  KILN_ASSIGN_OR_RETURN(process->pid_, Spawn(options.binary,
                                             {"kilnd-executor", kExecutorFlag, absl::StrCat(options.devices),
                                              absl::StrCat(options.threads), absl::StrCat(arena->base()),
                                              absl::StrCat(arena->bytes()), absl::StrCat(options.memory_bytes)},
                                             descriptors));
  return process;
}

ExecutorProcess::~ExecutorProcess() { Lose("the server has no more use for it").IgnoreError(); }

absl::Status ExecutorProcess::Lose(absl::string_view why) {
  absl::MutexLock lock(&mutex_);
  if (!lost_ && pid_ > 0) {
    // Of what it is at when it is killed nobody learns the end, so it must have ended by itself to
    // be told.
    int status = 0;
    pid_t ended = 0;
    for (int chance = 0; why.empty() && ended == 0 && chance < 100; ++chance) {
      ended = waitpid(pid_, &status, WNOHANG);
      if (ended == 0) absl::SleepFor(absl::Milliseconds(1));
    }
    if (ended == 0) {
      kill(pid_, SIGKILL);
      while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
      }
    }
    why_ = why.empty() ? HowItEnded(status) : std::string(why);
  }
  lost_ = true;
  return ExecutorLost(why_);
}

bool ExecutorProcess::Lives() const {
  {
    absl::MutexLock lock(&mutex_);
    if (lost_) return false;
  }
  // The server alone would have closed it.
  return !devices_.front()->HungUp();
}

absl::Duration ExecutorProcess::Idle(absl::Time now) const {
  return busy_.load() != 0 ? absl::ZeroDuration() : now - absl::FromUnixNanos(used_ns_.load());
}

absl::Status ExecutorProcess::Ask(Channel& channel, absl::string_view message,
                                  const runtime::hal::LaunchControl& control, std::atomic<bool>* stop,
                                  absl::Duration patience, Answer& answer) {
  if (!message.empty() && !channel.Send(message)) return Lose("");
  absl::Time end = SteadyNow() + patience;
  const bool may_stop = stop != nullptr && (control.cancelled != nullptr || control.deadline != absl::InfiniteFuture());
  bool stopped = false;
  std::string bytes;
  for (;;) {
    const absl::Time now = SteadyNow();
    if (now >= end) return Lose(stopped ? "it did not stop when it was told to" : "it did not answer");
    absl::Duration wait = end - now;
    if (may_stop && !stopped) wait = std::min(wait, std::min(kLook, std::max(control.deadline - now, kLook / 50)));
    const Channel::Came came = channel.Receive(wait, bytes);
    if (came == Channel::Came::kGone) return Lose("");
    if (came == Channel::Came::kMessage) break;
    if (may_stop && !stopped && !control.Check().ok()) {
      stop->store(true);
      stopped = true;
      end = std::min(end, SteadyNow() + options_.stop_patience);
    }
  }
  constexpr size_t kHead = 1 + sizeof(answer.number);
  if (bytes.size() < kHead) return Lose("it gave an answer that is none");
  answer.what = bytes[0];
  std::memcpy(&answer.number, &bytes[1], sizeof(answer.number));
  answer.text = bytes.substr(kHead);
  return absl::OkStatus();
}

absl::Status ExecutorProcess::Ready() {
  Answer answer;
  absl::MutexLock lock(&modules_mutex_);
  KILN_RETURN_IF_ERROR(Ask(*modules_, "", {}, nullptr, options_.patience, answer));
  return answer.what == kWell ? absl::OkStatus() : Lose(absl::StrCat("it could not begin: ", answer.text));
}

absl::Status ExecutorProcess::Load(uint32_t device, uint64_t module, absl::string_view executable) {
  ++busy_;
  const auto load = [&]() -> absl::Status {
    absl::MutexLock lock(&modules_mutex_);
    // Under this lock, so that no number that is used again is unloaded after it was loaded.
    std::vector<uint64_t> unwanted;
    {
      absl::MutexLock unwanted_lock(&mutex_);
      unwanted.swap(unwanted_);
    }
    for (const uint64_t each : unwanted) {
      std::string message(1, kUnloadModule);
      message.append(reinterpret_cast<const char*>(&each), sizeof(each));
      if (!modules_->Send(message)) return Lose("");
    }
    std::string message(1, kLoadModule);
    message.append(reinterpret_cast<const char*>(&device), sizeof(device));
    message.append(reinterpret_cast<const char*>(&module), sizeof(module));
    message.append(executable.data(), executable.size());
    Answer answer;
    KILN_RETURN_IF_ERROR(Ask(*modules_, message, {}, nullptr, options_.load_patience, answer));
    if (answer.what == kWell) return absl::OkStatus();
    return MakeError(v1::INTERNAL_FAULT, absl::StrCat("an executor cannot load a program: ", answer.text));
  };
  absl::Status status = load();
  used_ns_ = absl::ToUnixNanos(SteadyNow());
  --busy_;
  return status;
}

void ExecutorProcess::Unload(uint64_t module) {
  absl::MutexLock lock(&mutex_);
  unwanted_.push_back(module);
}

absl::Status ExecutorProcess::Launch(uint32_t device, absl::string_view message, uint32_t steps,
                                     const runtime::hal::LaunchControl& asked, uint32_t& launched) {
  runtime::hal::LaunchControl control = asked;
  control.deadline = std::min(asked.deadline, SteadyNow() + options_.run_patience);
  ++busy_;
  std::atomic<bool>& stop = arena_->Stop(device);
  stop.store(false);
  Answer answer;
  absl::Status status = Ask(*devices_[device], message, control, &stop, absl::InfiniteDuration(), answer);
  used_ns_ = absl::ToUnixNanos(SteadyNow());
  --busy_;
  KILN_RETURN_IF_ERROR(status);
  if (answer.number > steps) return Lose("it gave an answer that is none");
  launched += answer.number;
  switch (answer.what) {
    case kWell: return answer.number == steps ? absl::OkStatus() : Lose("it gave an answer that is none");
    // The clock may have been set back since; what has been stopped is never OK.
    case kStopped: {
      absl::Status why = control.Check();
      return why.ok() ? MakeError(v1::DEADLINE_PASSED, "the deadline passed inside a kernel") : why;
    }
    case kFailed: return MakeError(v1::INTERNAL_FAULT, absl::StrCat("an executor: ", answer.text));
    default: return Lose("it gave an answer that is none");
  }
}

}  // namespace kiln::server
