#include "server/identity/refused_tokens.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "base/error.h"

namespace kiln::server {
namespace {

// A sweep over all addresses takes some ten microseconds: too long to do it for each forged token.
constexpr absl::Duration kSweepPeriod = absl::Milliseconds(100);

absl::Status TooMany(double left, double a_second) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NOT_AUTHENTICATED);
  detail.set_retry_after_ms(static_cast<uint32_t>(1 + 1000 * (1 - left) / a_second));
  return MakeError(std::move(detail), "too many tokens were refused lately, so this one was not looked at; try again");
}

// Of a peer as gRPC names it, ipv4:1.2.3.4:5 or ipv6:%5B::1%5D:5. Of IPv6, whose users have 2^64 addresses each, the
// network.
std::string AddressOf(absl::string_view peer) {
  const absl::string_view address = peer.substr(0, peer.rfind(':'));
  constexpr absl::string_view kBegin = "ipv6:%5B", kEnd = "%5D";
  if (!absl::StartsWith(address, kBegin) || !absl::EndsWith(address, kEnd)) return std::string(address);
  const std::string number(address.substr(kBegin.size(), address.size() - kBegin.size() - kEnd.size()));
  in6_addr parsed = {};
  if (inet_pton(AF_INET6, number.substr(0, number.find('%')).c_str(), &parsed) != 1) return std::string(address);
  constexpr size_t kNetworkBytes = 8;
  const size_t bytes = IN6_IS_ADDR_V4MAPPED(&parsed) ? sizeof parsed : kNetworkBytes;
  return std::string(reinterpret_cast<const char*>(&parsed), bytes);
}

}  // namespace

void RefusedTokens::Fill(Budget& budget, double a_second, absl::Time now) {
  if (now <= budget.at) return;
  budget.left = std::min(a_second, budget.left + a_second * absl::ToDoubleSeconds(now - budget.at));
  budget.at = now;
}

RefusedTokens::Budget* RefusedTokens::OfAddress(absl::string_view peer, absl::Time now) {
  if (!absl::StartsWith(peer, "ipv4:") && !absl::StartsWith(peer, "ipv6:")) return nullptr;
  const std::string address = AddressOf(peer);
  auto found = addresses_.find(address);
  if (found == addresses_.end()) {
    // An address of which none was refused for a second needs no row.
    if (addresses_.size() >= kMostAddresses && now - swept_ >= kSweepPeriod) {
      swept_ = now;
      absl::erase_if(addresses_, [&](const auto& row) { return now - row.second.refused >= kRemembered; });
    }
    if (addresses_.size() >= kMostAddresses) return nullptr;  // no room to count it alone: the budget of all counts it
    found = addresses_.emplace(address, Budget{kOfAddress, now, absl::InfinitePast()}).first;
  }
  Fill(found->second, kOfAddress, now);
  return &found->second;
}

absl::Status RefusedTokens::Check(const Sha256& token, absl::string_view peer, absl::Time now) {
  if (const auto found = tokens_.find(token); found != tokens_.end()) {
    if (now < found->second.until) return found->second.why;
    tokens_.erase(found);
  }
  Fill(all_, kOfAll, now);
  const Budget* const own = OfAddress(peer, now);
  if (own != nullptr && own->left < 1) return TooMany(own->left, kOfAddress);
  if (all_.left >= 1) return absl::OkStatus();
  Fill(quiet_, kOfQuiet, now);
  const bool is_quiet = own != nullptr && now - own->refused >= kRemembered;
  if (!is_quiet || quiet_.left < 1) return TooMany(all_.left, kOfAll);
  quiet_.left -= 1;
  return absl::OkStatus();
}

void RefusedTokens::Note(const Sha256& token, absl::string_view peer, absl::Status why, absl::Time now) {
  // Calls that were looked at side by side may take a little more than there was.
  Fill(all_, kOfAll, now);
  all_.left -= 1;
  if (Budget* const own = OfAddress(peer, now); own != nullptr) {
    own->left -= 1;
    own->refused = now;
  }
  // They are forgotten after a second anyway; then some are looked at once more.
  if (tokens_.size() >= kMostTokens) tokens_.clear();
  tokens_.insert_or_assign(token, Refused{std::move(why), now + kRemembered});
}

}  // namespace kiln::server
