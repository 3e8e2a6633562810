// Memory that this process and a server on the same machine both have mapped.
//
// Bytes that lie in it are moved by one copy of the server's, and pass no socket. A client
// uses it by itself where the server offers it: what it uploads and downloads goes through
// two small pieces, of which the server has one while this side has the other. What lies in
// SharedBytes needs no copy here (kiln/v1/buffer_service.proto, MapSharedMemory).
#ifndef KILN_CLIENT_CPP_TRANSPORT_SHARED_MEMORY_H_
#define KILN_CLIENT_CPP_TRANSPORT_SHARED_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "client/cpp/transport/connection.h"
#include "kiln/v1/tensor.pb.h"

namespace kiln::client {

// Zeros at first. Shared for as long as it lives.
class SharedBytes {
 public:
  // UNAVAILABLE if the server's socket cannot be reached from here: another machine,
  // another user. The errors of MapSharedMemory.
  static absl::StatusOr<std::unique_ptr<SharedBytes>> Make(Connection& connection, uint64_t bytes);
  ~SharedBytes();
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;

  absl::Span<char> span() const { return {data_, bytes_}; }
  uint64_t handle() const { return handle_; }

 private:
  SharedBytes() = default;
  absl::Status HandOver(const std::string& socket, int memfd);

  char* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t handle_ = 0;
  int socket_ = -1;
};

// Transfers of one client. Safe from any thread.
class SharedMemory {
 public:
  // As SharedBytes::Make.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Open(Connection& connection);

  // New memory, from and to which transfers need no copy on this side.
  absl::StatusOr<std::shared_ptr<SharedBytes>> Allocate(uint64_t bytes);

  // What has failed once lost() is true may succeed by a socket.
  absl::Status Upload(const v1::BufferRef& to, absl::string_view bytes);
  absl::Status Download(const v1::BufferRef& from, absl::Span<char> to);
  // Whether the server has forgotten what was shared: another one, at the same address.
  bool lost() const { return lost_; }

 private:
  // Where bytes lie; handle 0 if they are not shared.
  struct Place {
    uint64_t handle = 0;
    uint64_t offset = 0;
  };

  explicit SharedMemory(Connection& connection) : connection_(connection) {}
  Place PlaceOf(const char* data, uint64_t bytes);
  absl::Status UploadPieces(const v1::BufferRef& to, absl::string_view bytes);
  absl::Status DownloadPieces(const v1::BufferRef& from, absl::Span<char> to);
  absl::Status Noting(absl::Status status);

  Connection& connection_;
  std::atomic<bool> lost_ = false;
  absl::Mutex staging_mutex_;  // its holder has the pieces
  std::unique_ptr<SharedBytes> staging_;
  absl::Mutex mutex_;
  std::vector<std::weak_ptr<SharedBytes>> regions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_SHARED_MEMORY_H_
