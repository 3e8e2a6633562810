#include "base/account.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln {
namespace {

struct Row {
  absl::string_view name;
  absl::string_view advice;
  int64_t window_seconds;  // 0 for what is held
  uint32_t retry_ms;       // after which what is held by others of the tenant may be free; 0 for rates
};

constexpr Row kRows[] = {
#define HELD(Name, field, retry_ms, advice) {#field, advice, 0, retry_ms},
#define RATE(Name, field, window, advice) {#field, advice, window, 0},
#define EACH(Name, field, advice) {#field, advice, 0, 0},
#include "base/quotas.def"
#undef HELD
#undef RATE
#undef EACH
};

const Row& RowOf(Quota quota) { return kRows[static_cast<size_t>(quota)]; }
int64_t WindowNanos(Quota rate) { return RowOf(rate).window_seconds * 1'000'000'000; }

// 36 years: an account never owes more, so sums do not overflow.
constexpr int64_t kMaxNanos = int64_t{1} << 60;

// How long `amount` takes to drain away, of which `each_window` do in a window. Rounded up: the limit's last unit fills
// the window.
int64_t NanosOf(Quota rate, double amount, uint64_t each_window) {
  const double nanos = std::ceil(amount * static_cast<double>(WindowNanos(rate)) / static_cast<double>(each_window));
  return nanos < static_cast<double>(kMaxNanos) ? static_cast<int64_t>(nanos) : kMaxNanos;
}

// When all has drained away, if `nanos` more are owed.
int64_t After(int64_t drained_at, int64_t nanos, int64_t now) {
  return std::min(std::max(drained_at, now) + nanos, now + kMaxNanos);
}

absl::Status Exceeded(Quota quota, uint64_t limit, uint64_t used, absl::Duration wait) {
  const Row& row = RowOf(quota);
  v1::ErrorDetail detail;
  detail.set_code(v1::QUOTA_EXCEEDED);
  detail.set_limit(std::string(row.name));
  detail.set_limit_value(limit);
  detail.set_used(used);
  const int64_t millis = absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1)));
  detail.set_retry_after_ms(static_cast<uint32_t>(std::min<int64_t>(millis, std::numeric_limits<uint32_t>::max())));
  return MakeError(detail, absl::StrCat("this tenant's quota of ", row.name, " is ", limit, ", and it would have ",
                                        used, "; ", row.advice));
}

}  // namespace

absl::string_view QuotaName(Quota quota) { return RowOf(quota).name; }
absl::Duration QuotaWindow(Quota quota) { return absl::Seconds(RowOf(quota).window_seconds); }

Charge& Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  Release();
  account_ = other.account_;
  quota_ = other.quota_;
  amount_ = std::exchange(other.amount_, 0);
  return *this;
}

absl::Status Charge::Grow(uint64_t amount) {
  if (account_ == nullptr) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(account_->Take(quota_, amount));
  amount_ += amount;
  return absl::OkStatus();
}

void Charge::Shrink(uint64_t amount) {
  if (account_ == nullptr || amount == 0) return;
  KILN_CHECK(amount <= amount_);
  account_->GiveBack(quota_, amount);
  amount_ -= amount;
}

void Account::SetLimits(const QuotaLimits& limits) {
  for (size_t i = 0; i < kQuotas; ++i) limits_[i].store(limits[i], std::memory_order_relaxed);
}

absl::Status Account::CheckRoom(Quota quota, uint64_t held, uint64_t amount) const {
  const uint64_t set = limit(quota), most = set == 0 ? std::numeric_limits<uint64_t>::max() : set;
  const uint64_t room = held < most ? most - held : 0;
  if (amount <= room) return absl::OkStatus();
  const uint64_t wanted = held + std::min(amount, std::numeric_limits<uint64_t>::max() - held);
  return Exceeded(quota, most, wanted, absl::Milliseconds(RowOf(quota).retry_ms));
}

absl::Status Account::Take(Quota quota, uint64_t amount) {
  std::atomic<uint64_t>& held = held_[Index(quota)];
  uint64_t before = held.load(std::memory_order_relaxed);
  for (;;) {
    KILN_RETURN_IF_ERROR(CheckRoom(quota, before, amount));
    if (held.compare_exchange_weak(before, before + amount, std::memory_order_relaxed)) return absl::OkStatus();
  }
}

void Account::GiveBack(Quota quota, uint64_t amount) {
  const uint64_t before = held_[Index(quota)].fetch_sub(amount, std::memory_order_relaxed);
  KILN_CHECK(before >= amount);
}

uint64_t Account::used(Quota quota, absl::Time now) const {
  const int64_t window = WindowNanos(quota);
  if (window == 0) return held_[Index(quota)].load(std::memory_order_relaxed);
  const int64_t owed = drained_at_[Index(quota)].load(std::memory_order_relaxed) - absl::ToUnixNanos(now);
  if (owed <= 0) return 0;
  // What a division has cut off is not one more.
  const double used = static_cast<double>(owed) * static_cast<double>(limit(quota)) / static_cast<double>(window);
  return static_cast<uint64_t>(std::ceil(used - 1e-3));
}

absl::Duration Account::Wait(Quota rate, absl::Time now) const {
  if (limit(rate) == 0) return absl::ZeroDuration();
  const int64_t owed = drained_at_[Index(rate)].load(std::memory_order_relaxed) - absl::ToUnixNanos(now);
  return absl::Nanoseconds(std::max<int64_t>(0, owed - WindowNanos(rate) + 1));
}

absl::Status Account::CheckEach(Quota each, double amount) const {
  const uint64_t most = limit(each);
  const double whole = std::ceil(amount);
  if (most == 0 || whole <= static_cast<double>(most)) return absl::OkStatus();
  const bool fits = whole < static_cast<double>(std::numeric_limits<int64_t>::max());
  return Exceeded(each, most, fits ? static_cast<uint64_t>(whole) : std::numeric_limits<uint64_t>::max(),
                  absl::ZeroDuration());
}

void Account::Owe(Quota rate, double amount, absl::Time now) {
  // Once: another thread may set it meanwhile.
  const uint64_t each_window = limit(rate);
  if (each_window == 0) return;
  const int64_t nanos = NanosOf(rate, amount, each_window), now_nanos = absl::ToUnixNanos(now);
  std::atomic<int64_t>& drained_at = drained_at_[Index(rate)];
  int64_t before = drained_at.load(std::memory_order_relaxed);
  while (!drained_at.compare_exchange_weak(before, After(before, nanos, now_nanos), std::memory_order_relaxed)) {
  }
}

absl::Status Account::Spend(Quota rate, double amount, absl::Time now) {
  const uint64_t each_window = limit(rate);
  if (each_window == 0) return absl::OkStatus();
  const int64_t nanos = NanosOf(rate, amount, each_window), now_nanos = absl::ToUnixNanos(now);
  std::atomic<int64_t>& drained_at = drained_at_[Index(rate)];
  int64_t before = drained_at.load(std::memory_order_relaxed);
  for (;;) {
    const int64_t over = before - now_nanos - WindowNanos(rate);
    if (over >= 0) {
      return Exceeded(rate, each_window, used(rate, now) + static_cast<uint64_t>(std::ceil(amount)),
                      absl::Nanoseconds(over + 1));
    }
    if (drained_at.compare_exchange_weak(before, After(before, nanos, now_nanos), std::memory_order_relaxed)) {
      return absl::OkStatus();
    }
  }
}

absl::StatusOr<Charge> Hold(Account* account, Quota quota, uint64_t amount) {
  if (account == nullptr) return Charge();
  KILN_RETURN_IF_ERROR(account->Take(quota, amount));
  return Charge(account, quota, amount);
}

absl::Status Spend(Account* account, Quota rate, double amount) {
  return account == nullptr ? absl::OkStatus() : account->Spend(rate, amount);
}

void Owe(Account* account, Quota rate, double amount) {
  if (account != nullptr) account->Owe(rate, amount);
}

absl::Status CheckEach(const Account* account, Quota each, double amount) {
  return account == nullptr ? absl::OkStatus() : account->CheckEach(each, amount);
}

absl::Status CheckRate(Account* account, Quota rate) { return Spend(account, rate, 0); }

Account* Accounts::Of(absl::string_view tenant) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<Account>& account = accounts_[tenant];
  if (account != nullptr) return account.get();
  const size_t number = accounts_.size() - 1;
  account = std::make_unique<Account>(std::string(tenant), number);
  if (number < kNumbered) numbered_[number].store(account.get(), std::memory_order_release);
  return account.get();
}

std::map<std::string, const Account*> Accounts::All() const {
  std::map<std::string, const Account*> all;
  absl::MutexLock lock(&mutex_);
  for (const auto& [tenant, account] : accounts_) all.emplace(tenant, account.get());
  return all;
}

}  // namespace kiln
