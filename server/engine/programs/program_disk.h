// The program store's side of the folder on disk (base/store/disk_store.h): what an
// entry must be to be this server's, and how one comes to run.
//
// A stored program is found by a key that holds everything it depends on, the server's
// limits and the compiler's build included, and each part is confirmed on a hit. So a
// hash alone is as good as a graph: what it finds is what this server would have let in
// and compiled from a graph with that hash.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_DISK_H_
#define KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_DISK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "base/account.h"
#include "base/digest.h"
#include "base/store/disk_store.h"
#include "compiler/options/options.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/target.pb.h"
#include "server/engine/memory/trust_domain.h"
#include "server/engine/programs/compile_fn.h"

namespace kiln::server {

// Something that the log should say.
struct DiskEvent {
  enum class Kind {
    kLoaded,       // a program came from the disk
    kRejected,     // an entry was not right; it is compiled anew
    kReadFailed,   // the disk failed; as if nothing had been there
    kStoreFailed,  // a program is in memory alone
  };
  Kind kind;
  std::string graph_hash;  // hexadecimal
  uint32_t kernels = 0;
  uint64_t bytes = 0;
  int64_t micros = 0;
  std::string reason;
};

// Safe from any thread. Every call may block for the disk; none fails: without the disk
// a server is slower, not broken.
class ProgramDisk {
 public:
  // `compiler` names the compiler's build. `log` may be called from any thread.
  ProgramDisk(std::unique_ptr<store::DiskStore> store, std::string compiler, std::function<void(const DiskEvent&)> log)
      : store_(std::move(store)), compiler_(std::move(compiler)), log_(std::move(log)) {}

  // The header of the entry for a program, as far as it is known before there is one.
  // `fingerprint` is TargetFingerprint(target).
  v1::StoredHeader HeaderOf(const TrustDomain& domain, const Digest& graph_hash, const Digest& fingerprint,
                            const v1::Target& target, const compiler::Options& options) const;
  // The same of options and limits as an entry spells them out.
  v1::StoredHeader HeaderOf(const TrustDomain& domain, const Digest& graph_hash, const Digest& fingerprint,
                            const v1::Target& target, const std::string& options, const std::string& limits) const;

  struct Loaded {
    CompiledProgram program;
    std::string graph;
    uint32_t kernels = 0;
    uint64_t bytes = 0;
    uint64_t compile_us = 0;
  };
  // `again`: after a look that found nothing.
  std::optional<Loaded> Load(const v1::StoredHeader& wanted, bool again);
  // To be called with what became of it: the program now runs, or it cannot, which
  // removes the entry.
  void OnLoaded(const v1::StoredHeader& header, const Loaded& loaded, int64_t micros);
  void OnUnusable(const v1::StoredHeader& header, const absl::Status& why);

  // What is a tenant's counts against the disk_bytes of `account`, which may be null and outlives this: its least
  // recently used entries make room, and what is too large for them is not kept. `replaces`: there may be an entry
  // under its key.
  void Publish(v1::StoredHeader header, const CompiledProgram& program, std::string graph, Account* account = nullptr,
               bool replaces = false);

  // Keeps an entry that another server has made, at this account's expense as Publish does, and says if it cannot:
  // QUOTA_EXCEEDED; OUT_OF_MEMORY, limit "disk bytes", for a full disk or folder; INTERNAL_FAULT.
  absl::Status Adopt(store::Entry entry, Account* account);

  // Removes the entries of a graph that are this domain's, whatever compiled them; how many. Reads the head of every
  // entry.
  uint32_t Evict(const TrustDomain& domain, const Digest& graph_hash);

  // Removes all entries that are this domain's, and what is counted for them; keeps none that comes later.
  void Forget(const TrustDomain& domain);

  // Before the accounts of Publish end.
  void ForgetAccounts() {
    absl::MutexLock lock(&mutex_);
    owned_.clear();
  }

  store::DiskStore& store() { return *store_; }
  const std::string& compiler() const { return compiler_; }

 private:
  static bool IsOf(const TrustDomain& domain, const v1::StoredHeader& header);
  // What there is of one tenant's, as far as is known.
  struct Owned {
    absl::Mutex mutex;
    Charge charge ABSL_GUARDED_BY(mutex);
    // Removals of the store's at the last look; another number asks for the next.
    uint64_t removals ABSL_GUARDED_BY(mutex) = ~uint64_t{0};
    bool forgotten ABSL_GUARDED_BY(mutex) = false;
  };
  absl::Status Put(store::Entry& entry, Account* account, bool replaces);
  std::shared_ptr<Owned> OwnedBy(const std::string& owner);
  // Pays for `bytes` more of the owner's. QUOTA_EXCEEDED if there is no room for them.
  absl::Status MakeRoom(const std::string& owner, Owned& owned, Account& account, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(owned.mutex);
  uint64_t Removals() const;
  void Log(DiskEvent::Kind kind, const v1::StoredHeader& header, absl::string_view reason);

  const std::unique_ptr<store::DiskStore> store_;
  const std::string compiler_;
  const std::function<void(const DiskEvent&)> log_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Owned>> owned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_DISK_H_
