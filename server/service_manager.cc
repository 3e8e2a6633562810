#include "server/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <ctime>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln::server {
namespace {

uint64_t MonotonicMicros() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

}  // namespace

ServiceManager::ServiceManager(const std::function<const char*(const char*)>& environment) {
  const char* const address = environment("NOTIFY_SOCKET");
  if (address == nullptr || (address[0] != '/' && address[0] != '@')) return;
  address_ = address;
  if (address_.size() >= sizeof(sockaddr_un::sun_path)) return;
  if (address_[0] == '@') address_[0] = '\0';
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  // A manager that is busy is waited for: what it has not heard would end the server.
  const timeval patience = {5, 0};
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  const char* const micros = environment("WATCHDOG_USEC");
  const char* const process = environment("WATCHDOG_PID");
  uint64_t within = 0;
  if (micros == nullptr || !absl::SimpleAtoi(micros, &within) || within == 0) return;
  if (process != nullptr && process != absl::StrCat(getpid())) return;  // it looks at another
  period_ = absl::Microseconds(within) / 2;
}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) close(socket_);
}

void ServiceManager::Ready(absl::string_view status) { Tell(absl::StrCat("READY=1\nSTATUS=", status)); }

void ServiceManager::Reloading() { Tell(absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", MonotonicMicros())); }

void ServiceManager::Stopping(absl::string_view status, absl::Duration patience) {
  Tell(absl::StrCat("STOPPING=1\nSTATUS=", status, "\nEXTEND_TIMEOUT_USEC=", absl::ToInt64Microseconds(patience)));
}

void ServiceManager::Alive() { Tell("WATCHDOG=1"); }

void ServiceManager::Tell(const std::string& lines) const {
  if (socket_ < 0) return;
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  static_cast<void>(
      sendto(socket_, lines.data(), lines.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), size));
}

}  // namespace kiln::server
