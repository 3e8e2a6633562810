// Tells the service manager that started the server how it is: systemd with Type=notify, or what speaks its protocol
// (sd_notify(3)): datagrams of lines to the Unix socket that NOTIFY_SOCKET names.
#ifndef KILN_SERVER_SERVICE_MANAGER_H_
#define KILN_SERVER_SERVICE_MANAGER_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kiln::server {

// For the main thread.
class ServiceManager {
 public:
  // `environment` is getenv. What is not there, or cannot be reached, is told nothing.
  explicit ServiceManager(const std::function<const char*(const char*)>& environment);
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  // It serves; `status` is for people (systemctl status).
  void Ready(absl::string_view status);
  // It reads its files again; Ready says when that is done.
  void Reloading();
  // It ends, for `patience` at the longest.
  void Stopping(absl::string_view status, absl::Duration patience);
  // It is alive.
  void Alive();

  // The manager ends a server that is not said to be alive for twice this long; infinite if it does not look.
  absl::Duration period() const { return period_; }

 private:
  void Tell(const std::string& lines) const;

  std::string address_;  // as sockaddr_un has it: what begins with a 0 is in no file system
  int socket_ = -1;
  absl::Duration period_ = absl::InfiniteDuration();
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICE_MANAGER_H_
