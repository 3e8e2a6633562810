// Whether who calls is on this machine, by the address that its connection has.
#ifndef KILN_SERVER_PORT_LOCAL_PEER_H_
#define KILN_SERVER_PORT_LOCAL_PEER_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln::server {

// Whether an address is loopback's: "127.0.0.1", "::1", "::ffff:127.0.0.1".
bool IsLoopbackAddress(absl::string_view address);
// The same of a peer as gRPC says it: "ipv4:127.0.0.1:4711", "ipv6:[::1]:4711", also with %5B and %5D.
bool IsLoopbackPeer(absl::string_view peer);

// For whom the port for HTTP calls the services of its own process: metadata, by which it says the client's address.
// Anybody can send metadata. So the address stands behind a secret, which no other process has.
class HttpPeers {
 public:
  static constexpr char kMetadata[] = "kiln-http-peer";

  HttpPeers();

  // The metadata's value for a client of this address.
  std::string Saying(absl::string_view address) const;
  // The address that a value says; none if Saying has not made it.
  std::optional<std::string> AddressOf(absl::string_view value) const;

 private:
  std::string secret_;  // as text
};

}  // namespace kiln::server

#endif  // KILN_SERVER_PORT_LOCAL_PEER_H_
