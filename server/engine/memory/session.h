// A session: the owner of handles.
//
// Its buffers' records point to it, and it knows their handles, so that whichever
// ends first tells the other. Its table decides how long it lives
// (session_table.h).
#ifndef KILN_SERVER_ENGINE_MEMORY_SESSION_H_
#define KILN_SERVER_ENGINE_MEMORY_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/account.h"
#include "server/engine/memory/handle_names.h"
#include "server/engine/memory/tenant_rules.h"
#include "server/engine/memory/trust_domain.h"

namespace kiln::server {

// The metadata of a call that is made under a session: its token.
inline constexpr char kSessionHeader[] = "kiln-session-bin";

// UNKNOWN_HANDLE whose detail's `field` is kSessionHeader.
absl::Status UnknownSession();

// SESSION_EXPIRED: what a stream of commands gets instead.
absl::Status ExpiredSession();

// WRONG_SERVER: the session is of the server at that address.
absl::Status SessionOf(absl::string_view server);

// OUT_OF_MEMORY with the limit "handles". `field` says whose: kSessionHeader for a
// session's, none for the server's.
absl::Status TooManyHandles(uint64_t max_handles, absl::string_view field);

// What a session keeps of its stream of commands, so that a client that has lost its
// connection can go on where it was (server/stream/command_stream.h).
class SessionStream {
 public:
  virtual ~SessionStream() = default;
  // Called once, when the session has ended.
  virtual void OnSessionEnd() = 0;

  // For people.
  struct Use {
    bool connected = false;
    uint64_t accepted = 0;
    uint64_t pending = 0;
    uint64_t under_way = 0;
    uint64_t payload_bytes = 0;
    uint64_t answer_bytes = 0;
  };
  virtual Use use() const { return {}; }
};

// Safe from any thread.
class Session {
 public:
  // Of a tenant's; without a name, of a caller that the server does not know. `account` and `rules`, which
  // may be null, outlive all that is made under it.
  explicit Session(std::string tenant = "", TrustDomain domain = {}, Account* account = nullptr,
                   const TenantRulesCell* rules = nullptr)
      : tenant_(std::move(tenant)),
        domain_(domain),
        memory_domain_(NewMemoryDomain(domain)),
        account_(account),
        rules_(rules),
        names_(account),
        owned_(ChargeOf(account, Quota::kHandles)) {}

  const std::string& tenant() const { return tenant_; }
  const TrustDomain& domain() const { return domain_; }
  // All of a tenant's sessions have one; without a tenant each has its own.
  MemoryDomain memory_domain() const { return memory_domain_; }
  Account* account() const { return account_; }
  // As they are now, for as long as the session lives; null: there are none.
  const TenantRules* rules() const { return rules_ == nullptr ? nullptr : &rules_->get(); }

  // From now on it owns the handle, of so many bytes. UnknownSession() if it has ended;
  // TooManyHandles() if it owns `max_handles` already; QUOTA_EXCEEDED.
  absl::Status Own(uint64_t handle, uint64_t max_handles, uint64_t bytes = 0);
  // The handle has been freed.
  void Disown(uint64_t handle, uint64_t bytes = 0);
  // For people: its handles, and the device memory behind those that are no views.
  struct Use {
    uint64_t handles = 0;
    uint64_t bytes = 0;
  };
  Use use() const;

  // The handles that its client chose.
  HandleNames& names() { return names_; }
  const HandleNames& names() const { return names_; }

  // Its stream, made by `make` if it has none. Null if it has ended.
  std::shared_ptr<SessionStream> Stream(const std::function<std::shared_ptr<SessionStream>()>& make);
  // It is there for `stream` alone, which owns it.
  void ServeStream(std::weak_ptr<const SessionStream> stream);
  // Its own, or the one that owns it; null if there is none.
  std::shared_ptr<const SessionStream> stream() const;
  // How many connections its stream has. While it has one, its lease does not run out.
  std::atomic<int> connections{0};

  // From now on it owns nothing; what it owned but for names(), for the caller to free.
  std::vector<uint64_t> End();

 private:
  const std::string tenant_;
  const TrustDomain domain_;
  const MemoryDomain memory_domain_;
  Account* const account_;
  const TenantRulesCell* const rules_;
  HandleNames names_;
  mutable absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<uint64_t> handles_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of these
  Charge owned_ ABSL_GUARDED_BY(mutex_);        // for these
  std::shared_ptr<SessionStream> stream_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<const SessionStream> served_ ABSL_GUARDED_BY(mutex_);
};

// Null: no session, which has no end.
using SessionPtr = std::shared_ptr<Session>;

// As in LaunchControl: what a session does takes effect in order.
inline uint64_t FlowOf(const Session& session) { return reinterpret_cast<uintptr_t>(&session); }
inline Account* AccountOf(const Session* caller) { return caller == nullptr ? nullptr : caller->account(); }
inline const TenantRules* RulesOf(const Session* caller) { return caller == nullptr ? nullptr : caller->rules(); }
inline MemoryDomain MemoryDomainOf(const Session* caller) {
  return caller == nullptr ? MemoryDomain::kWithoutSession : caller->memory_domain();
}
inline TrustDomain DomainOf(const Session* caller) { return caller == nullptr ? TrustDomain() : caller->domain(); }

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_SESSION_H_
