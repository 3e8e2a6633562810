#include "server/admin/admin_port.h"

#include <CivetServer.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace kiln::server {
namespace {

constexpr int kThreads = 4;
constexpr int kSeconds = 2;
constexpr int kRequestBytes = 8192;

constexpr char kPlain[] = "text/plain; charset=utf-8";

// Pages load their own files and ask this port, nothing else; no text becomes a script; nobody frames them, and other
// sites' pages get nothing.
constexpr char kRules[] =
    "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin"
    "\r\nCross-Origin-Opener-Policy: same-origin\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
    "'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'\r\nConnection: close\r\n\r\n";

const char* ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 421: return "Misdirected Request";
    case 429: return "Too Many Requests";
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

std::string Header(mg_connection* connection, const char* name) {
  const char* const value = mg_get_header(connection, name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool IsOurHost(absl::string_view host, const std::vector<std::string>& names) {
  if (absl::ConsumePrefix(&host, "[")) {
    const size_t end = host.find(']');
    in6_addr address;
    return end != absl::string_view::npos &&
           inet_pton(AF_INET6, std::string(host.substr(0, end)).c_str(), &address) == 1;
  }
  const std::string name(host.substr(0, host.find(':')));
  in_addr address;
  return inet_pton(AF_INET, name.c_str(), &address) == 1 || absl::EqualsIgnoreCase(name, "localhost") ||
         std::any_of(names.begin(), names.end(),
                     [&name](const std::string& each) { return absl::EqualsIgnoreCase(each, name); });
}

std::string AdminRequest::Get(absl::string_view name) const {
  std::string value(query.size() + 1, '\0');
  const int length = mg_get_var(query.data(), query.size(), std::string(name).c_str(), value.data(), value.size());
  value.resize(length < 0 ? 0 : static_cast<size_t>(length));
  return value;
}

// All of civetweb's methods of a request come here, whatever its path.
class AdminPort::Http final : public CivetHandler {
 public:
  Http(const std::string& listen, std::vector<AdminPage> pages, std::vector<std::string> names)
      : pages_(std::move(pages)),
        names_(std::move(names)),
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
    // A browser always says which name it was given; what says none is no browser.
    if (const std::string host = Header(connection, "Host"); !host.empty() && !IsOurHost(host, names_))
      return {421, kPlain, "Ask by an address, by localhost, or by a name of --admin_names.\n"};
    const mg_request_info* const info = mg_get_request_info(connection);
    for (const AdminPage& page : pages_) {
      if (info->local_uri == nullptr || page.path != info->local_uri) continue;
      AdminAnswer answer = page.answer({info->query_string == nullptr ? "" : info->query_string});
      if (!answer.tag.empty() && Header(connection, "If-None-Match") == answer.tag) {
        answer.status = 304;
        answer.body.clear();
      }
      return answer;
    }
    return {404, kPlain, "There is no such page; / lists those that there are.\n"};
  }

  bool Refuse(mg_connection* connection) const {
    return Send(connection, {405, kPlain, "Pages here are read: GET or HEAD.\n"}, /*body=*/true);
  }

  static bool Send(mg_connection* connection, const AdminAnswer& answer, bool body) {
    const std::string keep = answer.tag.empty() ? "\r\nCache-Control: no-store"
                                                : absl::StrCat("\r\nCache-Control: no-cache\r\nETag: ", answer.tag);
    const std::string head = absl::StrCat("HTTP/1.1 ", answer.status, " ", ReasonOf(answer.status),
                                          "\r\nContent-Type: ", answer.type, "\r\nContent-Length: ", answer.body.size(),
                                          answer.status == 405 ? "\r\nAllow: GET, HEAD" : "", keep, kRules);
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
  const std::vector<std::string> names_;
  const CivetCallbacks callbacks_ = Callbacks();
  CivetServer server_;
};

AdminPort::AdminPort() = default;
AdminPort::~AdminPort() = default;

absl::StatusOr<std::unique_ptr<AdminPort>> AdminPort::Open(const std::string& listen, std::vector<AdminPage> pages,
                                                           std::vector<std::string> names) {
  std::unique_ptr<AdminPort> self(new AdminPort());
  try {
    self->http_ = std::make_unique<Http>(listen, std::move(pages), std::move(names));
  } catch (const std::exception& error) {  // the library's
    return absl::UnavailableError(absl::StrCat("cannot listen on --admin_listen=", listen, ": ", error.what()));
  }
  self->port_ = self->http_->port();
  return self;
}

}  // namespace kiln::server
