// Which failed calls are made again, and when.
//
// A server that is asked for too much refuses at once, and says when to come again. If all its
// clients came at that moment it would be asked for too much again; and if each came as often
// as it likes, the tries would be a load of their own, that keeps the server where it is. So
// a client waits a little longer than it was told, by chance; and has a budget: for ten calls
// it may make one again, and a few at first. When most calls fail, most failures are
// told to the caller at once.
//
// Never made again is what may have had an effect, unless it would have the same once more.
#ifndef KILN_CLIENT_CPP_TRANSPORT_RETRIES_H_
#define KILN_CLIENT_CPP_TRANSPORT_RETRIES_H_

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kiln::client {

struct RetryOptions {
  // Of one call, the first among them; 1: none is made again.
  int attempts = 3;
  // Where the server says no time: about so long, and twice as long each further time.
  absl::Duration first_wait = absl::Milliseconds(50);
  // Where it is told to wait longer, the caller hears of it instead.
  absl::Duration most_wait = absl::Seconds(2);
  // Tries that a call earns, and how many may be saved up; they are there at first.
  double budget_per_call = 0.1;
  double most_budget = 10;
};

// Of one client. Safe from any thread.
class Retries {
 public:
  Retries(const RetryOptions& options, uint64_t seed) : options_(options), seed_(seed), budget_(options.most_budget) {}

  // A call begins.
  void Earn();

  // How long to wait before the call by this name is made again, whose `attempt`th attempt (from 1 on) has failed so;
  // none if it is not to be, among others because it would not begin before the deadline. Takes from the budget.
  // Made again are: RESOURCE_EXHAUSTED with the server's word when; UNAVAILABLE with SHUTTING_DOWN; and, of calls that
  // change nothing or the same once more, UNAVAILABLE without the server's word.
  std::optional<absl::Duration> WaitBeforeNext(absl::string_view name, const absl::Status& failure, int attempt,
                                               absl::Time now, absl::Time deadline);

 private:
  const RetryOptions options_;
  absl::Mutex mutex_;
  uint64_t seed_ ABSL_GUARDED_BY(mutex_);  // of the next wait
  double budget_ ABSL_GUARDED_BY(mutex_);
};

// Whether twice is as good as once: "Compile".
bool IsIdempotent(absl::string_view name);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_TRANSPORT_RETRIES_H_
