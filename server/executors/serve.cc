#include "server/executors/serve.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "runtime/cluster/packing.h"
#include "runtime/drivers/cpu/device.h"
#include "server/compile_worker/sandbox.h"
#include "server/executors/arena.h"
#include "server/executors/channel.h"
#include "server/executors/words.h"

namespace kiln::server {
namespace {

namespace hal = runtime::hal;
using runtime::cluster::Packer;
using runtime::cluster::Unpacker;

// The server made it, so it is as long as it is.
constexpr uint64_t kAnyBytes = UINT64_MAX / 2;

struct Command {
  uint32_t devices = 0, threads = 0;
  uint64_t base = 0, bytes = 0, memory_bytes = 0;
};

bool Answer(Channel& channel, char what, uint32_t number, absl::string_view why = "") {
  constexpr size_t kMaxText = kMaxAnswerBytes - 64;
  return channel.Send(Packer().Number(what).Number(number).Rest(why.substr(0, kMaxText)).Take());
}

class Executor {
 public:
  Executor(const Command& command, std::unique_ptr<Arena> arena)
      : command_(command), arena_(std::move(arena)), modules_channel_(Descriptor(kExecutorModules), kAnyBytes) {
    for (uint32_t i = 0; i < command.devices; ++i)
      channels_.push_back(std::make_unique<Channel>(Descriptor(kExecutorDevices + static_cast<int>(i)), kAnyBytes));
  }

  // Starts every thread that there will be.
  absl::Status Open() {
    runtime::cpu::DeviceOptions options;
    options.threads = command_.threads;
    KILN_ASSIGN_OR_RETURN(devices_, runtime::cpu::CreateDevices(command_.devices, options));
    for (uint32_t i = 0; i < command_.devices; ++i) threads_.emplace_back([this, i] { RunLaunches(i); });
    return absl::OkStatus();
  }

  // Until the server hangs up. Nothing is tidied up then.
  void Run() {
    Answer(modules_channel_, kWell, 0);
    std::string message;
    while (modules_channel_.Receive(absl::InfiniteDuration(), message) == Channel::Came::kMessage) {
      Unpacker rest(message);
      if (rest.Number<char>() == kUnloadModule) {
        absl::MutexLock lock(&mutex_);
        modules_.erase(rest.Number<uint64_t>());
        continue;
      }
      const absl::Status status = Load(rest);
      if (!Answer(modules_channel_, status.ok() ? kWell : kFailed, 0, status.message())) return;
    }
  }

  void Refuse(absl::string_view why) { Answer(modules_channel_, kFailed, 0, why); }

 private:
  absl::Status Load(Unpacker& rest) {
    const auto device = rest.Number<uint32_t>();
    const auto number = rest.Number<uint64_t>();
    v1::Executable executable;
    const absl::string_view bytes = rest.Rest();
    if (!executable.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return absl::InternalError("an Executable that is none");
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<hal::Module> module, devices_[device]->LoadModule(executable));
    absl::MutexLock lock(&mutex_);
    modules_[number] = std::move(module);
    return absl::OkStatus();
  }

  void RunLaunches(uint32_t device) {
    std::string message;
    while (channels_[device]->Receive(absl::InfiniteDuration(), message) == Channel::Came::kMessage) {
      Unpacker rest(message);
      uint32_t launched = 0;
      const absl::Status status = Launch(device, rest, launched);
      const bool stopped = absl::IsCancelled(status);
      if (!Answer(*channels_[device], status.ok() ? kWell : stopped ? kStopped : kFailed, launched, status.message()))
        return;
    }
  }

  absl::Status Launch(uint32_t device, Unpacker& rest, uint32_t& launched) {
    struct Step {
      std::shared_ptr<hal::Module> module;
      uint32_t kernel = 0;
      std::vector<void*> operands;
    };
    std::vector<Step> steps(rest.Number<uint32_t>());
    for (Step& step : steps) {
      step.module = Find(rest.Number<uint64_t>());
      if (step.module == nullptr) return absl::InternalError("a module that was not loaded");
      step.kernel = rest.Number<uint32_t>();
      step.operands.resize(rest.Number<uint32_t>());
      for (void*& operand : step.operands) operand = rest.Number<void*>();
    }
    // Deadlines are the server's to watch: this process has one reason to stop.
    const hal::LaunchControl control{&arena_->Stop(device)};
    absl::Status status;
    // Launches belong into the queue, which is idle: this thread alone submits to it.
    absl::Notification ended;
    devices_[device]->queue().Submit(
        [&] {
          for (const Step& step : steps) {
            status = control.Check();
            if (status.ok()) status = step.module->Launch(step.kernel, step.operands.data(), control);
            if (!status.ok()) break;
            ++launched;
          }
          ended.Notify();
        },
        0);
    ended.WaitForNotification();
    return status;
  }

  std::shared_ptr<hal::Module> Find(uint64_t number) {
    absl::MutexLock lock(&mutex_);
    const auto found = modules_.find(number);
    return found == modules_.end() ? nullptr : found->second;
  }

  const Command command_;
  const std::unique_ptr<Arena> arena_;
  Channel modules_channel_;
  std::vector<std::unique_ptr<Channel>> channels_;  // by device
  std::vector<std::unique_ptr<hal::Device>> devices_;
  absl::Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<hal::Module>> modules_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

bool Parse(int argc, const char* const* argv, Command& command) {
  return argc == kExecutorArguments && absl::string_view(argv[1]) == kExecutorFlag &&
         absl::SimpleAtoi(argv[2], &command.devices) && absl::SimpleAtoi(argv[3], &command.threads) &&
         absl::SimpleAtoi(argv[4], &command.base) && absl::SimpleAtoi(argv[5], &command.bytes) &&
         absl::SimpleAtoi(argv[6], &command.memory_bytes) && command.devices > 0 &&
         command.devices <= Arena::kMaxDevices;
}

// What the server has open is none of its business; a signal to the server's group is the server's to hear.
// False if it cannot.
bool LeaveTheServer(uint32_t devices) {
  if (!CloseFrom(kExecutorDevices + static_cast<int>(devices))) return false;
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  if (const int null = open("/dev/null", O_RDWR | O_CLOEXEC); null >= 0) {
    for (int fd = 0; fd < kExecutorArena; ++fd) dup2(null, fd);
    if (null >= kExecutorArena) close(null);
  }
  BeEndedFirst();
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  mallopt(M_ARENA_MAX, 2);  // each takes much of the address space that it may have
  return true;
}

}  // namespace

bool IsExecutor(int argc, const char* const* argv) { return argc > 1 && absl::string_view(argv[1]) == kExecutorFlag; }

int ServeExecutor(int argc, const char* const* argv) {
  Command command;
  if (!Parse(argc, argv, command)) return 2;
  if (!LeaveTheServer(command.devices)) return 2;
  auto arena = Arena::Join(kExecutorArena, command.base, command.bytes);
  if (!arena.ok()) _exit(3);
  Executor executor(command, *std::move(arena));
  absl::Status status = BeginRunnerSandbox();
  if (status.ok()) status = executor.Open();
  if (status.ok()) status = EnterRunnerSandbox(command.memory_bytes, kExecutorDevices + command.devices);
  if (status.ok()) {
    executor.Run();
  } else {
    executor.Refuse(status.message());
  }
  _exit(status.ok() ? 0 : 4);
}

}  // namespace kiln::server
