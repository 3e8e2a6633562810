// What a tenant has of what everybody shares, counted exactly, and how much it may have.
//
// Whoever takes something for a tenant holds a Charge beside it, which goes where the thing
// goes and gives back when it ends: a charge for memory lives in the Buffer, so that a view or
// a running program that keeps the memory alive keeps the charge, too. Nobody ever subtracts
// by hand, so nothing is counted twice and nothing is forgotten.
//
// What passes, like seconds of a device, is counted over a window: what is used drains away
// evenly. A request is let in while the window is not full and may then overfill it, since
// how long it runs, or how much it brings, is known too late to say no; what is owed is waited
// for by the next one. So the mean is the limit, and nothing is cut off in the middle.
//
// Functions that take an Account* take null for a caller without quotas: it pays nothing.
#ifndef KILN_BASE_ACCOUNT_H_
#define KILN_BASE_ACCOUNT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace kiln {

// Who may find in memory what was left there: whoever has the same number. One of a tenant, or of a session without
// one; opaque, and no other's afterwards.
enum class MemoryDomain : uint64_t {
  kNobody = 0,          // is not known: its memory is cleared before and after, also from one to the next
  kServer = 1,          // code of ours that writes every byte before it reads any
  kWithoutSession = 2,  // callers that are not known and have no session, all together
  kFirst = 16,          // of those that are given out
};

enum class Quota : unsigned char {
#define HELD(Name, field, retry_ms, advice) Name,
#define RATE(Name, field, window, advice) Name,
#define EACH(Name, field, advice) Name,
#include "base/quotas.def"
#undef HELD
#undef RATE
#undef EACH
  kCount,  // how many there are
};
inline constexpr size_t kQuotas = static_cast<size_t>(Quota::kCount);

// "device_bytes", …
absl::string_view QuotaName(Quota quota);
// Over how long it is counted; zero for what is held, and for what each one is.
absl::Duration QuotaWindow(Quota quota);

// By quota; 0 is no limit.
using QuotaLimits = std::array<uint64_t, kQuotas>;

class Account;

// So much of what an account holds; given back when this ends. One thread at a time.
class Charge {
 public:
  // Of nobody.
  Charge() = default;
  Charge(Charge&& other) noexcept { *this = std::move(other); }
  Charge& operator=(Charge&& other) noexcept;
  ~Charge() { Release(); }

  // QUOTA_EXCEEDED, and then it is as it was. A charge of nobody stays empty.
  absl::Status Grow(uint64_t amount);
  // At most amount().
  void Shrink(uint64_t amount);
  void Release() { Shrink(amount_); }

  uint64_t amount() const { return amount_; }

 private:
  friend absl::StatusOr<Charge> Hold(Account* account, Quota quota, uint64_t amount);
  Charge(Account* account, Quota quota, uint64_t amount) : account_(account), quota_(quota), amount_(amount) {}

  Account* account_ = nullptr;
  Quota quota_ = Quota::kDeviceBytes;
  uint64_t amount_ = 0;
};

// One tenant's. Safe from any thread, and without a lock. Outlives its charges.
class Account {
 public:
  explicit Account(std::string name = "", size_t number = 0) : name_(std::move(name)), number_(number) {}
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  const std::string& name() const { return name_; }
  // Of the Accounts that it is one of: how many were made before it.
  size_t number() const { return number_; }

  // What is held already stays, also if it is more.
  void SetLimits(const QuotaLimits& limits);
  uint64_t limit(Quota quota) const { return limits_[Index(quota)].load(std::memory_order_relaxed); }

  // Its part of what is divided among those who ask: so many times that of a tenant of weight 1;
  // and whether it is served a little earlier where both are as much in their right.
  void SetShare(uint32_t weight, bool interactive) {
    weight_.store(weight, std::memory_order_relaxed);
    interactive_.store(interactive, std::memory_order_relaxed);
  }
  uint32_t weight() const { return weight_.load(std::memory_order_relaxed); }
  bool interactive() const { return interactive_.load(std::memory_order_relaxed); }

  // What it has had of the devices, all together, since the start.
  void AddDeviceTime(uint64_t ns) { device_ns_.fetch_add(ns, std::memory_order_relaxed); }
  uint64_t device_ns() const { return device_ns_.load(std::memory_order_relaxed); }

  // Calls and commands of its that were refused for a limit, since the start.
  void CountRefusal() { refusals_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t refusals() const { return refusals_.load(std::memory_order_relaxed); }

  // Held now, or what of the last window's has not drained away, rounded up.
  uint64_t used(Quota quota, absl::Time now = SteadyNow()) const;

  // For Charge. QUOTA_EXCEEDED if there would be more than the limit; `amount` may be 0.
  absl::Status Take(Quota quota, uint64_t amount);
  void GiveBack(Quota quota, uint64_t amount);
  // Whether Take would succeed now; takes nothing.
  absl::Status CheckRoom(Quota quota, uint64_t amount) const { return CheckRoom(quota, used(quota), amount); }

  // For a quota that is a rate: how long until its window is not full. Zero: it is not.
  absl::Duration Wait(Quota rate, absl::Time now = SteadyNow()) const;
  // For what is held: whether there may be no more.
  bool Full(Quota quota) const {
    const uint64_t most = limit(quota);
    return most != 0 && used(quota) >= most;
  }
  // Takes so much of the window, full or not.
  void Owe(Quota rate, double amount, absl::Time now = SteadyNow());
  // Both: QUOTA_EXCEEDED, with the time to wait, if the window is full; else owes it.
  absl::Status Spend(Quota rate, double amount, absl::Time now = SteadyNow());

  // For a quota of each one alone: QUOTA_EXCEEDED if one that is so large is too large.
  absl::Status CheckEach(Quota each, double amount) const;

 private:
  static size_t Index(Quota quota) { return static_cast<size_t>(quota); }
  absl::Status CheckRoom(Quota quota, uint64_t held, uint64_t amount) const;

  std::atomic<uint32_t> weight_{1};
  std::atomic<bool> interactive_{false};
  std::atomic<uint64_t> device_ns_{0};
  std::atomic<uint64_t> refusals_{0};
  std::array<std::atomic<uint64_t>, kQuotas> limits_ = {};
  std::array<std::atomic<uint64_t>, kQuotas> held_ = {};
  // Of rates: when all that is owed will have drained away, in nanoseconds since 1970.
  std::array<std::atomic<int64_t>, kQuotas> drained_at_ = {};
  const std::string name_;
  const size_t number_;
};

// QUOTA_EXCEEDED.
absl::StatusOr<Charge> Hold(Account* account, Quota quota, uint64_t amount);
// An empty charge that may Grow.
inline Charge ChargeOf(Account* account, Quota quota) { return *Hold(account, quota, 0); }

// Account's, where there may be none.
absl::Status Spend(Account* account, Quota rate, double amount);
void Owe(Account* account, Quota rate, double amount);
absl::Status CheckEach(const Account* account, Quota each, double amount);
// QUOTA_EXCEEDED while the window is full.
absl::Status CheckRate(Account* account, Quota rate);

// Owes the seconds of its own life.
class Meter {
 public:
  Meter(Account* account, Quota rate) : account_(account), rate_(rate), begin_(SteadyNow()) {}
  ~Meter() { Owe(account_, rate_, absl::ToDoubleSeconds(SteadyNow() - begin_)); }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

 private:
  Account* const account_;
  const Quota rate_;
  const absl::Time begin_;
};

// The accounts of a server's tenants, by name. Safe from any thread. None is ever forgotten: a
// tenant that is taken out of the file and comes back owes what it owed.
class Accounts {
 public:
  // Made if it is new, without limits. Lives as long as this.
  Account* Of(absl::string_view tenant);
  // All that there are, by name.
  std::map<std::string, const Account*> All() const;

  // The account of that number, or null if it has yet to be made. Without a lock, and so only
  // for the first of them: whoever looks at all, as metrics do, must look at so many and no more.
  static constexpr size_t kNumbered = 254;
  const Account* Numbered(size_t number) const { return numbered_[number].load(std::memory_order_acquire); }

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::unique_ptr<Account>> accounts_ ABSL_GUARDED_BY(mutex_);
  std::array<std::atomic<const Account*>, kNumbered> numbered_ = {};
};

}  // namespace kiln

#endif  // KILN_BASE_ACCOUNT_H_
