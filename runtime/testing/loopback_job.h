// A job of several ranks in threads of this process, for tests of what rank 0 does with
// the others' devices.
#ifndef KILN_RUNTIME_TESTING_LOOPBACK_JOB_H_
#define KILN_RUNTIME_TESTING_LOOPBACK_JOB_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/cluster/loopback.h"
#include "runtime/drivers/remote/switchboard.h"
#include "runtime/drivers/remote/worker.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::testing {

// Ranks 1 and up have `devices_each` CPU devices of one thread; rank 0 has none here.
class LoopbackJob {
 public:
  static constexpr uint64_t kMemoryOfRank = 64 << 20;

  LoopbackJob(uint32_t ranks, uint32_t devices_each, remote::TaskHandler handler,
              absl::Duration silence = absl::Seconds(60));
  ~LoopbackJob();

  // Rank 0's view of the others', rank by rank, named from "CPU:<devices_each>" on.
  std::vector<std::unique_ptr<hal::Device>> TakeDevices() { return std::move(devices_); }

  // As Loopback::Silence.
  void Silence(uint32_t rank) { loopback_.Silence(rank); }

 private:
  struct Rank {
    // What rank 0 said last may arrive while the job ends, and is for nobody then.
    absl::Status Read(cluster::Message message);

    absl::Mutex mutex;
    bool ends ABSL_GUARDED_BY(mutex) = false;
    std::unique_ptr<remote::Worker> worker;
    std::unique_ptr<cluster::Transport> transport;
  };

  cluster::Loopback loopback_;
  std::vector<Rank> ranks_;
  std::shared_ptr<remote::Switchboard> board_;
  std::vector<std::unique_ptr<hal::Device>> devices_;
};

}  // namespace kiln::runtime::testing

#endif  // KILN_RUNTIME_TESTING_LOOPBACK_JOB_H_
