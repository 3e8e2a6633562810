// One step of a search: what may be tried after a schedule of a kernel.
//
// This alone of a search rewrites a kernel: so it can be done elsewhere, in a process that a fault may end, while the
// search itself (tune.h) handles text, times and numbers.
#ifndef KILN_COMPILER_SEARCH_CHOOSE_H_
#define KILN_COMPILER_SEARCH_CHOOSE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/options/options.h"
#include "compiler/search/tuning.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// At most `most` schedules that are one step from `from` (neighbours.h), fewer once `stop` says so; of none, only
// whether `from` may be applied. BAD_ARGUMENT if it may not, or if `kernel` takes no OptOps at all.
absl::StatusOr<Choices> Choose(const v1::Graph& kernel, const v1::Target& target, const Limits& limits,
                               const std::string& from, uint32_t most, const std::function<bool()>& stop);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SEARCH_CHOOSE_H_
