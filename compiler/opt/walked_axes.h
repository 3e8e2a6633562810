// How loops walk an operand: which of them move along one axis of it together.
//
// A convolution reads its image at (row * stride + kernel row, column * stride + kernel
// column): four loops, two axes. Of the places that a tile of loops reaches along an
// axis most are reached by several of them, so what is copied is the box of places, not
// one element for each iteration.
#ifndef KILN_COMPILER_OPT_WALKED_AXES_H_
#define KILN_COMPILER_OPT_WALKED_AXES_H_

#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// The place along the axis is the sum of step * range over its parts, from 0 to extent - 1.
struct WalkedAxis {
  struct Part {
    UOp* range;
    int64_t step;
  };
  std::vector<Part> parts;  // the first has a step of 1
  int64_t extent = 1;
  int64_t stride = 0;  // in memory, of one place; 0 if there is no such number

  // The operand at place p is the operand with this range at p and those of all other parts at 0.
  UOp* unit() const { return parts.front().range; }
};

// The axes along which `ranges`, of constant sizes, move `operand`: those that are farthest apart in
// memory first.
std::vector<WalkedAxis> WalkedAxes(UOp* operand, absl::Span<UOp* const> ranges);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_WALKED_AXES_H_
