// Who asks, of a server that wants to know: the file of tenants as it is now.
//
// The file, and those that it names, are read again when they change or at SIGHUP; keys that come by a URL are
// asked for again. What is wrong, or does not answer, leaves what was before in force, and is told in the log.
#ifndef KILN_SERVER_IDENTITY_IDENTITY_H_
#define KILN_SERVER_IDENTITY_IDENTITY_H_

#include <spdlog/fwd.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/identity/refused_tokens.h"
#include "server/identity/tenants.h"

namespace kiln::server {

// BAD_ARGUMENT of Tenants::Parse, or for a file that cannot be read.
absl::StatusOr<Tenants> ReadTenants(const std::string& path);

// Safe from any thread.
class Identity {
 public:
  using PeerFn = absl::FunctionRef<std::string()>;
  static std::string NoPeer() { return ""; }
  using NameSet = std::set<std::string, std::less<>>;

  // Puts the tenants of a file in force, or says why it cannot: then those before stay. `stayed` are the names of those
  // that were in force before, too: what is kept by name for anybody else is not this one's, who may be another of the
  // same name. May be null.
  using ApplyFn = std::function<absl::Status(const std::vector<TenantPtr>& tenants, const NameSet& stayed)>;

  // Hears of each time that the files are read again, and whether they are in force. May be null.
  using ReloadedFn = std::function<void(const absl::Status&)>;

  // ReadTenants() of the first time, and `apply`. Looks at the files every `period`.
  static absl::StatusOr<std::unique_ptr<Identity>> Open(const std::string& path, std::shared_ptr<spdlog::logger> log,
                                                        absl::Duration period = absl::Seconds(1),
                                                        ApplyFn apply = nullptr, ReloadedFn reloaded = nullptr);
  ~Identity();

  // Tenants::Identify by what is in force at `now`.
  // Of JSON Web Tokens that are refused, few of one caller are looked at (refused_tokens.h); `peer` says who that is,
  // and is asked if it matters.
  absl::StatusOr<TenantPtr> Identify(const Credentials& credentials, absl::Time now, PeerFn peer = NoPeer);

  // Whether whoever was told this tenant is still one: its name has stood in the file since. Calls go on until they
  // end, so that one which was let in may be of a tenant that has gone, or whose name is another's now.
  bool IsInForce(const TenantPtr& tenant);

  // Tenants::HasUnixUser by what is in force.
  bool HasUnixUser(uint32_t user);

  // Reads the files now; what was wrong, if they are not in force.
  absl::Status Reload();

 private:
  Identity(std::string path, std::shared_ptr<spdlog::logger> log, absl::Duration period, ApplyFn apply,
           ReloadedFn reloaded, Tenants tenants);

  absl::Status ReadAgain();
  void NoteInForce(const NameSet& stayed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What of the files can be seen from outside; changes with them.
  std::string Look(const Tenants& tenants) const;
  void WatchUntilStopped();

  const std::string path_;
  const std::shared_ptr<spdlog::logger> log_;
  const absl::Duration period_;
  const ApplyFn apply_;
  const ReloadedFn reloaded_;
  // One Reload at a time.
  absl::Mutex reload_mutex_;
  std::string seen_ ABSL_GUARDED_BY(reload_mutex_);
  absl::Time read_at_ ABSL_GUARDED_BY(reload_mutex_);

  Bell bell_;  // rings for the end

  absl::Mutex mutex_;
  std::shared_ptr<const Tenants> tenants_ ABSL_GUARDED_BY(mutex_);
  // Those of tenants_, and those of files before that somebody has still and whose names have stayed.
  std::set<std::weak_ptr<const Tenant>, std::owner_less<>> in_force_ ABSL_GUARDED_BY(mutex_);
  // Tokens whose signature was checked already, by tenants_: that takes longer than a small
  // program.
  absl::flat_hash_map<Sha256, Identified> checked_ ABSL_GUARDED_BY(mutex_);
  RefusedTokens refused_ ABSL_GUARDED_BY(mutex_);
  std::thread watch_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_IDENTITY_H_
