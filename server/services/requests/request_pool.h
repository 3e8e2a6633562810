// The threads that read large requests, so that gRPC's own few stay free for everybody.
//
// To decode and hash a graph of megabytes takes a large part of a second. On a thread of gRPC
// nothing that comes by that thread would be answered meanwhile. So what is larger than
// kSmallRequest (codec.h) waits for a thread here. Small ones do not: the way to another thread costs
// more than they do.
//
// Callers have turns: whoever has many requests waiting delays itself, and everybody else by
// one of them. What waits is bounded, in all and for each caller.
#ifndef KILN_SERVER_SERVICES_REQUESTS_REQUEST_POOL_H_
#define KILN_SERVER_SERVICES_REQUESTS_REQUEST_POOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace kiln::server {

// Safe from any thread.
class RequestPool {
 public:
  using Job = absl::AnyInvocable<void()>;
  // What may wait, of all callers together; one may have a quarter of each. A first request
  // may be as large as it likes.
  struct Limits {
    uint64_t requests = 1024;
    uint64_t bytes = uint64_t{1} << 30;
  };

  explicit RequestPool(uint32_t threads) : RequestPool(threads, Limits()) {}
  RequestPool(uint32_t threads, Limits limits);
  // Runs what waits, then ends its threads.
  ~RequestPool();
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  // Calls `job` once, on a thread of the pool, after the caller's earlier ones have begun.
  // OUT_OF_MEMORY with the limit and when to come again, if too much waits: then it is not
  // called.
  absl::Status Offer(const std::string& caller, uint64_t bytes, Job job);
  // The same for the next message of a stream, which is not refused and does not count: a
  // stream has one message at most, and reads no other before this one's job is done.
  void Push(const std::string& caller, Job job);

  // How many jobs wait.
  size_t waiting() const;

 private:
  struct Waiting {
    Job job;
    uint64_t requests, bytes;  // that count
  };
  struct Caller {
    std::deque<Waiting> waiting;
    uint64_t requests = 0, bytes = 0;
  };

  void Work();
  Job Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const std::string& caller, Waiting waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasJobOrEnds() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !turns_.empty() || ending_; }

  const Limits limits_;
  mutable absl::Mutex mutex_;
  // Those for whom something waits, and who is next.
  absl::flat_hash_map<std::string, Caller> callers_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mutex_);
  uint64_t requests_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_REQUESTS_REQUEST_POOL_H_
