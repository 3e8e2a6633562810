// Shares of tensors that are split over devices. Tested by tests/conformance/devices/multi_device_test.
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
// `share` holds exactly one share's bytes, in order; its shape is not looked at.
void PutShare(const HostTensor& share, const Split& split, int64_t number, HostTensor& whole);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_SPLIT_H_
