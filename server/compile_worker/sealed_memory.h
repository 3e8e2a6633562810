// Bytes that go from one process to another: memory behind a descriptor, sealed, so that who reads them knows that they
// do not change meanwhile.
#ifndef KILN_SERVER_COMPILE_WORKER_SEALED_MEMORY_H_
#define KILN_SERVER_COMPILE_WORKER_SEALED_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"

namespace kiln::server {

// A descriptor, which it closes; -1: none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_ = -1;
};

// `bytes`, of which nobody can change or cut any. UNAVAILABLE if the system gives no memory for them.
absl::StatusOr<Descriptor> SealedMemory(absl::string_view bytes);

// The same of messages as they travel, one after the other, as often as `next` returns one that is not null; each is
// measured as a whole, then written piece by piece. The error of `wanted`, which is asked for each, once it has one.
absl::StatusOr<Descriptor> SealedMessages(absl::FunctionRef<const google::protobuf::MessageLite*()> next,
                                          absl::FunctionRef<absl::Status()> wanted);

// What is in it. `fd` may be any descriptor at all: INVALID_ARGUMENT for what is no sealed memory, and for more than
// `max_bytes`.
absl::StatusOr<std::string> ReadSealed(int fd, uint64_t max_bytes);

// One byte and at most one descriptor (-1: none) over a socket that keeps messages apart. False if the other end is
// gone.
bool SendDescriptor(int socket, char what, int fd);

// The same, received: `what` is 0 if the other end is gone or has sent anything else. Blocks.
struct Received {
  char what = 0;
  Descriptor fd;
};
Received ReceiveDescriptor(int socket);

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_SEALED_MEMORY_H_
