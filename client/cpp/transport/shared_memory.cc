#include "client/cpp/transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/rpc/status.pb.h"
#include "kiln/v1/buffer_service.pb.h"

namespace kiln::client {
namespace {

// Of the two pieces: long against a call, short against a cache.
constexpr uint64_t kPieceBytes = 4 << 20;
// No answer of the server's socket is longer.
constexpr size_t kMaxAnswer = 64 << 10;
constexpr timeval kTimeout = {10, 0};

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("shared memory: ", what, ": ", std::strerror(errno)));
}

// Closes it in the end.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

// The message of a connection that brings memory: its handle, and the memfd beside it.
bool SendMemory(int socket, uint64_t handle, int memfd) {
  char bytes[sizeof(handle)];
  for (size_t i = 0; i < sizeof(handle); ++i) bytes[i] = static_cast<char>(handle >> (8 * i));
  iovec part = {bytes, sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* row = CMSG_FIRSTHDR(&message);
  row->cmsg_level = SOL_SOCKET;
  row->cmsg_type = SCM_RIGHTS;
  row->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(row), &memfd, sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(bytes));
}

// A Copy under way, of which the server has a piece.
class Copy {
 public:
  void Start(Connection& connection, const v1::CopyRequest& request) {
    connection_ = &connection;
    sent_ = request.ByteSizeLong();
    context_.emplace();
    connection.Prepare(*context_);
    call_ = connection.buffers->AsyncCopy(&*context_, request, &queue_);
    call_->Finish(&response_, &status_, this);
  }
  bool under_way() const { return call_ != nullptr; }
  absl::Status Wait() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    call_.reset();
    connection_->Count("Copy", 1, sent_, status_.ok() ? response_.ByteSizeLong() : 0);
    return connection_->Convert(status_);
  }
  ~Copy() {
    if (under_way()) Wait().IgnoreError();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  uint64_t begin = 0, bytes = 0;  // of the piece, for who started it

 private:
  Connection* connection_ = nullptr;
  grpc::CompletionQueue queue_;
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::CopyResponse>> call_;
  v1::CopyResponse response_;
  grpc::Status status_;
  uint64_t sent_ = 0;
};

v1::CopyRequest CopyTo(v1::BufferRef buffer, uint64_t at, uint64_t handle, uint64_t offset, uint64_t bytes) {
  v1::CopyRequest request;
  buffer.set_offset(buffer.offset() + at);
  *request.mutable_to() = std::move(buffer);
  request.mutable_from_shared()->set_handle(handle);
  request.mutable_from_shared()->set_offset(offset);
  request.set_bytes(bytes);
  return request;
}

v1::CopyRequest CopyFrom(v1::BufferRef buffer, uint64_t at, uint64_t handle, uint64_t offset, uint64_t bytes) {
  v1::CopyRequest request;
  buffer.set_offset(buffer.offset() + at);
  *request.mutable_from() = std::move(buffer);
  request.mutable_to_shared()->set_handle(handle);
  request.mutable_to_shared()->set_offset(offset);
  request.set_bytes(bytes);
  return request;
}

absl::Status CopyAtOnce(Connection& connection, const v1::CopyRequest& request) {
  v1::CopyResponse response;
  return connection.Call(connection.buffers, &v1::BufferService::Stub::Copy, "Copy", request, &response);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedBytes>> SharedBytes::Make(Connection& connection, uint64_t bytes) {
  v1::MapSharedMemoryRequest request;
  request.set_bytes(bytes);
  v1::MapSharedMemoryResponse response;
  KILN_RETURN_IF_ERROR(connection.Call(connection.buffers, &v1::BufferService::Stub::MapSharedMemory, "MapSharedMemory",
                                       request, &response));
  const File memfd(memfd_create("kiln", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memfd.get() < 0) return SystemError("memfd_create");
  if (ftruncate(memfd.get(), static_cast<off_t>(bytes)) != 0) return SystemError("ftruncate");
  if (fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return SystemError("F_ADD_SEALS");
  std::unique_ptr<SharedBytes> shared(new SharedBytes);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
  if (data == MAP_FAILED) return SystemError("mmap");
  shared->data_ = static_cast<char*>(data);
  shared->bytes_ = bytes;
  shared->handle_ = response.handle();
  KILN_RETURN_IF_ERROR(shared->HandOver(response.socket(), memfd.get()));
  return shared;
}

absl::Status SharedBytes::HandOver(const std::string& socket, int memfd) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket.empty() || socket.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(absl::StrCat("shared memory: no path of a socket: ", socket));
  }
  std::memcpy(address.sun_path, socket.data(), socket.size());
  File connection(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (connection.get() < 0) return SystemError("socket");
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  setsockopt(connection.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
  if (connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError(socket);
  }
  if (!SendMemory(connection.get(), handle_, memfd)) return SystemError(socket);
  std::string answer(kMaxAnswer, '\0');
  const ssize_t size = recv(connection.get(), &answer[0], answer.size(), 0);
  if (size <= 0) return absl::UnavailableError(absl::StrCat("shared memory: ", socket, ": the server hung up"));
  answer.resize(static_cast<size_t>(size));
  if (answer[0] != 0) {
    google::rpc::Status status;
    status.ParseFromString(answer.substr(1));
    return absl::Status(static_cast<absl::StatusCode>(status.code()), status.message());
  }
  socket_ = connection.release();
  return absl::OkStatus();
}

SharedBytes::~SharedBytes() {
  if (socket_ >= 0) close(socket_);
  if (data_ != nullptr) munmap(data_, bytes_);
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Open(Connection& connection) {
  std::unique_ptr<SharedMemory> memory(new SharedMemory(connection));
  KILN_ASSIGN_OR_RETURN(memory->staging_, SharedBytes::Make(connection, 2 * kPieceBytes));
  return memory;
}

absl::StatusOr<std::shared_ptr<SharedBytes>> SharedMemory::Allocate(uint64_t bytes) {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<SharedBytes> made, SharedBytes::Make(connection_, bytes));
  absl::MutexLock lock(&mutex_);
  regions_.erase(std::remove_if(regions_.begin(), regions_.end(), [](const auto& gone) { return gone.expired(); }),
                 regions_.end());
  regions_.push_back(made);
  return made;
}

SharedMemory::Place SharedMemory::PlaceOf(const char* data, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  for (const std::weak_ptr<SharedBytes>& region : regions_) {
    const std::shared_ptr<SharedBytes> shared = region.lock();
    if (shared == nullptr) continue;
    const absl::Span<char> all = shared->span();
    if (all.data() <= data && data + bytes <= all.data() + all.size()) {
      return {shared->handle(), static_cast<uint64_t>(data - all.data())};
    }
  }
  return {};
}

absl::Status SharedMemory::Noting(absl::Status status) {
  if (const auto detail = DetailOf(status); detail.has_value() && detail->field() == "shared_memory") lost_ = true;
  return status;
}

absl::Status SharedMemory::Upload(const v1::BufferRef& to, absl::string_view bytes) {
  if (const Place place = PlaceOf(bytes.data(), bytes.size()); place.handle != 0) {
    return Noting(CopyAtOnce(connection_, CopyTo(to, 0, place.handle, place.offset, bytes.size())));
  }
  return Noting(UploadPieces(to, bytes));
}

absl::Status SharedMemory::UploadPieces(const v1::BufferRef& to, absl::string_view bytes) {
  absl::MutexLock lock(&staging_mutex_);
  std::array<Copy, 2> copies;
  for (uint64_t at = 0, number = 0; at < bytes.size(); at += kPieceBytes, ++number) {
    Copy& copy = copies[number % 2];
    if (copy.under_way()) KILN_RETURN_IF_ERROR(copy.Wait());
    const absl::string_view piece = bytes.substr(at, kPieceBytes);
    const uint64_t offset = number % 2 * kPieceBytes;
    std::memcpy(staging_->span().data() + offset, piece.data(), piece.size());
    copy.Start(connection_, CopyTo(to, at, staging_->handle(), offset, piece.size()));
  }
  for (Copy& copy : copies) {
    if (copy.under_way()) KILN_RETURN_IF_ERROR(copy.Wait());
  }
  return absl::OkStatus();
}

absl::Status SharedMemory::Download(const v1::BufferRef& from, absl::Span<char> to) {
  if (const Place place = PlaceOf(to.data(), to.size()); place.handle != 0) {
    return Noting(CopyAtOnce(connection_, CopyFrom(from, 0, place.handle, place.offset, to.size())));
  }
  return Noting(DownloadPieces(from, to));
}

absl::Status SharedMemory::DownloadPieces(const v1::BufferRef& from, absl::Span<char> to) {
  absl::MutexLock lock(&staging_mutex_);
  std::array<Copy, 2> copies;
  const auto finish = [&](uint64_t number) -> absl::Status {
    Copy& copy = copies[number % 2];
    KILN_RETURN_IF_ERROR(copy.Wait());
    std::memcpy(to.data() + copy.begin, staging_->span().data() + number % 2 * kPieceBytes, copy.bytes);
    return absl::OkStatus();
  };
  uint64_t number = 0;
  for (uint64_t at = 0; at < to.size(); at += kPieceBytes, ++number) {
    Copy& copy = copies[number % 2];
    if (copy.under_way()) KILN_RETURN_IF_ERROR(finish(number));
    copy.begin = at;
    copy.bytes = std::min<uint64_t>(kPieceBytes, to.size() - at);
    copy.Start(connection_, CopyFrom(from, at, staging_->handle(), number % 2 * kPieceBytes, copy.bytes));
  }
  for (uint64_t last = number; last < number + 2; ++last) {
    if (copies[last % 2].under_way()) KILN_RETURN_IF_ERROR(finish(last));
  }
  return absl::OkStatus();
}

}  // namespace kiln::client
