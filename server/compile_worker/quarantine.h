// Jobs that have ended their worker, or taken all their time, more than once are not tried again for a while.
#ifndef KILN_SERVER_COMPILE_WORKER_QUARANTINE_H_
#define KILN_SERVER_COMPILE_WORKER_QUARANTINE_H_

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/blake3.h"

namespace kiln::server {

// Safe from any thread.
class Quarantine {
 public:
  static constexpr int kChances = 2;
  static constexpr absl::Duration kTime = absl::Hours(1);
  // Of jobs that are remembered; then the oldest is forgotten.
  static constexpr size_t kMaxJobs = 4096;

  // Whether at `now` no job is remembered: nobody needs the name of one then, which takes long to make.
  bool Empty(absl::Time now);
  // COMPILER_FAULT with the time to wait, if it is not to be tried at `now`.
  absl::Status Check(const Digest& job, absl::Time now);
  // It has gone wrong.
  void Note(const Digest& job, absl::Time now);

 private:
  struct Row {
    int faults = 0;
    absl::Time last;
  };
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Digest, Row> rows_ ABSL_GUARDED_BY(mutex_);
  std::deque<Digest> order_ ABSL_GUARDED_BY(mutex_);  // of rows_, the oldest first
};

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_QUARANTINE_H_
