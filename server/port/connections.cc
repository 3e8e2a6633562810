#include "server/port/connections.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kiln::server {
namespace {

// 0 if the descriptor is closed.
ino_t SocketOf(int descriptor) {
  struct stat info = {};
  return fstat(descriptor, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

}  // namespace

Connections::Verdict Connections::Admit(int descriptor, const std::string& address) {
  // Its number was another's, who is gone.
  if (const auto before = open_.find(descriptor); before != open_.end()) Forget(before);
  const auto verdict = [&] {
    if (open_.size() >= limits_.all) return Verdict::kTooMany;
    return Of(address) >= limits_.of_address ? Verdict::kTooManyOfAddress : Verdict::kAdmitted;
  };
  if (verdict() != Verdict::kAdmitted) ForgetClosed();
  const Verdict found = verdict();
  if (found != Verdict::kAdmitted) return found;
  open_.emplace(descriptor, Open{SocketOf(descriptor), address});
  ++of_address_[address];
  return found;
}

std::vector<int> Connections::EndSending() const {
  std::vector<int> ended;
  for (const auto& [descriptor, open] : open_) {
    // First a descriptor of our own: theirs may be closed, and its number another's, at any time.
    const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (own < 0) continue;
    if (SocketOf(own) != open.socket) {
      close(own);
      continue;
    }
    shutdown(own, SHUT_WR);
    ended.push_back(own);
  }
  return ended;
}

void Connections::Forget(Table::iterator connection) {
  const auto of_address = of_address_.find(connection->second.address);
  if (--of_address->second == 0) of_address_.erase(of_address);
  open_.erase(connection);
}

void Connections::ForgetClosed() {
  for (auto each = open_.begin(); each != open_.end();) {
    const auto here = each++;
    if (SocketOf(here->first) != here->second.socket) Forget(here);
  }
}

size_t Connections::Of(const std::string& address) const {
  const auto found = of_address_.find(address);
  return found == of_address_.end() ? 0 : found->second;
}

}  // namespace kiln::server
