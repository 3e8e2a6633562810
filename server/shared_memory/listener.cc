#include "server/shared_memory/listener.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/messages/status.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxConnections = 256;
// How soon a full server looks again whether there is room.
constexpr absl::Duration kPause = absl::Milliseconds(100);
constexpr size_t kMaxFiles = 4;  // that one message is looked at for; the system closes more

absl::Status Unavailable(absl::string_view what, absl::string_view path) {
  return absl::UnavailableError(absl::StrCat("shared memory: cannot ", what, " ", path, ": ", std::strerror(errno)));
}

// Removes what a server that is gone has left: a socket at which nobody listens.
void RemoveDeadSocket(const sockaddr_un& address) {
  struct stat file;
  if (lstat(address.sun_path, &file) != 0 || !S_ISSOCK(file.st_mode)) return;
  const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (probe < 0) return;
  if (connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno == ECONNREFUSED) {
    unlink(address.sun_path);
  }
  close(probe);
}

// A message of a client's: its handle, and the files that came along.
struct Message {
  uint64_t handle = 0;
  bool whole = false;  // neither too short nor too long
  std::vector<int> files;

  ~Message() {
    for (const int file : files) close(file);
  }
};

enum class Heard { kNothing, kMessage, kEnd };

Heard Receive(int socket, Message& message) {
  unsigned char bytes[sizeof(uint64_t) + 1];
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFiles * sizeof(int))];
  iovec part{bytes, sizeof(bytes)};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (size <= 0) return size < 0 && (errno == EAGAIN || errno == EINTR) ? Heard::kNothing : Heard::kEnd;
  for (cmsghdr* row = CMSG_FIRSTHDR(&header); row != nullptr; row = CMSG_NXTHDR(&header, row)) {
    if (row->cmsg_level != SOL_SOCKET || row->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (row->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const size_t before = message.files.size();
    message.files.resize(before + count);
    std::memcpy(message.files.data() + before, CMSG_DATA(row), count * sizeof(int));
  }
  message.whole = size == sizeof(uint64_t);
  if (message.whole) {
    for (size_t i = 0; i < sizeof(uint64_t); ++i) message.handle |= uint64_t{bytes[i]} << (8 * i);
  }
  return Heard::kMessage;
}

void Answer(int socket, const absl::Status& status) {
  const std::string text = status.ok() ? std::string(1, '\0') : absl::StrCat("\x01", ToGrpc(status).error_details());
  // A client that does not listen loses its answer, and nobody else anything.
  (void)send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedMemoryListener>> SharedMemoryListener::Open(const std::string& path,
                                                                                 uint64_t max_bytes,
                                                                                 absl::Duration timeout) {
  std::unique_ptr<SharedMemoryListener> listener(new SharedMemoryListener(max_bytes, timeout));
  KILN_RETURN_IF_ERROR(listener->Listen(path));
  listener->thread_ = std::thread([raw = listener.get()] { raw->Serve(); });
  return listener;
}

absl::Status SharedMemoryListener::Listen(const std::string& path) {
  path_ = path;
  if (path.empty()) {
    const char* temporary = std::getenv("TMPDIR");
    std::string folder = absl::StrCat(temporary == nullptr || *temporary == 0 ? "/tmp" : temporary, "/kiln-XXXXXX");
    if (mkdtemp(folder.data()) == nullptr) return Unavailable("make the folder", folder);
    folder_ = folder;
    path_ = absl::StrCat(folder, "/shared_memory");
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return Unavailable("listen at", path_);
  }
  std::memcpy(address.sun_path, path_.data(), path_.size());
  RemoveDeadSocket(address);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  listening_socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bound_ = wake_ >= 0 && listening_socket_ >= 0 &&
           bind(listening_socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (!bound_ || listen(listening_socket_, SOMAXCONN) != 0) return Unavailable("listen at", path_);
  return absl::OkStatus();
}

SharedMemoryListener::~SharedMemoryListener() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    KILN_CHECK(write(wake_, &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }
  for (const Connection& connection : connections_) Close(connection);
  if (listening_socket_ >= 0) close(listening_socket_);
  if (bound_) unlink(path_.c_str());
  if (wake_ >= 0) close(wake_);
  if (!folder_.empty()) rmdir(folder_.c_str());
}

std::vector<pollfd> SharedMemoryListener::Awaited() const {
  std::vector<pollfd> awaited = {{wake_, POLLIN, 0}, {full_ ? -1 : listening_socket_, POLLIN, 0}};
  for (const Connection& connection : connections_) awaited.push_back({connection.socket, POLLIN, 0});
  return awaited;
}

void SharedMemoryListener::Serve() {
  for (;;) {
    absl::Time until = full_ ? SteadyNow() + kPause : absl::InfiniteFuture();
    for (const Connection& connection : connections_) until = std::min(until, connection.until);
    const absl::Duration wait = until - SteadyNow();
    std::vector<pollfd> awaited = Awaited();
    const int millis = until == absl::InfiniteFuture()
                           ? -1
                           : 1 + static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(wait)));
    if (poll(awaited.data(), awaited.size(), millis) < 0) continue;  // a signal
    if (awaited[0].revents != 0) return;
    full_ = false;
    const absl::Time now = SteadyNow();
    std::vector<Connection> kept;
    for (size_t i = 0; i < connections_.size(); ++i) {
      const bool goes_on = awaited[i + 2].revents == 0 ? connections_[i].until > now : Hear(connections_[i]);
      if (goes_on) {
        kept.push_back(connections_[i]);
      } else {
        Close(connections_[i]);
      }
    }
    connections_ = std::move(kept);
    if (awaited[1].revents != 0) Accept();
  }
}

void SharedMemoryListener::Accept() {
  const int socket = connections_.size() < kMaxConnections
                         ? accept4(listening_socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)
                         : -1;
  if (socket >= 0) {
    connections_.push_back({socket, 0, SteadyNow() + regions_.timeout()});
  } else {
    full_ = true;
  }
}

bool SharedMemoryListener::Hear(Connection& connection) {
  Message message;
  const Heard heard = Receive(connection.socket, message);
  if (heard == Heard::kNothing) return true;
  // A connection that has brought its memory has nothing more to say.
  if (heard == Heard::kEnd || connection.handle != 0) return false;
  absl::Status status;
  if (!message.whole || message.files.size() != 1) {
    status = MakeError(v1::MALFORMED_MESSAGE, "a client says the 8 bytes of its handle, with one file");
  } else {
    status = regions_.Bring(message.handle, message.files[0]);
  }
  if (status.ok()) {
    connection.handle = message.handle;
    connection.until = absl::InfiniteFuture();
  }
  Answer(connection.socket, status);
  return status.ok();
}

void SharedMemoryListener::Close(const Connection& connection) {
  if (connection.handle != 0) regions_.Drop(connection.handle);
  close(connection.socket);
}

}  // namespace kiln::server
