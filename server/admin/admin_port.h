// The port for who operates the server: a few pages over HTTP, and nothing that changes anything.
//
// It asks nobody who they are, so it has an address of its own (--admin_listen). All that a client
// can take of it is bounded: kThreads threads answer, each is with one client for kSeconds at most
// per request read or answer written, a request has kRequestBytes at most, and no connection stays.
// Tested by admin_test.
#ifndef KILN_SERVER_ADMIN_ADMIN_PORT_H_
#define KILN_SERVER_ADMIN_ADMIN_PORT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln::server {

struct AdminAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

struct AdminPage {
  std::string path;  // "/metrics"
  // Called on the port's threads, also on several at once.
  std::function<AdminAnswer()> answer;
};

class AdminPort {
 public:
  // Serves the pages at "host:port" of IPv4; 404 for all else, 405 for what is not GET or HEAD. UNAVAILABLE if the
  // address cannot be had.
  static absl::StatusOr<std::unique_ptr<AdminPort>> Open(const std::string& listen, std::vector<AdminPage> pages);
  // Waits for answers under way.
  ~AdminPort();

  int port() const { return port_; }

 private:
  class Http;
  AdminPort();

  std::unique_ptr<Http> http_;
  int port_ = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_ADMIN_PORT_H_
