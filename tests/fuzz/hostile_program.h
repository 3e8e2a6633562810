// What the hostile fuzzer makes of a seed.
#ifndef KILN_TESTS_FUZZ_HOSTILE_PROGRAM_H_
#define KILN_TESTS_FUZZ_HOSTILE_PROGRAM_H_

#include <cstdint>

#include "tests/fuzz/program_maker.h"

namespace kiln::testing {

struct HostileProgram {
  MadeProgram made;
  bool mutant = false;     // damaged: it may be refused
  bool race_free = false;  // every engine gives the same
};

HostileProgram MakeHostileProgram(uint64_t seed);

}  // namespace kiln::testing

#endif  // KILN_TESTS_FUZZ_HOSTILE_PROGRAM_H_
