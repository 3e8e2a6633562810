// The executors of all tenants whose programs run apart: who has one, and until when.
//
// All of this folder is tested by tests/hostile/executors_test, and through a server by
// tests/python/server/executors_test.py.
#ifndef KILN_SERVER_EXECUTORS_EXECUTORS_H_
#define KILN_SERVER_EXECUTORS_EXECUTORS_H_

#include <spdlog/fwd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/engine/memory/tenant_devices.h"
#include "server/executors/tenant_executor.h"

namespace kiln::server {

class Executors final : public TenantDevices {
 public:
  // Tenants get devices like the CPU devices among `devices`, which are this process's own and outlive this; what a
  // tenant's take of memory counts on these, too. `options.binary` empty: no tenant runs apart. An executor ends when
  // it has been `idle` for so long.
  Executors(ExecutorOptions options, const DeviceList& devices, std::shared_ptr<spdlog::logger> log,
            absl::Duration idle = absl::Minutes(1));
  ~Executors() override;

  absl::Status SetTenants(const std::map<std::string, bool>& apart) override;
  const DeviceList* Of(absl::string_view tenant) override;
  void Drain() override;

 private:
  // What the thread is asked to do for one who waits.
  struct Starting {
    Arena* arena = nullptr;
    absl::StatusOr<std::shared_ptr<ExecutorProcess>> started = nullptr;
    bool done = false;
  };

  absl::StatusOr<std::shared_ptr<ExecutorProcess>> StartOn(Arena* arena);
  // What all keep for later, unless they have just now: nobody keeps others from keeping any.
  void GiveBack();
  void Serve();

  const std::shared_ptr<spdlog::logger> log_;
  const absl::Duration idle_;
  ExecutorOptions options_;
  std::vector<DeviceModel> models_;  // the CPU devices

  mutable absl::Mutex mutex_;
  absl::Time gave_back_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::map<std::string, bool> apart_ ABSL_GUARDED_BY(mutex_);  // of all that there ever were
  std::map<std::string, std::unique_ptr<TenantExecutor>, std::less<>> executors_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex start_mutex_;
  std::vector<Starting*> starting_ ABSL_GUARDED_BY(start_mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(start_mutex_) = 0;
  Bell bell_;
  bool stopping_ ABSL_GUARDED_BY(start_mutex_) = false;
  // Executors end with the thread that starts them, so that none is left whatever ends the server:
  // it must be one that stays.
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_EXECUTORS_EXECUTORS_H_
