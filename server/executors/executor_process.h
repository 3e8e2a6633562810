// One executor, as the server has it: a process that can do what it is sent, and may end at any
// time.
#ifndef KILN_SERVER_EXECUTORS_EXECUTOR_PROCESS_H_
#define KILN_SERVER_EXECUTORS_EXECUTOR_PROCESS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/hal/module.h"
#include "server/executors/arena.h"
#include "server/executors/channel.h"

namespace kiln::server {

struct ExecutorOptions {
  // The program that is an executor if it is called with kExecutorFlag (words.h).
  std::string binary = "/proc/self/exe";
  uint32_t devices = 1;
  // As cpu::DeviceOptions::threads.
  uint32_t threads = 0;
  // What it may take beside the arena and what it begins with.
  uint64_t memory_bytes = uint64_t{2} << 30;
  // It is taken for broken if it needs longer to begin; to load a module, for which a thread that is everybody's
  // waits; or to answer once it has been told to stop. The last two are less than what counts as a long life
  // (tenant_executor.cc), so that who does it again and again is waited for.
  absl::Duration patience = absl::Seconds(60);
  absl::Duration load_patience = absl::Seconds(20);
  absl::Duration stop_patience = absl::Seconds(10);
  // No run takes longer, all its launches and loads together, whatever its caller says: it takes
  // cores that are everybody's. Generated code ends by itself; code that has taken the executor over need not.
  absl::Duration run_patience = absl::Hours(2);
};

// EXECUTOR_LOST.
absl::Status ExecutorLost(absl::string_view why, absl::Duration retry_after = absl::ZeroDuration());

// Safe from any thread. EXECUTOR_LOST from any call, and from then on from all, means that it has
// ended, or was ended because it said what none says.
class ExecutorProcess {
 public:
  // It ends with the thread that calls this, at the latest. `arena` outlives it.
  static absl::StatusOr<std::shared_ptr<ExecutorProcess>> Start(const ExecutorOptions& options, Arena* arena,
                                                                uint64_t number);
  // Ends it.
  ~ExecutorProcess();

  // Waits until it can work. Before any other call, once.
  absl::Status Ready();

  // From now on it has `executable`, a serialized one, as `module`, a number that it has not, or
  // that is unloaded. INTERNAL_FAULT if it cannot be linked.
  absl::Status Load(uint32_t device, uint64_t module, absl::string_view executable);
  // With the next Load.
  void Unload(uint64_t module);

  // As hal::Module::LaunchAll; `message` as in words.h, of `steps` steps. One at a time for each
  // device.
  absl::Status Launch(uint32_t device, absl::string_view message, uint32_t steps,
                      const runtime::hal::LaunchControl& control, uint32_t& launched);

  // No two have the same.
  uint64_t number() const { return number_; }
  pid_t pid() const { return pid_; }
  // Whether it is there still, as far as can be seen.
  bool Lives() const;
  // How long nobody has asked it anything.
  absl::Duration Idle(absl::Time now) const;
  absl::Duration Age(absl::Time now) const { return now - born_; }

 private:
  struct Answer {
    char what = 0;
    uint32_t number = 0;
    std::string text;
  };

  ExecutorProcess(const ExecutorOptions& options, Arena* arena, uint64_t number);
  // Sends `message`, if there is one, and waits for the answer: no longer than `patience` and, once
  // `control` says that nobody wants it and `stop` is set, stop_patience.
  absl::Status Ask(Channel& channel, absl::string_view message, const runtime::hal::LaunchControl& control,
                   std::atomic<bool>* stop, absl::Duration patience, Answer& answer);
  absl::Status Lose(absl::string_view why);

  const ExecutorOptions options_;
  Arena* const arena_;
  const uint64_t number_;
  const absl::Time born_;
  pid_t pid_ = 0;
  std::vector<std::unique_ptr<Channel>> devices_;
  std::atomic<int> busy_{0};
  std::atomic<int64_t> used_ns_{0};  // when an answer came last

  absl::Mutex modules_mutex_;
  std::unique_ptr<Channel> modules_ ABSL_GUARDED_BY(modules_mutex_);
  mutable absl::Mutex mutex_;
  std::vector<uint64_t> unwanted_ ABSL_GUARDED_BY(mutex_);  // modules
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_EXECUTORS_EXECUTOR_PROCESS_H_
