// Shares of tensors that are split over devices.
#ifndef KILN_COMPILER_INTERP_SPLIT_H_
#define KILN_COMPILER_INTERP_SPLIT_H_

#include <cstdint>

#include "compiler/interp/tensor.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

// Into equal shares along an axis; or (-1) whole for each.
struct Split {
  int axis = -1;
  int64_t shares = 1;
};

Split SplitOf(const UOp* uop);

HostTensor ShareOf(const HostTensor& whole, const Split& split, int64_t number);
// `share` is dense, and has so many bytes, whatever its shape.
void PutShare(const HostTensor& share, const Split& split, int64_t number, HostTensor& whole);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_SPLIT_H_
