// A port for HTTP/1.1: connections are accepted and counted as those of gRPC's port are (server/port/port.h), and read
// and answered by a few threads, however many there are (server/http/connection.h).
#ifndef KILN_SERVER_HTTP_HTTP_PORT_H_
#define KILN_SERVER_HTTP_HTTP_PORT_H_

#include <spdlog/fwd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http/message.h"
#include "server/port/connections.h"

namespace kiln::server {

struct HttpPortOptions {
  std::string listen;  // "host:port"
  Connections::Limits connections;
  uint64_t max_body_bytes = uint64_t{64} << 20;
  // Bodies that have come and answers that have not been taken, of all connections.
  uint64_t max_bytes = uint64_t{1} << 30;
};

// Safe from any thread.
class HttpPort {
 public:
  // Serves from now on. UNAVAILABLE if the address cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpPort>> Open(const HttpPortOptions& options,
                                                        std::unique_ptr<HttpService> service,
                                                        std::shared_ptr<spdlog::logger> log);
  // Close() without patience.
  ~HttpPort();

  int port() const;
  // Bytes that count against `max_bytes` now.
  uint64_t bytes() const;

  // Accepts no more, ends what is idle, and the others when they are answered; after `patience` those that are left,
  // whose calls are cancelled. Returns when the service has answered all.
  void Close(absl::Duration patience);

 private:
  struct Parts;
  HttpPort();

  std::unique_ptr<Parts> parts_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_HTTP_PORT_H_
