// What a search for schedules needs from outside, and what it says: data alone, so that
// code that has a device need not know the search.
#ifndef KILN_COMPILER_SEARCH_TUNING_H_
#define KILN_COMPILER_SEARCH_TUNING_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

class CompileObserver;
struct Limits;
struct Options;

// What one run took; or why there is no time.
struct Timing {
  double micros = 0;
  std::string fault;
};

// Has a device, and threads to compile on. Used by one thread.
class KernelTimer {
 public:
  virtual ~KernelTimer() = default;
  // Calls every job once, several at a time where it can, and returns when all have ended.
  virtual void InParallel(std::vector<absl::AnyInvocable<void()>> jobs) = 0;
  // What a run of the only kernel of `executable` takes, on memory of the timer's own.
  // It may give up once it is known to take longer than `limit_micros`, and says then
  // what it knows.
  virtual Timing Time(const v1::Executable& executable, double limit_micros) = 0;
  // Of the time that the search may take.
  virtual double LeftMicros() = 0;
  // OK while a caller still wants the result.
  virtual absl::Status Wanted() = 0;
};

// One candidate that was tried.
struct TuneEvent {
  uint32_t kernel = 0, kernels = 0;  // which, of how many, by its place in the program
  std::string name;
  std::string schedule;
  double micros = 0;
  std::string fault;
  double best_micros = 0, first_micros = 0;
};

// As compiler/compile.h's Compile, wherever it does that: an observer may be told of the passes once all is done, and
// then ends nothing by StopAfter. Called from several threads at once.
using CompileCandidateFn = std::function<absl::StatusOr<v1::Executable>(const v1::Graph&, const v1::Target&,
                                                                        const Options&, CompileObserver*)>;

// What may follow a schedule (choose.h).
struct Choices {
  bool may_thread = false;        // a THREAD of its outermost loop
  std::vector<std::string> next;  // whole schedules, the most promising first
};

// As choose.h's Choose, wherever it does that; elsewhere than in this process, `stop` need not be asked. Called from
// one thread.
using ChooseFn =
    std::function<absl::StatusOr<Choices>(const v1::Graph& kernel, const v1::Target& target, const Limits& limits,
                                          const std::string& from, uint32_t most, const std::function<bool()>& stop)>;

struct TuneOptions {
  uint32_t width = 4;                              // of the beam (search/beam.h)
  uint32_t batch = 8;                              // candidates compiled at once
  std::function<void(const TuneEvent&)> progress;  // may be null
  CompileCandidateFn compile;                      // null: in this process
  ChooseFn choose;                                 // null: in this process
};

// What a kernel that was timed takes, in one run of the program: `calls` times these.
struct TunedKernel {
  uint32_t kernel = 0;  // its number in the executable
  uint32_t calls = 0;
  double first_micros = 0, best_micros = 0;  // equal if it was not searched, or nothing was faster
};

struct Tuned {
  v1::Executable executable;
  std::vector<TunedKernel> kernels;
  // Sums over `kernels`.
  double first_micros = 0, best_micros = 0;
  uint32_t candidates = 0;
  bool out_of_time = false;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SEARCH_TUNING_H_
