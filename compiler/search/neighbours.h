// What schedule to try next: the moves of a search.
#ifndef KILN_COMPILER_SEARCH_NEIGHBOURS_H_
#define KILN_COMPILER_SEARCH_NEIGHBOURS_H_

#include <functional>
#include <vector>

#include "compiler/opt/checked_schedule.h"
#include "compiler/search/beam.h"

namespace kiln::compiler {

// Legal schedules of `plain` that differ from `from`, which is legal and has no THREAD,
// in one thing: one part of it is larger, smaller or left out, or one more follows. The
// most promising come first. None has a THREAD: the caller that applies them gives the threads
// the outermost loop (requested.h). Never more than kMaxNeighbours, and no more once `stop`, which is
// asked for each, says so: all of them may take tens of milliseconds.
std::vector<Schedule> Neighbours(
    Graph& graph, UOp* plain, const Schedule& from, const v1::Target& target,
    const std::function<bool()>& stop = [] { return false; });

inline constexpr size_t kMaxNeighbours = 96;

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SEARCH_NEIGHBOURS_H_
