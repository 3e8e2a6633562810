// What it takes a server to say no.
#ifndef KILN_TESTS_BENCH_LOAD_REFUSALS_H_
#define KILN_TESTS_BENCH_LOAD_REFUSALS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "server/trace/traces.h"

namespace kiln::bench {

// Prints what of a core one refusal takes: of a run for which there is no room in the line, and of one that could not
// be in time. Without gRPC, whose threads do much else meanwhile: from the bytes of a request to the status that gRPC
// would be given, on the clock of the thread that does it. The engine's device is busy for so many seconds with runs of
// so many elements.
void PrintRefusalCost(double seconds, int64_t elements);

// Runs that a server did not do by their deadlines, in microseconds from the call's arrival to its answer.
struct TooLateRuns {
  std::vector<double> at_once;  // by what was known when it asked for its turn
  std::vector<double> later;    // while it waited, or was under way
};
// Of the calls that have ended since then (SteadyNow()).
TooLateRuns TooLateSince(const server::Traces& traces, absl::Time since);

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_LOAD_REFUSALS_H_
