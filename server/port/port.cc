#include "server/port/port.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace kiln::server {
namespace {

// Of the process itself: devices, files, threads of gRPC, the log.
constexpr rlim_t kOwnDescriptors = 192;
// More are of no use, and a larger table costs memory.
constexpr rlim_t kMaxDescriptors = 1 << 20;
// When nothing can be accepted at all, and so what waits goes on waiting.
constexpr int kPauseMillis = 50;

// How often a connection is asked whether all that was sent has arrived.
constexpr int kLookMillis = 1;

// Whether the other side's machine has all that was sent, or never will. Of a Unix socket it has at once.
bool HasArrived(int connection) {
  int domain = 0, waiting = 0;
  socklen_t size = sizeof(domain);
  if (getsockopt(connection, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain == AF_UNIX) return true;
  pollfd look = {connection, 0, 0};
  if (poll(&look, 1, 0) > 0 && (look.revents & (POLLERR | POLLHUP)) != 0) return true;
  return ioctl(connection, SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

int OpenReserve() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

size_t MaxConnections() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024 - kOwnDescriptors;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMaxDescriptors));
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t all = std::min(limit.rlim_cur, kMaxDescriptors);
  // Where there are few, half is the process's own.
  return static_cast<size_t>(all - std::min(kOwnDescriptors, all / 2));
}

absl::StatusOr<std::unique_ptr<Port>> Port::Open(const std::string& listen, Connections::Limits limits,
                                                 std::shared_ptr<spdlog::logger> log, const SocketAccess& access) {
  auto sockets = ListeningSockets::Open(listen, access);
  if (!sockets.ok()) return std::move(sockets).status();
  return std::unique_ptr<Port>(new Port(*std::move(sockets), limits, std::move(log)));
}

Port::Port(ListeningSockets sockets, Connections::Limits limits, std::shared_ptr<spdlog::logger> log)
    : sockets_(std::make_unique<ListeningSockets>(std::move(sockets))),
      log_(std::move(log)),
      connections_(limits),
      reserve_(OpenReserve()),
      stop_(eventfd(0, EFD_CLOEXEC)) {}

Port::~Port() {
  Stop();
  close(reserve_);
  close(stop_);
}

void Port::Start(HandOver hand_over) {
  hand_over_ = std::move(hand_over);
  thread_ = std::thread([this] { AcceptUntilStopped(); });
}

void Port::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    static_cast<void>(write(stop_, &one, sizeof(one)) == sizeof(one));
    thread_.join();
  }
  hand_over_ = nullptr;
  sockets_.reset();
}

bool Port::Accepts(absl::Duration patience) {
  const absl::Time end = SteadyNow() + patience;
  const std::vector<int>& listeners = sockets_->descriptors();
  return std::all_of(listeners.begin(), listeners.end(), [&](int listener) { return AcceptsAt(listener, end); });
}

// Whoever accepts closes it at once. So does a port that is full, or without descriptors: it lives.
bool Port::AcceptsAt(int listener, absl::Time end) {
  std::string name;
  const int probe = MakeProbe(listener, name);
  if (probe < 0) return true;
  {
    absl::MutexLock lock(&probes_mutex_);
    probes_.insert(name);
  }
  const int fault = ConnectProbe(probe, listener);
  // The queue of those that wait is full: nobody accepts, or not soon enough.
  bool taken = fault != 0 && fault != EINPROGRESS && fault != ECONNREFUSED && fault != EAGAIN;
  while (!taken && (fault == 0 || fault == EINPROGRESS)) {
    const absl::Duration left = std::min(end - SteadyNow(), absl::Hours(1));
    if (left <= absl::ZeroDuration()) break;
    pollfd wait = {probe, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))))) <= 0)
      continue;
    char byte;
    // The end, or that it was cut off after it was accepted; a connection that was refused is neither.
    const ssize_t got = recv(probe, &byte, 1, 0);
    taken = got >= 0 || errno == ECONNRESET;
    if (!taken && errno != EAGAIN && errno != EINTR) break;
  }
  close(probe);
  absl::MutexLock lock(&probes_mutex_);
  probes_.erase(name);
  return taken;
}

bool Port::IsProbe(int connection) {
  absl::MutexLock lock(&probes_mutex_);
  return !probes_.empty() && probes_.contains(PeerName(connection));
}

bool Port::HangUp(absl::Duration patience) {
  std::vector<int> connections = connections_.EndSending();
  const absl::Time end = SteadyNow() + patience;
  bool arrived = false;
  while (!arrived) {
    const auto has_arrived = [](int connection) {
      if (!HasArrived(connection)) return false;
      close(connection);
      return true;
    };
    connections.erase(std::remove_if(connections.begin(), connections.end(), has_arrived), connections.end());
    arrived = connections.empty();
    if (arrived || SteadyNow() >= end) break;
    poll(nullptr, 0, kLookMillis);
  }
  for (const int connection : connections) close(connection);
  return arrived;
}

void Port::AcceptUntilStopped() {
  std::vector<pollfd> waited = {{stop_, POLLIN, 0}};
  for (const int descriptor : sockets_->descriptors()) waited.push_back({descriptor, POLLIN, 0});
  for (;;) {
    if (poll(waited.data(), waited.size(), -1) < 0) continue;  // a signal
    if (waited[0].revents != 0) return;
    for (size_t i = 1; i < waited.size(); ++i) {
      if (waited[i].revents != 0) AcceptAll(waited[i].fd);
    }
  }
}

void Port::AcceptAll(int listener) {
  for (;;) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) RefuseOne(listener);
      // Else none waits any more, or the one that did has gone.
      if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO) continue;
      return;
    }
    if (IsProbe(connection)) {
      close(connection);
      continue;
    }
    const std::string address = PeerAddress(connection);
    switch (connections_.Admit(connection, address)) {
      case Connections::Verdict::kAdmitted: hand_over_(listener, connection); break;
      case Connections::Verdict::kTooMany:
        close(connection);
        Refused("too many connections", address);
        break;
      case Connections::Verdict::kTooManyOfAddress:
        close(connection);
        Refused("too many connections of one address", address);
        break;
    }
  }
}

void Port::RefuseOne(int listener) {
  close(reserve_);
  const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection >= 0) {
    Refused("no descriptor left", PeerAddress(connection));
    close(connection);
  } else {
    poll(nullptr, 0, kPauseMillis);
  }
  reserve_ = OpenReserve();
  errno = 0;
}

// The first of them, and then ever fewer, so that nobody fills the log.
void Port::Refused(const char* why, const std::string& address) {
  ++refused_;
  if ((refused_ & (refused_ - 1)) != 0) return;
  log_->warn("event=connection_refused reason=\"{}\" address={} refused={} open={}", why, address, refused_,
             connections_.size());
}

}  // namespace kiln::server
