#include "server/logs/audit_log.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/logs/json_line.h"

namespace kiln::server {
namespace {

constexpr absl::Duration kBetween = absl::Seconds(1);

std::string CodeName(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = DetailOf(status);
  return detail.has_value() ? v1::ErrorCode_Name(detail->code()) : absl::StatusCodeToString(status.code());
}

std::string LimitOf(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = DetailOf(status);
  return detail.has_value() ? detail->limit() : "";
}

}  // namespace

absl::string_view HostOf(absl::string_view peer) {
  const size_t colon = peer.rfind(':');
  return colon == absl::string_view::npos || peer.substr(0, 5) == "unix:" ? peer : peer.substr(0, colon);
}

void AuditLog::Known(absl::string_view tenant, absl::string_view peer, absl::Time now) {
  {
    absl::MutexLock lock(&mutex_);
    if (known_.size() >= kRemembered) known_.clear();
    if (!known_.insert(absl::StrCat(tenant, " ", HostOf(peer))).second) return;
  }
  log_->Offer(JsonLine(now).Add("event", "known").Add("tenant", tenant).Add("peer", peer).Take());
}

void AuditLog::Refused(absl::string_view tenant, absl::string_view peer, absl::string_view method,
                       const absl::Status& why, absl::Time now) {
  const std::string code = CodeName(why), limit = LimitOf(why);
  uint64_t since = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (refused_.size() >= kRemembered) refused_.clear();
    // Who is nobody's has no name but an address, of which one machine may have many: they are one.
    Told& told = refused_[absl::StrCat(tenant, " ", code, " ", limit)];
    // A clock that was set back tells more, not less.
    if (told.at <= now && now < told.at + kBetween) {
      ++told.since;
      return;
    }
    since = std::exchange(told.since, 0);
    told.at = now;
  }
  JsonLine line(now);
  line.Add("event", "refused").AddIfAny("tenant", tenant).Add("peer", peer).Add("method", method).Add("code", code);
  line.AddIfAny("limit", limit).Add("reason", why.message());
  if (since > 0) line.Add("more_since_last", since);
  log_->Offer(line.Take());
}

void AuditLog::Called(absl::string_view tenant, absl::string_view peer, absl::string_view method,
                      absl::string_view status, absl::Time now) {
  JsonLine line(now);
  line.Add("event", "called").AddIfAny("tenant", tenant).Add("peer", peer).Add("method", method).Add("status", status);
  log_->Offer(line.Take());
}

void AuditLog::TenantsRead(const absl::Status& status, absl::Time now) {
  JsonLine line(now);
  line.Add("event", "tenants_read").Add("status", status.ok() ? "OK" : CodeName(status));
  if (!status.ok()) line.Add("reason", status.message());
  log_->Offer(line.Take());
}

}  // namespace kiln::server
