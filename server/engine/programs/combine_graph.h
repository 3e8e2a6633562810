// The kernel of a combination (runtime/collective/combiner.h), as a graph to compile.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_COMBINE_GRAPH_H_
#define KILN_SERVER_ENGINE_PROGRAMS_COMBINE_GRAPH_H_

#include <cstdint>

#include "kiln/v1/graph.pb.h"
#include "runtime/collective/combiner.h"

namespace kiln::server {

// More elements than any device has.
inline constexpr int64_t kMaxCombined = int64_t{1} << 40;

// A program of one kernel, of `groups` work groups whatever the number of elements, which is the
// variable of slot 0. Slots from 1 on are the outputs, and behind them the inputs. Each item takes
// vectors of 16 bytes, as many as it takes; what is left at the end, elements.
//
// An element is loaded from all inputs before it is stored to any output, and by one item alone, so an
// output may be an input: what a tensor graph, where each output may be a kernel, does not promise.
v1::Graph CombineGraph(const runtime::collective::Combination& combination, uint32_t groups);

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_COMBINE_GRAPH_H_
