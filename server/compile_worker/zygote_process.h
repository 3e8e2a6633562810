// The server's side of the zygote (zygote.h): starts it, starts it again when it has ended, and has it fork.
#ifndef KILN_SERVER_COMPILE_WORKER_ZYGOTE_PROCESS_H_
#define KILN_SERVER_COMPILE_WORKER_ZYGOTE_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/hal/module.h"
#include "server/compile_worker/sealed_memory.h"

namespace kiln::server {

// How often a caller is asked whether it still waits.
inline constexpr int kLookMs = 5;

// Whether something came, or the other end went, in time.
bool Comes(int socket, int milliseconds);

// Safe from any thread. Who asks it for something goes as soon as it is told to stop, also while the zygote is slow, or
// while another waits for it. Tested by tests/hostile/compile_workers_test.
class ZygoteProcess {
 public:
  // A worker that was born. If it ends, `process`, a pidfd, says so.
  struct Child {
    Descriptor socket, process;
    // The zygote that was there before has ended, and with it all workers that were born of it.
    bool anew = false;
  };

  // `binary` is a zygote if it is called with kZygoteFlag and `memory_bytes`; `warm` is a job, serialized.
  ZygoteProcess(std::string binary, uint64_t memory_bytes, std::string warm)
      : binary_(std::move(binary)), memory_bytes_(memory_bytes), warm_(std::move(warm)) {}
  // Kills it.
  ~ZygoteProcess();

  // Starts it, and blocks until it is warm. INTERNAL_FAULT if it does not come to that.
  absl::Status Start();
  // The error of control.Check(), once it has one; INTERNAL_FAULT if no process can be had.
  absl::StatusOr<Child> Fork(const runtime::hal::LaunchControl& control);

 private:
  // One caller at a time is inside, and alone uses what stands below. Enter: the error of control.Check().
  absl::Status Enter(const runtime::hal::LaunchControl& control);
  void Leave();

  absl::Status Spawn();
  void End();
  // Sends what it will answer. False if it is gone.
  bool Ask(char what, int fd);
  // The answer that it owes; `what` is 0 if it is gone, or takes longer than any zygote does. The error of
  // control.Check(), once it has one: then it still owes the answer.
  absl::StatusOr<Received> Answer(const runtime::hal::LaunchControl& control);

  const std::string binary_;
  const uint64_t memory_bytes_;
  const std::string warm_;
  absl::Mutex mutex_;
  bool inside_ ABSL_GUARDED_BY(mutex_) = false;

  pid_t process_ = 0;  // 0: there is none
  Descriptor socket_;
  // It has not yet answered what it was asked then: the caller may have gone. Whoever comes next hears it.
  bool owes_ = false;
  bool ended_ = false;  // one has, and nobody has been told
  absl::Time asked_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_ZYGOTE_PROCESS_H_
