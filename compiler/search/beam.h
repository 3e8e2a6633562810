// The search for a kernel's fastest schedule, over whatever tries schedules out.
//
// Two searches go side by side: one begins with the schedule that the rules choose, and
// one with the plain loops, since what is best may not be near what the rules know. Each
// keeps its fastest schedules, tries all that are one step from them, and goes on from
// the fastest of these, until a round brings nothing.
//
// Given the same times, it tries the same schedules in the same order and ends with the
// same.
#ifndef KILN_COMPILER_SEARCH_BEAM_H_
#define KILN_COMPILER_SEARCH_BEAM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "compiler/opt/apply.h"
#include "compiler/search/tuning.h"

namespace kiln::compiler {

using Schedule = std::vector<OptOp>;

// A schedule that was compiled, or the fault.
struct Trial {
  std::string fault;
  // Runs it. It may give up once it is known to take longer than `limit_micros`.
  std::function<Timing(double limit_micros)> time;
};

struct BeamInput {
  // Compiles schedules, several at once where it can: a trial for each. One whose
  // instructions were compiled before has a fault, too: its time is known.
  std::function<std::vector<Trial>(absl::Span<const Schedule>)> compile;
  // What the rules chose, compiled.
  Trial usual;
  Schedule usual_schedule;
  // What may be tried after a schedule, the most promising first.
  std::function<std::vector<Schedule>(const Schedule&)> next;
  std::function<bool()> out_of_time;
  // How many schedules each round begins from, and how many are compiled between two looks at the clock.
  uint32_t width = 4;
  uint32_t batch = 8;
  // Told of every schedule that was tried. May be null.
  std::function<void(const Schedule&, const Timing&, double best_micros)> tried;
};

struct BeamResult {
  std::string fault;   // of what the rules chose: then nothing was searched
  bool found = false;  // faster than what the rules chose, by more than chance
  Schedule schedule;   // if found
  double first_micros = 0, best_micros = 0;
  uint32_t tried = 0;
  bool out_of_time = false;
};

BeamResult Beam(const BeamInput& input);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SEARCH_BEAM_H_
