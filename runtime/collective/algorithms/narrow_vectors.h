// Sums and maxima of floats of 8 and 16 bits with instructions that widen them, where
// the machine has them: what arithmetic.h promises, bit for bit, and a collective that
// waits for memory instead of for conversions. Tested by arithmetic_test.
#ifndef KILN_RUNTIME_COLLECTIVE_ALGORITHMS_NARROW_VECTORS_H_
#define KILN_RUNTIME_COLLECTIVE_ALGORITHMS_NARROW_VECTORS_H_

#include <cstdint>

#include "runtime/collective/algorithms/arithmetic.h"

namespace kiln::runtime::collective {

// As Arithmetic::reduce, but for some of the elements alone: it returns how many, counted
// from the first. What is left is less than a vector.
using VectorReduce = uint64_t (*)(const void* const* inputs, uint32_t input_count, void* const* outputs,
                                  uint32_t output_count, uint64_t elements);

// Null where there is none: for other dtypes, for products of some, and on machines without
// F16C and AVX2.
VectorReduce VectorReduceOf(v1::DType dtype, ReduceOp op);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_ALGORITHMS_NARROW_VECTORS_H_
