// What a tenant has whose programs run apart: memory, devices, and one executor at a time.
//
// The executor is started when something is to be loaded or run, and ends when nothing has been
// for a while; then, and if it crashes, the tenant's buffers stay, and the next load or run finds
// another executor, into which a device loads again what it needs.
#ifndef KILN_SERVER_EXECUTORS_TENANT_EXECUTOR_H_
#define KILN_SERVER_EXECUTORS_TENANT_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kiln/v1/target.pb.h"
#include "runtime/hal/device.h"
#include "server/engine/memory/tenant_devices.h"
#include "server/executors/executor_process.h"

namespace kiln::server {

// What a device is to be like: one of the server's.
struct DeviceModel {
  std::string name;
  std::string description;
  v1::Target target;
  uint64_t limit_bytes = 0;
  runtime::hal::Allocator* counts = nullptr;  // that one's, where memory of the device counts, too
};

// Safe from any thread.
class TenantExecutor {
 public:
  // Starts a process in this arena, on a thread that lives as long as this.
  using Start = std::function<absl::StatusOr<std::shared_ptr<ExecutorProcess>>(Arena* arena)>;
  // An executor has ended: for the log.
  using Ended = std::function<void(const ExecutorProcess& process, const std::string& why)>;

  // What the models name outlives it.
  TenantExecutor(const std::vector<DeviceModel>& models, absl::Duration longest_run, Start start, Ended ended);

  const DeviceList& devices() const { return devices_; }
  // The devices give back what they keep for later (device.h).
  void GiveBack() const;

  // The memory behind the devices; OUT_OF_MEMORY if there was none.
  absl::StatusOr<Arena*> arena() const;

  // The one that there is, or a new one. EXECUTOR_LOST, with the time to wait, after several that
  // have ended soon; else the errors of ExecutorProcess.
  absl::StatusOr<std::shared_ptr<ExecutorProcess>> Process();
  // The one that there is, if it has this number; else null.
  std::shared_ptr<ExecutorProcess> Find(uint64_t number) const;
  // `process`, which Process() gave, has ended with `status`.
  void Lost(const ExecutorProcess& process, const absl::Status& status);

  // Once what it is at has ended, if anything is: ends one that has been idle for so long, and what the devices keep
  // for later goes with it. Does not wait.
  void EndIdle(absl::Time now, absl::Duration idle);

 private:
  void NoteEnd(absl::Time now, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Start start_;
  const Ended ended_;
  absl::StatusOr<std::unique_ptr<Arena>> arena_;

  // Held also while a process starts.
  mutable absl::Mutex start_mutex_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<ExecutorProcess> process_ ABSL_GUARDED_BY(mutex_);
  uint32_t soon_ended_ ABSL_GUARDED_BY(mutex_) = 0;  // one after the other
  absl::Time not_before_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time gave_back_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  DeviceList devices_;  // last, hence the first to go
};

}  // namespace kiln::server

#endif  // KILN_SERVER_EXECUTORS_TENANT_EXECUTOR_H_
