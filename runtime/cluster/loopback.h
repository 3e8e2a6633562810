// Ranks in one process: a job for tests, without MPI.
#ifndef KILN_RUNTIME_CLUSTER_LOOPBACK_H_
#define KILN_RUNTIME_CLUSTER_LOOPBACK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/cluster/wire.h"

namespace kiln::runtime::cluster {

// What joins the ranks. Safe from any thread; outlives the wires.
class Loopback {
 public:
  explicit Loopback(uint32_t size) : size_(size), dead_(size), parcels_(size), messages_(size) {}

  // Once for each rank.
  std::unique_ptr<Wire> MakeWire(uint32_t rank);

  // From now on nothing comes from this rank, and what goes to it is lost, without a
  // word: a process that hangs, or a cable that is cut.
  void Silence(uint32_t rank);

 private:
  friend class LoopbackWire;

  const uint32_t size_;
  absl::Mutex mutex_;
  std::vector<bool> dead_ ABSL_GUARDED_BY(mutex_);
  // By receiver; parcels then by sender and tag.
  std::vector<std::map<std::pair<uint32_t, uint32_t>, std::deque<std::string>>> parcels_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::deque<Message>> messages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::runtime::cluster

#endif  // KILN_RUNTIME_CLUSTER_LOOPBACK_H_
