#include "server/identity/refused_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "base/error.h"

namespace kiln::server {
namespace {

absl::Status TooMany(double left, double a_second) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NOT_AUTHENTICATED);
  detail.set_retry_after_ms(static_cast<uint32_t>(1 + 1000 * (1 - left) / a_second));
  return MakeError(std::move(detail), "too many tokens were refused lately, so this one was not looked at; try again");
}

}  // namespace

void RefusedTokens::Fill(Budget& budget, double a_second, absl::Time now) {
  if (now <= budget.at) return;
  budget.left = std::min(a_second, budget.left + a_second * absl::ToDoubleSeconds(now - budget.at));
  budget.at = now;
}

RefusedTokens::Budget* RefusedTokens::OfAddress(absl::string_view peer, absl::Time now) {
  if (peer.empty() || absl::StartsWith(peer, "unix")) return nullptr;
  // Without the port. Whoever has so many addresses that all are forgotten has the budget of all.
  const absl::string_view address = peer.substr(0, peer.rfind(':'));
  auto found = addresses_.find(address);
  if (found == addresses_.end()) {
    if (addresses_.size() >= kMostAddresses) addresses_.clear();
    found = addresses_.emplace(address, Budget{kOfAddress, now}).first;
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
  if (const Budget* own = OfAddress(peer, now); own != nullptr && own->left < 1) return TooMany(own->left, kOfAddress);
  return all_.left < 1 ? TooMany(all_.left, kOfAll) : absl::OkStatus();
}

void RefusedTokens::Note(const Sha256& token, absl::string_view peer, absl::Status why, absl::Time now) {
  // Calls that were looked at side by side may take a little more than there was.
  Fill(all_, kOfAll, now);
  all_.left -= 1;
  if (Budget* const own = OfAddress(peer, now); own != nullptr) own->left -= 1;
  if (tokens_.size() >= kMostTokens) tokens_.clear();
  tokens_.insert_or_assign(token, Refused{std::move(why), now + kRemembered});
}

}  // namespace kiln::server
