// Where a kernel or program looks whether it is to stop.
//
// A loop looks once in so many of its iterations that, by the worst times of what it does, two
// milliseconds do not pass in between; the outermost loop for which that is possible looks, and
// what is inside of it need not. What is over sooner looks nowhere.
#ifndef KILN_COMPILER_STRUCTURE_STOP_POINTS_H_
#define KILN_COMPILER_STRUCTURE_STOP_POINTS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

// For each RANGE that looks: after how many iterations each.
using StopPoints = absl::flat_hash_map<const UOp*, int64_t>;

// `linear` is a LINEAR as code is made of it. Bounds that are known only when it runs count as the most
// that they could be.
StopPoints FindStopPoints(const UOp* linear);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_STOP_POINTS_H_
