// Programs by key, each made once.
//
// The key is a 32-byte digest of all that decides what the program is. When
// several callers want a key that is not there, the first makes it and the
// others wait for that one (single flight); a failure goes to all who waited and
// is forgotten. What is kept is bounded in bytes: the least recently used goes
// first. The table is cut into shards by key, each with its own lock, so callers
// of different programs do not meet.
#ifndef KILN_RUNTIME_CACHE_PROGRAM_CACHE_H_
#define KILN_RUNTIME_CACHE_PROGRAM_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "base/digest.h"

namespace kiln::runtime {

// How a caller came by its value.
enum class CacheOutcome {
  kHit,       // it was there
  kComputed,  // this caller's computation made it
  kJoined,    // another caller's computation made it
};

struct CacheStats {
  uint64_t hits = 0;
  uint64_t misses = 0;  // callers that found nothing, whether they computed or joined
  uint64_t computations = 0;
  uint64_t failures = 0;
  uint64_t evictions = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t limit_bytes = 0;
};

// The machinery, blind to what it keeps; callers use ProgramCache<V> below.
class ProgramCacheCore {
 public:
  struct Entry {
    std::shared_ptr<void> value;  // not null
    uint64_t bytes = 0;
  };
  using Outcome = absl::StatusOr<std::shared_ptr<void>>;
  using Waiter = absl::AnyInvocable<void(Outcome, CacheOutcome)>;
  using Finish = absl::AnyInvocable<void(absl::StatusOr<Entry>)>;

  explicit ProgramCacheCore(uint64_t limit_bytes);
  ~ProgramCacheCore();

  std::shared_ptr<void> Find(const Digest& key);
  void GetOrStart(const Digest& key, absl::AnyInvocable<void(Finish)> start, Waiter waiter);
  void Put(const Digest& key, Entry entry);
  bool Erase(const Digest& key);
  void EraseIdle(absl::FunctionRef<bool(const void*)> may, absl::FunctionRef<bool()> enough);
  std::vector<std::pair<Digest, std::shared_ptr<void>>> List() const;
  CacheStats stats() const;

 private:
  class Impl;
  // Shared with computations that run, which may outlive the cache.
  std::shared_ptr<Impl> impl_;
};

// A cache of V. Safe from any thread. Values live as long as someone holds them,
// whether or not the cache still does.
template <typename V>
class ProgramCache {
 public:
  struct Entry {
    std::shared_ptr<V> value;  // not null
    uint64_t bytes = 0;        // what it weighs against the limit
  };
  using Result = absl::StatusOr<std::shared_ptr<V>>;
  // Ends a computation, from any thread. If it is destroyed without a call, the
  // waiters get INTERNAL_FAULT.
  using Finish = absl::AnyInvocable<void(absl::StatusOr<Entry>)>;
  // Gets the value, exactly once; must not block.
  using Callback = absl::AnyInvocable<void(Result, CacheOutcome)>;

  explicit ProgramCache(uint64_t limit_bytes) : core_(limit_bytes) {}

  // The value if it is there (a hit, and it counts as used), else null.
  std::shared_ptr<V> Find(const Digest& key) { return std::static_pointer_cast<V>(core_.Find(key)); }

  // Never blocks. If the value is there, `callback` gets it at once on this
  // thread. If another caller is computing it, `callback` gets that outcome on
  // the thread that finishes. Otherwise `start` is called on this thread, once;
  // it hands the computation to some other thread, which calls its argument with
  // the outcome.
  void GetOrStart(const Digest& key, absl::AnyInvocable<void(Finish)> start, Callback callback) {
    core_.GetOrStart(
        key,
        [start = std::move(start)](ProgramCacheCore::Finish finish) mutable {
          start([finish = std::move(finish)](absl::StatusOr<Entry> entry) mutable {
            if (!entry.ok()) return finish(std::move(entry).status());
            finish(ProgramCacheCore::Entry{std::move(entry->value), entry->bytes});
          });
        },
        [callback = std::move(callback)](ProgramCacheCore::Outcome outcome, CacheOutcome how) mutable {
          if (!outcome.ok()) return callback(std::move(outcome).status(), how);
          callback(std::static_pointer_cast<V>(*std::move(outcome)), how);
        });
  }

  // The blocking form: computes on this thread, or waits for the caller that does.
  // `outcome` may be null.
  Result GetOrCompute(const Digest& key, const std::function<absl::StatusOr<Entry>()>& compute,
                      CacheOutcome* outcome = nullptr);

  // Keeps `entry` under `key`, in place of the old entry; its holders keep that.
  // A computation that runs is not disturbed, and what it makes comes last.
  void Put(const Digest& key, Entry entry) {
    core_.Put(key, ProgramCacheCore::Entry{std::move(entry.value), entry.bytes});
  }

  // Forgets one value; false if it was not there. A computation that runs is not
  // disturbed.
  bool Erase(const Digest& key) { return core_.Erase(key); }

  // Forgets values that nobody else holds and that `may` picks, the least recently used first,
  // and asks after each whether that is `enough`. `may` is called under a lock: it must not block.
  void EraseIdle(absl::FunctionRef<bool(const V&)> may, absl::FunctionRef<bool()> enough) {
    core_.EraseIdle([may](const void* value) { return may(*static_cast<const V*>(value)); }, enough);
  }

  // A picture of what is kept, most recently used first. For people: takes every
  // shard's lock in turn.
  std::vector<std::pair<Digest, std::shared_ptr<V>>> List() const {
    std::vector<std::pair<Digest, std::shared_ptr<V>>> list;
    for (auto& [key, value] : core_.List()) list.emplace_back(key, std::static_pointer_cast<V>(std::move(value)));
    return list;
  }

  CacheStats stats() const { return core_.stats(); }

 private:
  ProgramCacheCore core_;
};

template <typename V>
typename ProgramCache<V>::Result ProgramCache<V>::GetOrCompute(const Digest& key,
                                                               const std::function<absl::StatusOr<Entry>()>& compute,
                                                               CacheOutcome* outcome) {
  // Whether this caller computes is known when GetOrStart returns.
  Finish finish = nullptr;
  Result result;
  CacheOutcome how = CacheOutcome::kHit;
  absl::Notification done;
  GetOrStart(
      key, [&finish](Finish f) { finish = std::move(f); },
      [&](Result r, CacheOutcome o) {
        result = std::move(r);
        how = o;
        done.Notify();
      });
  if (finish) finish(compute());
  done.WaitForNotification();
  if (outcome != nullptr) *outcome = how;
  return result;
}

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_CACHE_PROGRAM_CACHE_H_
