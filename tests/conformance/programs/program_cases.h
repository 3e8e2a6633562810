// Programs written by hand, and what must come of them: every one that the older
// documents build, in their own spelling, and those that today's frontends send.
//
// The same table drives every engine. Expected values are computed in plain C++
// beside each case, not by any part of Kiln.
#ifndef KILN_TESTS_CONFORMANCE_PROGRAMS_PROGRAM_CASES_H_
#define KILN_TESTS_CONFORMANCE_PROGRAMS_PROGRAM_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/interp/interp.h"
#include "kiln/v1/graph.pb.h"
#include "tests/support/compare.h"

namespace kiln::testing {

struct ProgramCase {
  std::string name;
  v1::Graph graph;
  compiler::HostTensors arguments;
  compiler::HostTensors expected;  // every slot that is written, as it is at the end
  Tolerance tolerance = {};
};

std::vector<ProgramCase> OldestCases();   // the first documents: LOOP, ALU, SPECIAL, accumulators (LEGACY_2025)
std::vector<ProgramCase> LegacyCases();   // INDEX with masks, RANGE(start, end), IF, vectors (LEGACY_2025)
std::vector<ProgramCase> LinearCases();   // what a frontend of today sends: tiles, trees, atomics, WMMA
std::vector<ProgramCase> WaveCases();     // products that many items compute together, of each size and dtype
std::vector<ProgramCase> EdgeCases();     // wild indices, loops that never run
std::vector<ProgramCase> ProgramCases();  // all of them

// Graphs of one kernel: what depends on what, in loops, and no order but that.
std::vector<ProgramCase> KernelCases();

// The graph of `text` (base/graph/graph_text.h), with a LINEAR of all its nodes, in
// order, as its root.
v1::Graph FlatList(const std::string& text);

compiler::HostTensor Int32s(const std::vector<int32_t>& values);
compiler::HostTensor Float32s(const std::vector<float>& values);

}  // namespace kiln::testing

#endif  // KILN_TESTS_CONFORMANCE_PROGRAMS_PROGRAM_CASES_H_
