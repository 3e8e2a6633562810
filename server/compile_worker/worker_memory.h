// What compile workers have of memory together, and which of them ends when that is too much.
//
// Each has a limit of its own, but a server has as many of them as jobs that take long, and most need a hundredth of
// it. So the sum is bounded by looking: what each has now is noted while it works. Of what is too much, the largest
// job ends of the domain that has the most: so whoever takes little loses nothing to somebody who takes much.
#ifndef KILN_SERVER_COMPILE_WORKER_WORKER_MEMORY_H_
#define KILN_SERVER_COMPILE_WORKER_WORKER_MEMORY_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/memory/trust_domain.h"

namespace kiln::server {

// Safe from any thread.
class WorkerMemory {
 public:
  enum class Verdict : unsigned char {
    kGoOn,
    kEndIdle,  // there is too much: workers that have nothing to do go first
    kEnd,      // this one is to end
  };

  // Bytes of all together; 0: as much as there is.
  explicit WorkerMemory(uint64_t most) : most_(most) {}

  // A worker that is born for a job, until it is no more. `number` is not another's at that time.
  void Add(uint64_t number, const TrustDomain& domain);
  void Remove(uint64_t number);

  // One that works has `bytes` now, and is to do so. Each that is to end is told so when it comes next.
  Verdict Works(uint64_t number, uint64_t bytes);
  // It waits for its next job, with so much; and has one again.
  void Waits(uint64_t number, uint64_t bytes);
  void Begins(uint64_t number);

  uint64_t most() const { return most_; }
  uint64_t used() const;

 private:
  struct Row {
    TrustDomain domain;
    uint64_t bytes = 0;
    bool works = true;
    bool ending = false;
  };

  const uint64_t most_;
  mutable absl::Mutex mutex_;
  absl::btree_map<uint64_t, Row> rows_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_WORKER_MEMORY_H_
