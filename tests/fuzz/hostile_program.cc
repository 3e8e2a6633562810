#include "tests/fuzz/hostile_program.h"

#include "tests/fuzz/mutate.h"
#include "tests/support/random.h"

namespace kiln::testing {

HostileProgram MakeHostileProgram(uint64_t seed) {
  Random random(seed);
  ProgramTaste taste;
  taste.race_free = seed % 3 != 0;
  taste.size = static_cast<int>(random.In(4, 24));
  HostileProgram program{MakeProgram(seed, taste), seed % 5 == 4, taste.race_free};
  if (program.mutant) {
    for (int64_t edits = random.In(1, 3); edits > 0; --edits) MutateGraph(program.made.graph, random);
  }
  return program;
}

}  // namespace kiln::testing
