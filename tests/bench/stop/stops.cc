#include "tests/bench/stop/stops.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace kiln::bench {
namespace {

constexpr double kPromisedMs = 10;

// Of the calls that are made for a row, at least so many must be stopped before they end: one in so many.
constexpr int kOneCounts = 2;

// The one that so many of them, which are sorted and not none, do not exceed.
double At(const std::vector<double>& sorted, double part) {
  const auto index = static_cast<size_t>(part * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size() - 1, index)];
}

void PrintCells(const std::vector<double>& sorted) {
  if (sorted.empty()) {
    std::printf(" | | |");
  } else {
    std::printf(" %.2f | %.2f | %.2f |", At(sorted, 0.5), At(sorted, 0.99), At(sorted, 1));
  }
}

}  // namespace

bool Stops::Wants(const std::string& name) const { return absl::string_view(name).find(options_.only) != name.npos; }

void Stops::PrintHead() const {
  std::printf("Milliseconds from a stop to the end, %d stops of each kind.\n\n", options_.runs);
  std::printf(
      "| in the middle of | cancelled: p50 | p99 | max | deadline: p50 | p99 | max |\n|---|---|---|---|---|---|---|\n");
}

void Stops::Row(const std::string& name, const StopCall& call, const Window& window) {
  any_ = true;
  std::vector<double> cancelled, late;
  int calls = 0;
  const auto wanted = static_cast<size_t>(options_.runs);
  for (; calls < kOneCounts * options_.runs && (cancelled.size() < wanted || late.size() < wanted); ++calls) {
    for (const bool by_deadline : {false, true}) {
      std::vector<double>& to = by_deadline ? late : cancelled;
      if (to.size() == wanted) continue;
      if (const auto ms = Milliseconds(call, window, by_deadline); ms.has_value()) to.push_back(*ms);
    }
  }
  std::sort(cancelled.begin(), cancelled.end());
  std::sort(late.begin(), late.end());
  std::printf("| %s |", name.c_str());
  PrintCells(cancelled);
  PrintCells(late);
  std::printf("\n");
  std::fflush(stdout);
  if (cancelled.size() < wanted || late.size() < wanted) {
    faults_.push_back(absl::StrCat(name, ": its work is too short: of ", calls, " calls ", cancelled.size(),
                                   " had not ended when they were cancelled, and ", late.size(),
                                   " when their deadline passed"));
    return;
  }
  if (std::max(At(cancelled, 0.99), At(late, 0.99)) > kPromisedMs) {
    faults_.push_back(absl::StrFormat("%s: one stop in a hundred takes more than %.0f ms", name, kPromisedMs));
  }
}

std::optional<double> Stops::Milliseconds(const StopCall& call, const Window& window, bool by_deadline) {
  std::uniform_int_distribution<int64_t> some(absl::ToInt64Microseconds(window.least),
                                              absl::ToInt64Microseconds(window.most));
  const absl::Duration after = absl::Microseconds(some(random_));
  std::atomic<bool> cancelled{false};
  runtime::hal::LaunchControl control;
  control.cancelled = &cancelled;
  absl::Time stop = SteadyNow() + after;
  if (by_deadline) control.deadline = stop;
  End end;
  std::thread caller([&] { end = call(control); });
  if (!by_deadline) {
    absl::SleepFor(after);
    stop = SteadyNow();
    cancelled = true;
  }
  caller.join();
  const bool told = absl::IsCancelled(end.status) || absl::IsDeadlineExceeded(end.status);
  if (!told && !end.status.ok()) std::fprintf(stderr, "%s\n", end.status.ToString().c_str());
  KILN_CHECK(told || end.status.ok());
  // One that sees beforehand that it cannot be done by its deadline has not been stopped either.
  if (!told || end.at < stop) return std::nullopt;
  return absl::ToDoubleMilliseconds(end.at - stop);
}

}  // namespace kiln::bench
