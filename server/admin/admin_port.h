// The port for who operates the server: pages over HTTP that are read, and nothing that changes anything.
//
// It asks nobody who they are, so it has an address of its own (--admin_listen). All that a client
// can take of it is bounded: kThreads threads answer, each is with one client for kSeconds at most
// per request read or answer written, a request has kRequestBytes at most, and no connection stays.
//
// A page of a stranger, open in the browser of somebody who can reach the port, reads nothing here:
// requests have to name the port by an address, by localhost, or by a name that it was given, so no
// name of the stranger's leads here (DNS rebinding); and no answer may be used by another site's pages.
// Tested by admin_test.
#ifndef KILN_SERVER_ADMIN_ADMIN_PORT_H_
#define KILN_SERVER_ADMIN_ADMIN_PORT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

struct AdminRequest {
  std::string query;  // what follows '?', as it came

  // The value of that name, decoded; empty if there is none.
  std::string Get(absl::string_view name) const;
};

struct AdminAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  // Of what changes with the program alone, which browsers may keep and ask after: its tag. Empty: nobody keeps it.
  std::string tag;
};

struct AdminPage {
  std::string path;  // "/metrics"
  // Called on the port's threads, also on several at once.
  std::function<AdminAnswer(const AdminRequest&)> answer;
};

class AdminPort {
 public:
  // Serves the pages at "host:port" of IPv4; 404 for all else, 405 for what is not GET or HEAD, 421 for a request by a
  // name that is none of `names` (without ports). UNAVAILABLE if the address cannot be had.
  static absl::StatusOr<std::unique_ptr<AdminPort>> Open(const std::string& listen, std::vector<AdminPage> pages,
                                                         std::vector<std::string> names = {});
  // Waits for answers under way.
  ~AdminPort();

  int port() const { return port_; }

 private:
  class Http;
  AdminPort();

  std::unique_ptr<Http> http_;
  int port_ = 0;
};

// Whether a request's header Host is of an address, of localhost, or of one of `names`.
bool IsOurHost(absl::string_view host, const std::vector<std::string>& names);

}  // namespace kiln::server

#endif  // KILN_SERVER_ADMIN_ADMIN_PORT_H_
