// kilnd --capture: what clients ask for, into a file (base/capture/capture_file.h).
//
// It listens where messages come from the wire and go to it, so that no service knows of it. What it hears goes into a
// bounded queue, and a thread of its own writes it: no call waits for the disk. Calls stand in the order in which they
// arrived; those that no client has put in order, and that share memory, may have run in another.
//
// A caller has a share of the file, and of the queue: it may take no more than it leaves to others. Who would is left
// out from then on, since what came after a gap could not be played.
#ifndef KILN_SERVER_CAPTURE_CAPTURE_H_
#define KILN_SERVER_CAPTURE_CAPTURE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_interceptor.h>
#include <spdlog/fwd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/capture/capture_file.h"

namespace kiln::server {

// Safe from any thread; nothing here waits for the disk, but Create and the end.
class Capture {
 public:
  struct Limits {
    uint64_t file_bytes;
    // What waits to be written; a single entry may be larger.
    uint64_t queue_bytes = uint64_t{256} << 20;
  };
  // A new file; the errors of capture::Writer.
  static absl::StatusOr<std::shared_ptr<Capture>> Create(const std::string& path, const Limits& limits,
                                                         const v1::CaptureHeader& header,
                                                         std::shared_ptr<spdlog::logger> log);
  // Writes what waits, and marks the end.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Whose calls share what there is.
  class Caller {
   public:
    // False once it is left out.
    bool on() const { return on_.load(std::memory_order_relaxed); }

   private:
    friend class Capture;
    std::atomic<bool> on_{true};
    // The capture's lock guards the rest.
    std::string name_;
    uint64_t bytes_ = 0, waiting_ = 0;
  };
  struct Call {
    uint64_t number = 0;
    Caller* caller = nullptr;  // the capture's; null for one that is not captured
    bool on() const { return caller != nullptr && caller->on(); }
  };

  // A call that began, by a number of its own.
  Call Begin(const std::string& caller, const std::string& method, absl::string_view session_token);
  void Received(const Call& call, std::string message);
  void Sent(const Call& call, std::string message);
  void End(const Call& call, const grpc::Status& status);

  // What stands for a token in the file: 0 for none, capture::kNoSuchSession for what is
  // no open session's, whatever a client may send.
  uint64_t SessionNumber(absl::string_view token) const;
  // The server has given this token out, and it is known from now on.
  uint64_t SessionOpened(absl::string_view token);
  void SessionClosed(absl::string_view token);

  // Callers that were left out; those that came when it was closed to new ones are counted as one.
  uint64_t left_out() const;
  // Waits until all that was taken is written. For tests.
  void Flush();
  // For tests: from now on, until it is called with false, nothing is written.
  void Hold(bool hold);

 private:
  struct Waiting {
    v1::CaptureEntry entry;
    uint64_t bytes;
    Caller* caller;
  };

  Capture(std::unique_ptr<capture::Writer> writer, const Limits& limits, std::shared_ptr<spdlog::logger> log);

  uint64_t NumberOf(absl::string_view token) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Offer(const Call& call, v1::CaptureEntry entry);
  // Why there is no room for it; empty, and it is added, if there is.
  absl::string_view Add(Caller& caller, v1::CaptureEntry entry, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveOut(absl::string_view caller, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteUntilStopped();
  void Fail() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  const std::shared_ptr<spdlog::logger> log_;
  const std::unique_ptr<capture::Writer> writer_;  // the thread's
  mutable absl::Mutex mutex_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  uint64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // and of what is being written
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_);              // of the file, once all that waits is in it
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // to callers that are new: one found no room
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  // Each has stood in the file, which bounds them.
  absl::node_hash_map<std::string, Caller> callers_ ABSL_GUARDED_BY(mutex_);
  // Those that the server opened. Each has stood in the file, which bounds them.
  absl::flat_hash_map<std::string, uint64_t> sessions_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

// Whose share a call counts for: a tenant's, or a connection's; none for a caller that is not to be captured.
using CapturedCallerFn = std::function<std::optional<std::string>(const grpc::ServerContextBase&)>;

// Has every call that changes anything, or shows what others changed, captured.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CaptureCalls(std::shared_ptr<Capture> capture,
                                                                                    CapturedCallerFn caller);

}  // namespace kiln::server

#endif  // KILN_SERVER_CAPTURE_CAPTURE_H_
