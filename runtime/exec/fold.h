// Two tensors become one, element by element: what a reduction over devices is made of.
#ifndef KILN_RUNTIME_EXEC_FOLD_H_
#define KILN_RUNTIME_EXEC_FOLD_H_

#include <cstdint>

#include "kiln/v1/dtype.pb.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::runtime {

// Whether there is a fold by `op` (ADD, MUL or MAX) of elements of this dtype.
bool CanFold(v1::DType dtype, v1::Op op);

// to[i] = op(to[i], from[i]) for `count` elements, as the IR has the op: integers wrap,
// ADD and MUL of bool are "or" and "and", MAX with a NaN is NaN, floats of less than 32
// bits are rounded once. Both are aligned to the dtype and do not overlap.
void Fold(v1::DType dtype, v1::Op op, const void* from, void* to, uint64_t count);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_FOLD_H_
