#include "server/compile_worker/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace kiln::server {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
// Linux moves less than 2 GiB in one call.
constexpr size_t kMaxAtOnce = size_t{1} << 30;

// Between two looks at whether it is still wanted.
constexpr int kPiece = 256 << 10;

absl::StatusOr<Descriptor> NewMemory() {
  Descriptor memory(memfd_create("kiln", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) return absl::UnavailableError(absl::StrCat("memfd_create: ", std::strerror(errno)));
  return memory;
}

absl::Status Append(const Descriptor& memory, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(memory.get(), bytes.data(), std::min(bytes.size(), kMaxAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return absl::UnavailableError(absl::StrCat("writing to a memfd: ", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status Seal(const Descriptor& memory) {
  if (fcntl(memory.get(), F_ADD_SEALS, kSeals) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("F_ADD_SEALS: ", std::strerror(errno)));
}

// Takes what protobuf writes to `memory`, for as long as it is wanted.
class Pieces final : public google::protobuf::io::CopyingOutputStream {
 public:
  Pieces(const Descriptor& memory, absl::FunctionRef<absl::Status()> wanted) : memory_(memory), wanted_(wanted) {}

  bool Write(const void* buffer, int size) override {
    status_.Update(wanted_());
    if (status_.ok()) status_ = Append(memory_, {static_cast<const char*>(buffer), static_cast<size_t>(size)});
    return status_.ok();
  }
  const absl::Status& status() const { return status_; }

 private:
  const Descriptor& memory_;
  const absl::FunctionRef<absl::Status()> wanted_;
  absl::Status status_;
};

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.release();
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<Descriptor> SealedMemory(absl::string_view bytes) {
  KILN_ASSIGN_OR_RETURN(Descriptor memory, NewMemory());
  KILN_RETURN_IF_ERROR(Append(memory, bytes));
  KILN_RETURN_IF_ERROR(Seal(memory));
  return memory;
}

absl::StatusOr<Descriptor> SealedMessages(absl::FunctionRef<const google::protobuf::MessageLite*()> next,
                                          absl::FunctionRef<absl::Status()> wanted) {
  KILN_ASSIGN_OR_RETURN(Descriptor memory, NewMemory());
  Pieces pieces(memory, wanted);
  google::protobuf::io::CopyingOutputStreamAdaptor stream(&pieces, kPiece);
  bool written = true;
  while (const google::protobuf::MessageLite* message = written ? next() : nullptr) {
    KILN_RETURN_IF_ERROR(wanted());
    written = message->SerializeToZeroCopyStream(&stream);
  }
  written = written && stream.Flush();
  KILN_RETURN_IF_ERROR(pieces.status());
  if (!written) return absl::UnavailableError("the message is larger than any can be");
  KILN_RETURN_IF_ERROR(Seal(memory));
  return memory;
}

absl::StatusOr<std::string> ReadSealed(int fd, uint64_t max_bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return absl::InvalidArgumentError("it is no sealed memory");
  // Not by stat, which a worker may not call: it takes paths, too.
  const off_t size = lseek(fd, 0, SEEK_END);
  if (size < 0) return absl::InvalidArgumentError("it has no size");
  if (static_cast<uint64_t>(size) > max_bytes)
    return absl::InvalidArgumentError(absl::StrCat("it has ", size, " bytes; the most is ", max_bytes));
  std::string bytes(static_cast<size_t>(size), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = pread(fd, &bytes[at], std::min(bytes.size() - at, kMaxAtOnce), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::InvalidArgumentError("it cannot be read");
    at += static_cast<size_t>(got);
  }
  return bytes;
}

bool SendDescriptor(int socket, char what, int fd) {
  iovec bytes = {&what, 1};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == 1;
}

Received ReceiveDescriptor(int socket) {
  Received received;
  char what = 0;
  iovec bytes = {&what, 1};
  // Room for more than one, so that all that come are seen, and closed.
  alignas(cmsghdr) char space[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  ssize_t got;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return received;
  int count = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= header->cmsg_len; ++i, ++count) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      received.fd = Descriptor(fd);
    }
  }
  if (got == 1 && count <= 1 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) received.what = what;
  return received;
}

}  // namespace kiln::server
