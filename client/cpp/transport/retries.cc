#include "client/cpp/transport/retries.h"

#include <algorithm>
#include <iterator>
#include <random>

#include "base/error.h"

namespace kiln::client {
namespace {

// What looks, and what finds a second time what it made the first.
constexpr absl::string_view kIdempotent[] = {
    "Check",        "Compile",       "Describe",   "Explain",        "Gradient",        "List",
    "ListPrograms", "ModelMetadata", "ModelReady", "RecordSequence", "RepositoryIndex", "Renew",
    "ListTensors",  "Trace",         "Usage"};

// How long the server wants the client to wait, zero where it does not say; none: it may have begun, or will never end
// otherwise.
std::optional<absl::Duration> Asked(absl::string_view name, const absl::Status& failure) {
  const auto detail = DetailOf(failure);
  // Of what is timed some runs may have been, each with its effects.
  if (absl::IsResourceExhausted(failure) && detail.has_value() && detail->retry_after_ms() > 0 && name != "Time") {
    return absl::Milliseconds(detail->retry_after_ms());
  }
  if (!absl::IsUnavailable(failure)) return std::nullopt;
  // A server that is there, and does not begin it; another may follow it at its address.
  if (detail.has_value() && detail->code() == v1::SHUTTING_DOWN) return absl::ZeroDuration();
  if (!detail.has_value() && IsIdempotent(name)) return absl::ZeroDuration();
  return std::nullopt;
}

}  // namespace

bool IsIdempotent(absl::string_view name) {
  return std::find(std::begin(kIdempotent), std::end(kIdempotent), name) != std::end(kIdempotent);
}

void Retries::Earn() {
  absl::MutexLock lock(&mutex_);
  budget_ = std::min(options_.most_budget, budget_ + options_.budget_per_call);
}

std::optional<absl::Duration> Retries::WaitBeforeNext(absl::string_view name, const absl::Status& failure, int attempt,
                                                      absl::Time now, absl::Time deadline) {
  if (attempt >= options_.attempts) return std::nullopt;
  const auto asked = Asked(name, failure);
  if (!asked.has_value() || *asked > options_.most_wait) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  if (budget_ < 1) return std::nullopt;
  std::mt19937_64 random(seed_++);
  const double chance = std::uniform_real_distribution<double>(0, 1)(random);
  // As long as was asked and up to half as much again; else anything up to a time that doubles.
  absl::Duration wait = *asked * (1 + chance / 2);
  if (*asked == absl::ZeroDuration()) {
    wait = std::min(options_.most_wait, options_.first_wait * (int64_t{1} << (attempt - 1)));
    wait *= chance;
  }
  if (now + wait >= deadline) return std::nullopt;
  --budget_;
  return wait;
}

}  // namespace kiln::client
