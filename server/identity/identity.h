// Who asks, of a server that wants to know: the file of tenants as it is now.
//
// The file, and those that it names, are read again when they change or at SIGHUP. One with a fault leaves what was
// before in force. Keys that come by a URL are asked for by a thread of their own, so that a file is in force at once,
// whoever does not answer: then the keys of before count, or, if there were none, no token of that issuer. All of it
// is told in the log.
#ifndef KILN_SERVER_IDENTITY_IDENTITY_H_
#define KILN_SERVER_IDENTITY_IDENTITY_H_

#include <spdlog/fwd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

// BAD_ARGUMENT of Tenants::Parse, or for a file that cannot be read; also if an issuer does not answer.
absl::StatusOr<Tenants> ReadTenants(const std::string& path);

// Safe from any thread.
class Identity {
 public:
  using PeerFn = absl::FunctionRef<std::string()>;
  using NameSet = std::set<std::string, std::less<>>;

  // All may be null. The first two are called by one thread at a time.
  struct Hooks {
    // Puts the tenants of a file in force, or says why it cannot: then those before stay. `stayed` are the names that
    // were in force before, too. What is kept under any other name is of a tenant that left earlier, and is to be
    // dropped now, while no new tenant has been let in.
    std::function<absl::Status(const std::vector<TenantPtr>& tenants, const NameSet& stayed)> apply;
    // After that: `now` are all names in force, `gone` those that are not any more. What is kept for `gone` is to be
    // dropped, and callers that were let in before are to be looked at again. May call this Identity.
    std::function<void(const NameSet& now, const NameSet& gone)> in_force;
    // Hears of each time that the files are read again, and whether they are in force.
    std::function<void(const absl::Status&)> reloaded;
    // So many issuers did not answer when they were asked.
    std::function<void(size_t issuers)> unanswered;
  };

  // The file of the first time, and `hooks.apply`; asks the issuers that it names, and waits for them, but needs no
  // answer. BAD_ARGUMENT for the file. Looks at the files every `period`. `read` is a test's.
  static absl::StatusOr<std::unique_ptr<Identity>> Open(const std::string& path, std::shared_ptr<spdlog::logger> log,
                                                        absl::Duration period = absl::Seconds(1), Hooks hooks = {},
                                                        Tenants::ReadKeysFn read = ReadKeys);
  // Waits for issuers that are being asked.
  ~Identity();

  // Tenants::Identify by what is in force at `now`.
  // With `peer`, few of the JSON Web Tokens of one caller that are refused are looked at (refused_tokens.h): it says
  // who that is, and is asked if it matters. Without, as for a call that was let in before, each is.
  absl::StatusOr<Identified> Identify(const Credentials& credentials, absl::Time now,
                                      std::optional<PeerFn> peer = std::nullopt);

  // Another number whenever something else is in force: what was identified before it changed is to be asked again.
  uint64_t version() const { return version_.load(); }

  // Whether whoever was told this tenant is still one: its name has stood in the file since. A call that was let in may
  // be of a tenant that has gone, or whose name is another's now.
  bool IsInForce(const TenantPtr& tenant);

  // Tenants::HasUnixUser by what is in force.
  bool HasUnixUser(uint32_t user);

  // Reads the files now; what was wrong, if they are not in force. Has the issuers asked, and does not wait for them.
  absl::Status Reload();

 private:
  Identity(std::string path, std::shared_ptr<spdlog::logger> log, absl::Duration period, Hooks hooks,
           Tenants::ReadKeysFn read);

  absl::Status Start();
  // The file, with the keys that are here.
  absl::StatusOr<Tenants> ReadFileNow() const;
  absl::Status ReloadFiles();
  absl::Status ReadAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reload_mutex_);
  std::shared_ptr<const Tenants> InForce();
  void NoteInForce(const NameSet& stayed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What of the files can be seen from outside; changes with them.
  std::string Look(const Tenants& tenants) const;
  void WatchUntilStopped();
  // Whether there are other keys now.
  bool Ask(const std::vector<KeySource>& sources);
  void AskUntilStopped();

  const std::string path_;
  const std::shared_ptr<spdlog::logger> log_;
  const absl::Duration period_;
  const Hooks hooks_;
  const Tenants::ReadKeysFn read_;
  KeySets keys_;
  // One Reload at a time.
  absl::Mutex reload_mutex_;
  std::string seen_ ABSL_GUARDED_BY(reload_mutex_);

  Bell bell_;  // rings for the end
  Bell ask_;   // rings for what has to be asked, or the end
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> version_{0};

  absl::Mutex mutex_;
  std::shared_ptr<const Tenants> tenants_ ABSL_GUARDED_BY(mutex_);
  // Those of tenants_, and those of files before that somebody has still and whose names have stayed.
  std::set<std::weak_ptr<const Tenant>, std::owner_less<>> in_force_ ABSL_GUARDED_BY(mutex_);
  // Tokens whose signature was checked already, by tenants_: that takes longer than a small
  // program.
  absl::flat_hash_map<Sha256, Identified> checked_ ABSL_GUARDED_BY(mutex_);
  RefusedTokens refused_ ABSL_GUARDED_BY(mutex_);
  std::thread watch_, asks_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_IDENTITY_H_
