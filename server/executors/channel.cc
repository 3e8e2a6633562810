#include "server/executors/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace kiln::server {
namespace {

constexpr uint64_t kHeader = sizeof(uint64_t);
constexpr uint64_t kMaxAtOnce = 256 << 10;
constexpr int kSendMs = 10'000;

bool Ready(int socket, short what, absl::Duration timeout) {
  pollfd wanted = {socket, what, 0};
  timespec left = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  int ready;
  do {
    ready = ppoll(&wanted, 1, timeout == absl::InfiniteDuration() ? nullptr : &left, nullptr);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

bool Channel::Send(absl::string_view message) {
  const uint64_t length = message.size();
  std::string bytes(reinterpret_cast<const char*>(&length), kHeader);
  bytes.append(message.data(), message.size());
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = send(socket_.get(), &bytes[at], bytes.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      at += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      if (!Ready(socket_.get(), POLLOUT, absl::Milliseconds(kSendMs))) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

Channel::Came Channel::Receive(absl::Duration timeout, std::string& message) {
  const absl::Time end = SteadyNow() + timeout;
  for (;;) {
    uint64_t wanted = kHeader;
    if (buffer_.size() >= kHeader) {
      uint64_t length;
      std::memcpy(&length, buffer_.data(), kHeader);
      if (length > max_bytes_) return Came::kGone;
      wanted += length;
      if (buffer_.size() == wanted) {
        message = buffer_.substr(kHeader);
        buffer_.clear();
        return Came::kMessage;
      }
    }
    const size_t had = buffer_.size(), more = std::min(wanted - had, kMaxAtOnce);
    buffer_.resize(had + more);
    const ssize_t got = recv(socket_.get(), &buffer_[had], more, MSG_DONTWAIT);
    const int error = errno;
    buffer_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) continue;
    if (got == 0 || (error != EAGAIN && error != EINTR)) return Came::kGone;
    if (error == EAGAIN && !Ready(socket_.get(), POLLIN, end - SteadyNow())) return Came::kNothing;
  }
}

bool Channel::HungUp() const {
  char byte;
  const ssize_t got = recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

std::pair<Descriptor, Descriptor> SocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace kiln::server
