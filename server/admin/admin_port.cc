#include "server/admin/admin_port.h"

#include <CivetServer.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln::server {
namespace {

constexpr int kThreads = 4;
constexpr int kSeconds = 2;
constexpr int kRequestBytes = 8192;

const char* ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 503: return "Service Unavailable";
    default: return "";
  }
}

// civetweb's listening thread looks every two seconds whether it is to stop, or when somebody comes.
void WakeListener(int port) {
  const int self = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Of another address than loopback it stops in its own time.
  static_cast<void>(connect(self, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
  close(self);
}

// civetweb would write to the error output what it thinks of its clients.
int Silence(const mg_connection*, const char*) { return 1; }

}  // namespace

// All of civetweb's methods of a request come here, whatever its path.
class AdminPort::Http final : public CivetHandler {
 public:
  Http(const std::string& listen, std::vector<AdminPage> pages)
      : pages_(std::move(pages)),
        server_(std::vector<std::string>{"listening_ports", listen,                            //
                                         "num_threads", absl::StrCat(kThreads),                //
                                         "request_timeout_ms", absl::StrCat(kSeconds * 1000),  //
                                         "max_request_size", absl::StrCat(kRequestBytes),      //
                                         "enable_keep_alive", "no", "enable_directory_listing", "no"},
                &callbacks_) {
    server_.addHandler("**", this);
  }
  ~Http() override {
    WakeListener(port());
    server_.close();
  }

  int port() {
    const std::vector<int> ports = server_.getListeningPorts();
    return ports.empty() ? 0 : ports.front();
  }

  bool handleGet(CivetServer*, mg_connection* connection) override {
    return Send(connection, Answer(connection), /*body=*/true);
  }
  bool handleHead(CivetServer*, mg_connection* connection) override {
    return Send(connection, Answer(connection), /*body=*/false);
  }
  bool handlePost(CivetServer*, mg_connection* connection) override { return Refuse(connection); }
  bool handlePut(CivetServer*, mg_connection* connection) override { return Refuse(connection); }
  bool handleDelete(CivetServer*, mg_connection* connection) override { return Refuse(connection); }
  bool handleOptions(CivetServer*, mg_connection* connection) override { return Refuse(connection); }
  bool handlePatch(CivetServer*, mg_connection* connection) override { return Refuse(connection); }

 private:
  AdminAnswer Answer(mg_connection* connection) const {
    const char* const path = mg_get_request_info(connection)->local_uri;
    for (const AdminPage& page : pages_) {
      if (path != nullptr && page.path == path) return page.answer();
    }
    return {404, "text/plain; charset=utf-8", "There is no such page; / lists those that there are.\n"};
  }

  bool Refuse(mg_connection* connection) const {
    return Send(connection, {405, "text/plain; charset=utf-8", "Pages here are read: GET or HEAD.\n"}, /*body=*/true);
  }

  static bool Send(mg_connection* connection, const AdminAnswer& answer, bool body) {
    const std::string head =
        absl::StrCat("HTTP/1.1 ", answer.status, " ", ReasonOf(answer.status), "\r\nContent-Type: ", answer.type,
                     "\r\nContent-Length: ", answer.body.size(), answer.status == 405 ? "\r\nAllow: GET, HEAD" : "",
                     "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
                     "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n");
    const std::string whole = absl::StrCat(head, body ? answer.body : "");
    mg_write(connection, whole.data(), whole.size());
    return true;
  }

  static CivetCallbacks Callbacks() {
    CivetCallbacks callbacks;
    callbacks.log_message = Silence;
    return callbacks;
  }

  const std::vector<AdminPage> pages_;
  const CivetCallbacks callbacks_ = Callbacks();
  CivetServer server_;
};

AdminPort::AdminPort() = default;
AdminPort::~AdminPort() = default;

absl::StatusOr<std::unique_ptr<AdminPort>> AdminPort::Open(const std::string& listen, std::vector<AdminPage> pages) {
  std::unique_ptr<AdminPort> self(new AdminPort());
  try {
    self->http_ = std::make_unique<Http>(listen, std::move(pages));
  } catch (const std::exception& error) {  // the library's
    return absl::UnavailableError(absl::StrCat("cannot listen on --admin_listen=", listen, ": ", error.what()));
  }
  self->port_ = self->http_->port();
  return self;
}

}  // namespace kiln::server
