// Which token stands for which session, and until when.
//
// A session lives while its client renews its lease. When the lease runs out, or
// the client closes it, its handles are freed as if the client had done so: memory
// that a transfer or a running program still uses goes back with that.
#ifndef KILN_SERVER_ENGINE_SESSIONS_SESSION_TABLE_H_
#define KILN_SERVER_ENGINE_SESSIONS_SESSION_TABLE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "server/engine/memory/buffer_table.h"
#include "server/engine/memory/random_handles.h"
#include "server/engine/memory/session.h"
#include "server/engine/memory/tenant_devices.h"

namespace kiln::server {

// A lease is counted on a clock that is never set.
using LeaseClock = std::chrono::steady_clock;

struct SessionOptions {
  // Of a client that does not say.
  uint32_t default_lease_seconds = 10;
  // A client that asks for more gets this.
  uint32_t longest_lease_seconds = 3600;
  size_t max_sessions = 1 << 16;
  // Of one client's machine, so that none can take them all.
  size_t max_sessions_of_peer = 1 << 10;
  // Of which tenants' domains are made (trust_domain.h).
  std::string domain_secret;
  std::function<LeaseClock::time_point()> now = LeaseClock::now;
};

// Names a session to people, and is no token; empty without one.
std::string SessionId(absl::string_view token);

// Safe from any thread.
class SessionTable {
 public:
  // `buffers` outlives this, and so do `accounts` and `rules` of tenants, which may be null.
  SessionTable(SessionOptions options, BufferTable* buffers, Accounts* accounts = nullptr,
               TenantsRules* rules = nullptr);

  struct Opened {
    std::string token;  // 16 bytes that cannot be guessed, and the server's address
    uint32_t lease_seconds = 0;
    bool resumed = false;
  };
  // In all of these, `tenant` is who asks, or nothing where the server does not know; a token
  // of another's session is one of none.

  // Takes the session of `resume_token` up again if it lives, with the lease asked
  // for; else begins one for the client at `peer`, an address with or without a
  // port. 0 seconds: the default. OUT_OF_MEMORY with the limit "sessions" or
  // "sessions of one address"; QUOTA_EXCEEDED; WRONG_SERVER.
  absl::StatusOr<Opened> Open(absl::string_view resume_token, uint32_t lease_seconds, absl::string_view peer = "",
                              absl::string_view tenant = "");

  // These know no session whose lease has run out: UnknownSession(), or SessionOf() its server.
  // The lease begins again; its seconds.
  absl::StatusOr<uint32_t> Renew(absl::string_view token, absl::string_view tenant = "");
  absl::Status Close(absl::string_view token, absl::string_view tenant = "");
  // One by what people know it by (SessionId), whosever it is: for who operates the server.
  absl::Status CloseById(absl::string_view id);
  absl::StatusOr<SessionPtr> Find(absl::string_view token, absl::string_view tenant = "") const;

  // A connection that keeps the session: until Detach, its lease does not run out, and
  // then it begins again. SESSION_EXPIRED for a token of none.
  absl::StatusOr<SessionPtr> Attach(absl::string_view token, absl::string_view tenant = "");
  void Detach(absl::string_view token, Session& session);

  // The owner of what a tenant's calls make without a session; it ends with this table.
  SessionPtr HomeOf(const std::string& tenant);
  // A session in no table, of a stream without a token.
  SessionPtr Apart(absl::string_view tenant);
  // Whose programs are the tenant's: another domain for each who has had the name while this server ran, so that what
  // one left, or still has under way, is nothing to the next.
  TrustDomain DomainOf(absl::string_view tenant) const;
  // Since when the name has been whose it is, as SteadyNow() counts.
  absl::Time Since(absl::string_view tenant) const;

  // These tenants are no more: ends all of their sessions, and those that they have without one. Whoever has such a
  // name later is somebody else.
  void Forget(const std::set<std::string, std::less<>>& tenants);
  // Null for who is no tenant.
  Account* AccountOf(absl::string_view tenant) const {
    return tenant.empty() || accounts_ == nullptr ? nullptr : accounts_->Of(tenant);
  }

  // By which this server and no other is reached, which tokens then name (server_address.h). Before anybody else calls;
  // else they name none.
  void SetAddress(std::string address) { address_ = std::move(address); }
  const std::string& address() const { return address_; }

  // Without a lock: whoever only counts holds nobody up.
  size_t size() const { return size_.load(std::memory_order_relaxed); }

  // For people: calls `seen` with those of `tenant`, or of all: sessions that live, then what tenants' calls have
  // without one, then those Apart. It must not call the table. The table's lock is held for a few hundred of them at a
  // time, so one that changes meanwhile may be seen twice, or not.
  struct Listed {
    absl::string_view token;  // empty: none
    const SessionPtr& session;
    absl::string_view host;
    LeaseClock::duration left;
  };
  void ForEach(std::optional<absl::string_view> tenant, absl::FunctionRef<void(const Listed&)> seen) const;

  // Ends the sessions whose lease has run out.
  void Expire();

  // Does so as each lease runs out, and sleeps in between for as long as the clock
  // of the options says. Returns after Stop.
  void ExpireUntilStopped();
  void Stop();

  // Ends them all.
  void EndAll();

 private:
  // Tokens by when their leases run out.
  using Ends = std::multimap<LeaseClock::time_point, std::string>;
  struct Lease {
    SessionPtr session;
    LeaseClock::duration length;
    Ends::iterator end;
    std::string host;
    Charge charge;
  };
  using Leases = absl::flat_hash_map<std::string, Lease>;
  // Null if the tenant has none that lives.
  const Lease* Live(absl::string_view token, absl::string_view tenant) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Why there is none: `here`, unless its token names another server.
  absl::Status None(absl::string_view token, absl::Status here) const;
  // Begins the lease of a token, anew if it had an end.
  void Begin(const std::string& token, Lease& lease, bool anew) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the lease; its session is for the caller to free.
  SessionPtr Drop(Leases::iterator lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SessionPtr Make(absl::string_view tenant) const;
  const SessionOptions options_;
  BufferTable* const buffers_;
  Accounts* const accounts_;
  TenantsRules* const rules_;
  RandomHandles names_;
  std::string address_;
  std::atomic<size_t> size_{0};  // of leases_

  mutable absl::Mutex mutex_;
  Leases leases_ ABSL_GUARDED_BY(mutex_);
  Ends ends_ ABSL_GUARDED_BY(mutex_);
  // How many sessions each host has; none has 0.
  absl::flat_hash_map<std::string, size_t> hosts_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, SessionPtr> homes_ ABSL_GUARDED_BY(mutex_);
  // Those that may be there still. When there are so many, those that are gone are forgotten.
  std::vector<std::weak_ptr<Session>> apart_ ABSL_GUARDED_BY(mutex_);
  size_t tidy_at_ ABSL_GUARDED_BY(mutex_) = 64;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // Of names that have been somebody else's: how often, and until when.
  struct Past {
    uint64_t tenants = 0;
    absl::Time until;
  };
  const uint64_t process_ = RandomHandles().Next();
  mutable absl::Mutex past_mutex_;  // taken last
  absl::flat_hash_map<std::string, Past> past_ ABSL_GUARDED_BY(past_mutex_);
  // The first end changed, or stopped_.
  Bell bell_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_SESSIONS_SESSION_TABLE_H_
