// The table of ./dev bench stop: one row for each place at which work may be when it is told to stop.
//
// A row is a call that does the work of its place under a LaunchControl. It is made again and again; each time it is at
// it for a random while, then it is cancelled, or its deadline passes, and the time from there until it has ended is
// one figure. A call that ends by itself before that says nothing, and does not count: its work must be long, or go on
// for ever (Again).
#ifndef KILN_TESTS_BENCH_STOP_STOPS_H_
#define KILN_TESTS_BENCH_STOP_STOPS_H_

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "runtime/hal/module.h"

namespace kiln::bench {

// How the work of a call ended, and when.
struct End {
  End() = default;
  // Now.
  End(absl::Status how) : status(std::move(how)), at(SteadyNow()) {}  // NOLINT: so that a call may return a status

  absl::Status status;
  absl::Time at;
};

// Does the work of a place until that has ended, and returns how: CANCELLED or DEADLINE_EXCEEDED, if it was told to
// stop; OK, if it came to its own end before. Anything else is a fault of the bench.
using StopCall = std::function<End(const runtime::hal::LaunchControl& control)>;

// What `begin` begins, which hands its status to a callback when it has ended. The time is taken there: that this
// thread is woken is not the work's.
template <typename Begin>
End Awaited(const Begin& begin) {
  End end;
  absl::Notification ended;
  begin([&](absl::Status status) {
    end = std::move(status);
    ended.Notify();
  });
  ended.WaitForNotification();
  return end;
}

// `once` again and again until it fails, as it does once it has been told to stop. Between two times nothing is looked
// at but by `once` itself.
template <typename Once>
End Again(const Once& once) {
  for (;;) {
    if (End end = once(); !end.status.ok()) return end;
  }
}

// When a stop comes after the call began.
struct Window {
  absl::Duration least = absl::Milliseconds(1);
  absl::Duration most = absl::Milliseconds(50);
};

struct StopOptions {
  int runs = 200;    // stops of each kind of each place
  std::string only;  // a part of the names of the rows that are wanted; empty: all are
  bool smoke = false;
};

class Stops {
 public:
  explicit Stops(StopOptions options) : options_(std::move(options)) {}

  // A place makes what it needs only if it is asked for.
  bool Wants(const std::string& name) const;
  bool smoke() const { return options_.smoke; }

  // Prints the first two lines.
  void PrintHead() const;
  // Measures a row, and prints it.
  void Row(const std::string& name, const StopCall& call, const Window& window = {});

  // What is wrong with the rows so far: one stop in a hundred takes longer than is promised, or too few calls had not
  // ended before they were stopped.
  const std::vector<std::string>& faults() const { return faults_; }
  // Whether a row has been printed.
  bool any() const { return any_; }

 private:
  // From the stop until the end; none if the call ended before.
  std::optional<double> Milliseconds(const StopCall& call, const Window& window, bool by_deadline);

  const StopOptions options_;
  std::mt19937 random_{1};
  std::vector<std::string> faults_;
  bool any_ = false;
};

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_STOP_STOPS_H_
