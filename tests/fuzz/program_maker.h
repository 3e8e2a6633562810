// Random programs written by hand: what a hostile client might send as a LINEAR.
//
// Wild indices, divisors, shift counts and casts; loops whose bounds are computed;
// IFs; barriers; LOCAL and REG storage; vectors; gates; atomics; WMMA. Every one
// is legal, so that it gets as far as running.
#ifndef KILN_TESTS_FUZZ_PROGRAM_MAKER_H_
#define KILN_TESTS_FUZZ_PROGRAM_MAKER_H_

#include <cstdint>

#include "compiler/interp/interp.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

struct MadeProgram {
  v1::Graph graph;
  compiler::HostTensors arguments;
};

struct ProgramTaste {
  // No two items of the program touch one place without a BARRIER between, unless
  // both only read or add integers; and floats only through operations whose
  // result is one and the same everywhere. So every engine gives the same bits
  // (of a NaN: a NaN). Otherwise: anything.
  bool race_free = true;
  // About how many statements.
  int size = 12;
};

MadeProgram MakeProgram(uint64_t seed, const ProgramTaste& taste);

}  // namespace kiln::testing

#endif  // KILN_TESTS_FUZZ_PROGRAM_MAKER_H_
