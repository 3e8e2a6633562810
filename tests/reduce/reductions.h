// The ways to make a graph smaller, the coarse ones first.
#ifndef KILN_TESTS_REDUCE_REDUCTIONS_H_
#define KILN_TESTS_REDUCE_REDUCTIONS_H_

#include <vector>

#include "tests/reduce/reduce.h"

namespace kiln::testing {

struct WayToReduce {
  const char* name;
  // Tries all that it knows on candidates.graph(), and goes on from what was taken.
  void (*run)(Candidates& candidates);
};

const std::vector<WayToReduce>& WaysToReduce();

// shrink_numbers.cc: sizes, bounds, constants, slots, data.
void ShrinkNumbers(Candidates& candidates);
// plain_arguments.cc: names, tags, checks, options and devices that do not matter.
void PlainArguments(Candidates& candidates);

}  // namespace kiln::testing

#endif  // KILN_TESTS_REDUCE_REDUCTIONS_H_
