#include "server/engine/sessions/session_table.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/blake3.h"
#include "base/error.h"
#include "server/engine/memory/over_limit.h"
#include "server/engine/sessions/server_address.h"

namespace kiln::server {
namespace {

absl::Status TooMany(absl::string_view limit, size_t limit_value) {
  return OverLimit(limit, limit_value, limit_value + 1,
                   absl::StrCat(limit_value, " ", limit, " are open, as many as this server keeps; close one"));
}

// A peer as gRPC writes it, without the port: "ipv4:10.0.0.1:4711".
absl::string_view HostOf(absl::string_view peer) { return peer.substr(0, peer.rfind(':')); }

uint32_t SecondsOf(LeaseClock::duration length) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(length).count());
}

}  // namespace

std::string SessionId(absl::string_view token) {
  return token.empty() ? "" : absl::BytesToHexString(Blake3Of(token).view().substr(0, 4));
}

SessionTable::SessionTable(SessionOptions options, BufferTable* buffers, Accounts* accounts, TenantsRules* rules)
    : options_(std::move(options)), buffers_(buffers), accounts_(accounts), rules_(rules) {}

const SessionTable::Lease* SessionTable::Live(absl::string_view token, absl::string_view tenant) const {
  const auto found = leases_.find(token);
  if (found == leases_.end() || found->second.session->tenant() != tenant) return nullptr;
  const Lease& lease = found->second;
  return lease.end->first <= options_.now() && lease.session->connections.load() == 0 ? nullptr : &lease;
}

absl::Status SessionTable::None(absl::string_view token, absl::Status here) const {
  const absl::string_view server = ServerIn(token);
  return address_.empty() || server.empty() || server == address_ ? here : SessionOf(server);
}

void SessionTable::Begin(const std::string& token, Lease& lease, bool anew) {
  if (anew) ends_.erase(lease.end);
  lease.end = ends_.emplace(options_.now() + lease.length, token);
  if (lease.end == ends_.begin()) bell_.Ring();
}

SessionPtr SessionTable::Drop(Leases::iterator lease) {
  SessionPtr session = std::move(lease->second.session);
  ends_.erase(lease->second.end);
  const auto host = hosts_.find(lease->second.host);
  if (--host->second == 0) hosts_.erase(host);
  leases_.erase(lease);
  size_.store(leases_.size(), std::memory_order_relaxed);
  return session;
}

absl::StatusOr<SessionTable::Opened> SessionTable::Open(absl::string_view resume_token, uint32_t lease_seconds,
                                                        absl::string_view peer, absl::string_view tenant) {
  const uint32_t wanted = lease_seconds == 0 ? options_.default_lease_seconds : lease_seconds;
  Opened opened;
  opened.lease_seconds = std::min(wanted, options_.longest_lease_seconds);
  const uint64_t name[] = {names_.Next(), names_.Next()};
  absl::MutexLock lock(&mutex_);
  opened.resumed = Live(resume_token, tenant) != nullptr;
  const std::string host(HostOf(peer));
  Charge charge;
  if (!opened.resumed) {
    KILN_RETURN_IF_ERROR(None(resume_token, absl::OkStatus()));
    if (leases_.size() >= options_.max_sessions) return TooMany("sessions", options_.max_sessions);
    const auto of_host = hosts_.find(host);
    // Tenants have quotas of sessions; an address may be a proxy's, with many of them behind it.
    if (tenant.empty() && of_host != hosts_.end() && of_host->second >= options_.max_sessions_of_peer) {
      return TooMany("sessions of one address", options_.max_sessions_of_peer);
    }
    KILN_ASSIGN_OR_RETURN(charge, Hold(AccountOf(tenant), Quota::kSessions, 1));
  }
  static_assert(sizeof(name) == kSecretBytes);
  opened.token = opened.resumed
                     ? std::string(resume_token)
                     : absl::StrCat(absl::string_view(reinterpret_cast<const char*>(name), sizeof(name)), address_);
  Lease& lease = leases_[opened.token];
  size_.store(leases_.size(), std::memory_order_relaxed);
  if (!opened.resumed) {
    lease.session = Make(tenant);
    lease.charge = std::move(charge);
    lease.host = host;
    ++hosts_[host];
  }
  lease.length = std::chrono::seconds(opened.lease_seconds);
  Begin(opened.token, lease, opened.resumed);
  return opened;
}

absl::StatusOr<uint32_t> SessionTable::Renew(absl::string_view token, absl::string_view tenant) {
  absl::MutexLock lock(&mutex_);
  if (Live(token, tenant) == nullptr) return None(token, UnknownSession());
  const auto found = leases_.find(token);
  Begin(found->first, found->second, /*anew=*/true);
  return SecondsOf(found->second.length);
}

absl::Status SessionTable::Close(absl::string_view token, absl::string_view tenant) {
  SessionPtr closed;
  {
    absl::MutexLock lock(&mutex_);
    if (Live(token, tenant) == nullptr) return None(token, UnknownSession());
    closed = Drop(leases_.find(token));
  }
  buffers_->End(*closed);
  return absl::OkStatus();
}

absl::Status SessionTable::CloseById(absl::string_view id) {
  SessionPtr closed;
  {
    absl::MutexLock lock(&mutex_);
    const auto found =
        std::find_if(leases_.begin(), leases_.end(), [id](const auto& row) { return SessionId(row.first) == id; });
    if (found == leases_.end()) return UnknownSession();
    closed = Drop(found);
  }
  buffers_->End(*closed);
  return absl::OkStatus();
}

TrustDomain SessionTable::DomainOf(absl::string_view tenant) const {
  uint64_t before = 0;
  {
    absl::ReaderMutexLock lock(&past_mutex_);
    if (const auto past = past_.find(tenant); past != past_.end()) before = past->second.tenants;
  }
  // No tenant's name has a ':'. The second tenant of a name has a domain that another process does not make again:
  // after a restart nobody finds its programs on disk.
  return server::DomainOf(options_.domain_secret,
                          before == 0 ? std::string(tenant) : absl::StrCat(tenant, "::", before, "::", process_));
}

absl::Time SessionTable::Since(absl::string_view tenant) const {
  absl::ReaderMutexLock lock(&past_mutex_);
  const auto past = past_.find(tenant);
  return past == past_.end() ? absl::InfinitePast() : past->second.until;
}

void SessionTable::Forget(const std::set<std::string, std::less<>>& tenants) {
  // First: what is made from here on is somebody else's.
  for (const std::string& name : tenants) {
    absl::MutexLock lock(&past_mutex_);
    Past& past = past_[name];
    ++past.tenants;
    past.until = SteadyNow();
  }
  std::vector<SessionPtr> ended;
  {
    absl::MutexLock lock(&mutex_);
    for (auto next = leases_.begin(); next != leases_.end();) {
      const auto lease = next++;
      if (tenants.contains(lease->second.session->tenant())) ended.push_back(Drop(lease));
    }
    for (const std::string& name : tenants) {
      const auto home = homes_.find(name);
      if (home == homes_.end()) continue;
      ended.push_back(std::move(home->second));
      homes_.erase(home);
    }
    for (const std::weak_ptr<Session>& each : apart_) {
      if (SessionPtr session = each.lock(); session != nullptr && tenants.contains(session->tenant()))
        ended.push_back(std::move(session));
    }
  }
  for (const SessionPtr& session : ended) buffers_->End(*session);
}

absl::StatusOr<SessionPtr> SessionTable::Find(absl::string_view token, absl::string_view tenant) const {
  absl::ReaderMutexLock lock(&mutex_);
  const Lease* lease = Live(token, tenant);
  if (lease == nullptr) return None(token, UnknownSession());
  return lease->session;
}

SessionPtr SessionTable::HomeOf(const std::string& tenant) {
  absl::MutexLock lock(&mutex_);
  SessionPtr& home = homes_[tenant];
  if (home == nullptr) home = Make(tenant);
  return home;
}

SessionPtr SessionTable::Apart(absl::string_view tenant) {
  SessionPtr session = Make(tenant);
  absl::MutexLock lock(&mutex_);
  if (apart_.size() >= tidy_at_) {
    std::erase_if(apart_, [](const std::weak_ptr<Session>& each) { return each.expired(); });
    tidy_at_ = std::max<size_t>(64, 2 * apart_.size());
  }
  apart_.push_back(session);
  return session;
}

void SessionTable::ForEach(std::optional<absl::string_view> tenant, absl::FunctionRef<void(const Listed&)> seen) const {
  constexpr size_t kAtATime = 256;
  const auto is_wanted = [&](const Session& session) { return !tenant.has_value() || session.tenant() == *tenant; };
  const LeaseClock::time_point now = options_.now();
  // By when leases run out, which one that is renewed does later: no more are looked at than twice those there are.
  LeaseClock::time_point from = LeaseClock::time_point::min();
  for (size_t left = 2 * size() + kAtATime, more = 1; more > 0 && left > 0;) {
    more = 0;
    absl::ReaderMutexLock lock(&mutex_);
    for (auto end = ends_.upper_bound(from); end != ends_.end() && more < kAtATime; ++end, ++more) {
      from = end->first;
      const Lease& lease = leases_.find(end->second)->second;
      if (is_wanted(*lease.session)) seen({end->second, lease.session, lease.host, end->first - now});
    }
    left -= std::min(left, more);
  }
  std::vector<SessionPtr> others;
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& [name, home] : homes_) others.push_back(home);
    for (const std::weak_ptr<Session>& each : apart_) others.push_back(each.lock());
  }
  for (const SessionPtr& session : others) {
    if (session != nullptr && is_wanted(*session)) seen({"", session, "", LeaseClock::duration::zero()});
  }
}

SessionPtr SessionTable::Make(absl::string_view tenant) const {
  const TenantRulesCell* rules = tenant.empty() || rules_ == nullptr ? nullptr : rules_->Of(tenant);
  return std::make_shared<Session>(std::string(tenant), DomainOf(tenant), AccountOf(tenant), rules);
}

absl::StatusOr<SessionPtr> SessionTable::Attach(absl::string_view token, absl::string_view tenant) {
  absl::MutexLock lock(&mutex_);
  const Lease* lease = Live(token, tenant);
  if (lease == nullptr) return None(token, ExpiredSession());
  lease->session->connections.fetch_add(1);
  return lease->session;
}

void SessionTable::Detach(absl::string_view token, Session& session) {
  absl::MutexLock lock(&mutex_);
  session.connections.fetch_sub(1);
  const auto found = leases_.find(token);
  if (found != leases_.end() && found->second.session.get() == &session) {
    Begin(found->first, found->second, /*anew=*/true);
  }
}

void SessionTable::Expire() {
  std::vector<SessionPtr> ended;
  {
    absl::MutexLock lock(&mutex_);
    const LeaseClock::time_point now = options_.now();
    while (!ends_.empty() && ends_.begin()->first <= now) {
      const auto lease = leases_.find(ends_.begin()->second);
      if (lease->second.session->connections.load() == 0) {
        ended.push_back(Drop(lease));
      } else {
        Begin(lease->first, lease->second, /*anew=*/true);
      }
    }
  }
  for (const SessionPtr& session : ended) buffers_->End(*session);
}

void SessionTable::EndAll() {
  std::vector<SessionPtr> ended;
  {
    absl::MutexLock lock(&mutex_);
    while (!leases_.empty()) ended.push_back(Drop(leases_.begin()));
    for (auto& [tenant, home] : homes_) ended.push_back(std::move(home));
    homes_.clear();
  }
  for (const SessionPtr& session : ended) buffers_->End(*session);
}

void SessionTable::ExpireUntilStopped() {
  for (;;) {
    absl::Duration left = absl::InfiniteDuration();
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) return;
      if (!ends_.empty()) left = absl::FromChrono(ends_.begin()->first - options_.now());
    }
    if (left > absl::ZeroDuration()) {
      bell_.Wait(left);
    } else {
      Expire();
    }
  }
}

void SessionTable::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  bell_.Ring();
}

}  // namespace kiln::server
