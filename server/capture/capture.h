// kilnd --capture: what clients ask for, into a file (base/capture/capture_file.h).
//
// It listens where messages come from the wire and go to it, so that no service knows of
// it, and a client's answer is never ahead of the file. Calls stand in the order in which
// they arrived; those that no client has put in order, and that share memory, may have run
// in another.
#ifndef KILN_SERVER_CAPTURE_CAPTURE_H_
#define KILN_SERVER_CAPTURE_CAPTURE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_interceptor.h>
#include <spdlog/fwd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/capture/capture_file.h"

namespace kiln::server {

// Safe from any thread.
class Capture {
 public:
  // A new file of at most so many bytes; the errors of capture::Writer.
  static absl::StatusOr<std::shared_ptr<Capture>> Create(const std::string& path, uint64_t max_bytes,
                                                         const v1::CaptureHeader& header,
                                                         std::shared_ptr<spdlog::logger> log);

  // False once the file is finished: then nothing here does anything.
  bool on() const { return on_.load(std::memory_order_relaxed); }

  // A call that began, by a number of its own.
  uint64_t Begin(const std::string& method, absl::string_view session_token);
  void Received(uint64_t call, std::string message);
  void Sent(uint64_t call, std::string message);
  void End(uint64_t call, const grpc::Status& status);

  // What stands for a token in the file: 0 for none, capture::kNoSuchSession for what is
  // no open session's, whatever a client may send.
  uint64_t SessionNumber(absl::string_view token) const;
  // The server has given this token out, and it is known from now on.
  uint64_t SessionOpened(absl::string_view token);
  void SessionClosed(absl::string_view token);

 private:
  Capture(std::unique_ptr<capture::Writer> writer, std::shared_ptr<spdlog::logger> log)
      : writer_(std::move(writer)), log_(std::move(log)) {}
  void Add(const v1::CaptureEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> on_{true};
  mutable absl::Mutex mutex_;
  // Null once the file is finished.
  std::unique_ptr<capture::Writer> writer_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<spdlog::logger> log_;
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those that the server opened. Each has stood in the file, which bounds them.
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, uint64_t> sessions_ ABSL_GUARDED_BY(mutex_);
};

// For a ServerBuilder: listens to all calls that change anything.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CaptureCalls(std::shared_ptr<Capture> capture);

}  // namespace kiln::server

#endif  // KILN_SERVER_CAPTURE_CAPTURE_H_
