#include "server/port/local_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

#include "absl/strings/strip.h"

namespace kiln::server {

bool IsLoopbackAddress(absl::string_view address) {
  const std::string text(address);
  in_addr four = {};
  in6_addr six = {};
  if (inet_pton(AF_INET6, text.c_str(), &six) == 1) {
    if (IN6_IS_ADDR_LOOPBACK(&six)) return true;
    if (!IN6_IS_ADDR_V4MAPPED(&six)) return false;
    std::memcpy(&four, six.s6_addr + 12, sizeof(four));
  } else if (inet_pton(AF_INET, text.c_str(), &four) != 1) {
    return false;
  }
  return ntohl(four.s_addr) >> 24 == 127;
}

bool IsLoopbackPeer(absl::string_view peer) {
  const bool is_six = absl::ConsumePrefix(&peer, "ipv6:");
  if (!is_six && !absl::ConsumePrefix(&peer, "ipv4:")) return false;
  const size_t colon = peer.rfind(':');
  if (colon == absl::string_view::npos) return false;
  peer = peer.substr(0, colon);
  if (is_six && !(absl::ConsumePrefix(&peer, "[") && absl::ConsumeSuffix(&peer, "]")) &&
      !(absl::ConsumePrefix(&peer, "%5B") && absl::ConsumeSuffix(&peer, "%5D")))
    return false;
  return IsLoopbackAddress(peer);
}

}  // namespace kiln::server
