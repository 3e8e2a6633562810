// Whether who calls is on this machine, by the address that its connection has.
#ifndef KILN_SERVER_PORT_LOCAL_PEER_H_
#define KILN_SERVER_PORT_LOCAL_PEER_H_

#include "absl/strings/string_view.h"

namespace kiln::server {

// What gRPC calls the peer of a call that this process makes to itself, as its port for HTTP does.
inline constexpr absl::string_view kInProcessPeer = "inproc";
// The metadata by which that port says for whom it calls: an address. Anybody can send it, but nobody else in this
// process does.
inline constexpr char kHttpPeer[] = "kiln-http-peer";

// Whether an address is loopback's: "127.0.0.1", "::1", "::ffff:127.0.0.1".
bool IsLoopbackAddress(absl::string_view address);
// The same of a peer as gRPC says it: "ipv4:127.0.0.1:4711", "ipv6:[::1]:4711", also with %5B and %5D.
bool IsLoopbackPeer(absl::string_view peer);

}  // namespace kiln::server

#endif  // KILN_SERVER_PORT_LOCAL_PEER_H_
