// The search over a machine that is made up: a schedule's time is a formula, and the
// clock a counter.
#include "compiler/search/beam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "compiler/opt/schedule_text.h"

namespace kiln::compiler {
namespace {

// A kernel with two axes; what counts is the product of each one's factors. The fastest
// has 8 along axis 0 and 4 along axis 1.
struct Machine {
  static int64_t Factor(const Schedule& schedule, int axis) {
    int64_t factor = 1;
    for (const OptOp& opt : schedule) {
      if (opt.axis == axis) factor *= opt.amount;
    }
    return factor;
  }
  static double Off(int64_t factor, int64_t best) {
    const double ratio = static_cast<double>(factor) / static_cast<double>(best);
    return ratio > 1 ? ratio : 1 / ratio;
  }

  Timing Time(const Schedule& schedule) {
    ++runs;
    micros += 10;
    if (faulty.contains(ToString(schedule))) return {0, "it does not end"};
    return {100 * Off(Factor(schedule, 0), 8) * Off(Factor(schedule, 1), 4), ""};
  }

  std::vector<Trial> Compile(absl::Span<const Schedule> schedules) {
    std::vector<Trial> trials;
    for (const Schedule& schedule : schedules) {
      tried.push_back(ToString(schedule));
      micros += 1;
      // The order of the factors of one axis makes no other code.
      if (!codes.insert({Factor(schedule, 0), Factor(schedule, 1)}).second) {
        trials.push_back({"the same instructions", nullptr});
      } else if (uncompilable.contains(tried.back())) {
        trials.push_back({"LLVM gives up", nullptr});
      } else {
        trials.push_back({"", [this, schedule](double) { return Time(schedule); }});
      }
    }
    return trials;
  }

  static std::vector<Schedule> Next(const Schedule& from) {
    std::vector<Schedule> next;
    if (from.size() >= 6) return next;
    for (int axis : {0, 1}) {
      for (int64_t factor : {2, 3}) {
        next.push_back(from);
        next.back().push_back({OptOp::kSplit, axis, factor});
      }
    }
    return next;
  }

  BeamInput Input(const std::string& usual) {
    BeamInput input;
    input.compile = [this](absl::Span<const Schedule> schedules) { return Compile(schedules); };
    input.usual_schedule = *ParseSchedule(usual);
    input.usual = {"", [this, schedule = input.usual_schedule](double) { return Time(schedule); }};
    input.next = Next;
    input.out_of_time = [this] { return micros > budget; };
    input.tried = [this](const Schedule& schedule, const Timing& timing, double best) {
      if (!timing.fault.empty()) faults.push_back(ToString(schedule));
      if (best > 0) bests.push_back(best);
    };
    return input;
  }

  std::set<std::string> faulty, uncompilable;
  std::set<std::pair<int64_t, int64_t>> codes;
  std::vector<std::string> tried, faults;
  std::vector<double> bests;
  double micros = 0, budget = 1e9;
  int runs = 0;
};

TEST(Beam, FindsTheFastest) {
  Machine machine;
  BeamInput input = machine.Input("SPLIT(0, 3, UPCAST)");
  input.width = 16;
  const BeamResult result = Beam(input);
  EXPECT_TRUE(result.found);
  EXPECT_EQ(Machine::Factor(result.schedule, 0), 8) << ToString(result.schedule);
  EXPECT_EQ(Machine::Factor(result.schedule, 1), 4) << ToString(result.schedule);
  EXPECT_EQ(result.best_micros, 100);
  EXPECT_GT(result.first_micros, 1000);
  EXPECT_EQ(result.tried, machine.tried.size() + 1);  // and the usual one
  EXPECT_FALSE(result.out_of_time);
  EXPECT_TRUE(std::is_sorted(machine.bests.rbegin(), machine.bests.rend()));
}

TEST(Beam, TriesNothingTwice) {
  Machine machine;
  Beam(machine.Input("SPLIT(0, 3, UPCAST)"));
  const std::set<std::string> distinct(machine.tried.begin(), machine.tried.end());
  EXPECT_EQ(distinct.size(), machine.tried.size());
}

TEST(Beam, GivenTheSameTimesDoesTheSame) {
  Machine one, two;
  const BeamResult first = Beam(one.Input("SPLIT(1, 2, UPCAST)"));
  const BeamResult again = Beam(two.Input("SPLIT(1, 2, UPCAST)"));
  EXPECT_EQ(one.tried, two.tried);
  EXPECT_EQ(first.schedule, again.schedule);
}

TEST(Beam, SkipsWhatFails) {
  Machine machine;
  machine.faulty = {"SPLIT(0, 2, UPCAST)", "SPLIT(1, 2, UPCAST)"};
  machine.uncompilable = {"SPLIT(0, 2, UPCAST); SPLIT(0, 2, UPCAST)"};
  const BeamResult result = Beam(machine.Input("SPLIT(0, 3, UPCAST)"));
  EXPECT_TRUE(result.found);
  EXPECT_LT(result.best_micros, 200);
  EXPECT_EQ(std::count(machine.faults.begin(), machine.faults.end(), "SPLIT(0, 2, UPCAST)"), 1);
}

// Every candidate fails: what the rules chose stays.
TEST(Beam, EndsNoWorse) {
  Machine machine;
  BeamInput input = machine.Input("SPLIT(0, 3, UPCAST)");
  input.compile = [](absl::Span<const Schedule> schedules) {
    return std::vector<Trial>(schedules.size(), {"LLVM gives up", nullptr});
  };
  const BeamResult result = Beam(input);
  EXPECT_FALSE(result.found);
  EXPECT_EQ(result.best_micros, result.first_micros);

  Machine best;
  const BeamResult already = Beam(best.Input("SPLIT(0, 8, UPCAST); SPLIT(1, 4, UPCAST)"));
  EXPECT_FALSE(already.found);
  EXPECT_EQ(already.best_micros, 100);
}

// A lucky time is found out: the finalists run again.
TEST(Beam, DoesNotTrustOneTime) {
  Machine machine;
  BeamInput input = machine.Input("SPLIT(0, 8, UPCAST); SPLIT(1, 4, UPCAST)");
  bool lucky = true;
  input.compile = [&](absl::Span<const Schedule> schedules) {
    std::vector<Trial> trials = machine.Compile(schedules);
    for (Trial& trial : trials) {
      trial.time = [time = trial.time, &lucky](double limit) {
        if (std::exchange(lucky, false)) return Timing{1, ""};
        return time(limit);
      };
    }
    return trials;
  };
  EXPECT_FALSE(Beam(input).found);
}

TEST(Beam, KeepsToItsTime) {
  Machine machine;
  machine.budget = 200;
  const BeamResult result = Beam(machine.Input("SPLIT(0, 3, UPCAST)"));
  EXPECT_TRUE(result.out_of_time);
  EXPECT_LE(machine.runs, 40);  // of which 12 are the finalists'
  EXPECT_TRUE(result.found);    // something
  Machine none;
  none.budget = -1;
  const BeamResult nothing = Beam(none.Input("SPLIT(0, 3, UPCAST)"));
  EXPECT_TRUE(nothing.out_of_time);
  EXPECT_FALSE(nothing.found);
  EXPECT_TRUE(none.tried.empty());
}

TEST(Beam, LooksForNoMoreOnceThereIsNoTime) {
  Machine machine;
  BeamInput input = machine.Input("SPLIT(0, 3, UPCAST)");
  int looked = 0;
  input.next = [&](const Schedule& from) {
    if (++looked == 3) machine.budget = -1;
    return Machine::Next(from);
  };
  EXPECT_TRUE(Beam(input).out_of_time);
  EXPECT_EQ(looked, 3);
}

TEST(Beam, SaysWhyItCannotBegin) {
  Machine machine;
  BeamInput input = machine.Input("SPLIT(0, 3, UPCAST)");
  input.usual = {"no memory", nullptr};
  EXPECT_EQ(Beam(input).fault, "no memory");
  EXPECT_TRUE(machine.tried.empty());
}

}  // namespace
}  // namespace kiln::compiler
