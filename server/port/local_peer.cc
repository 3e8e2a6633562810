#include "server/port/local_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>

#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/blake3.h"
#include "base/check.h"

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

HttpPeers::HttpPeers() {
  std::string bytes(32, '\0');
  KILN_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  secret_ = absl::BytesToHexString(bytes);
}

std::string HttpPeers::Saying(absl::string_view address) const { return absl::StrCat(secret_, " ", address); }

std::optional<std::string> HttpPeers::AddressOf(absl::string_view value) const {
  // How far a guess is right does not show in how long it takes: what is compared are hashes.
  if (value.size() <= secret_.size() || Blake3Of(value.substr(0, secret_.size())) != Blake3Of(secret_))
    return std::nullopt;
  value.remove_prefix(secret_.size());
  return absl::ConsumePrefix(&value, " ") ? std::make_optional<std::string>(value) : std::nullopt;
}

}  // namespace kiln::server
