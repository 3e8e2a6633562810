// Adding up tensors, element by element: what reducing collectives compute.
//
// Values are as the IR has them: integers wrap, booleans or and and, MAX gives NaN
// if there is one. Floats of 8 and 16 bits are widened to float32, in which all of
// them are combined, and rounded once at the end. So a sum has one accumulator type,
// a partial sum can be kept as it is, and every algorithm rounds alike.
#ifndef KILN_RUNTIME_COLLECTIVE_ALGORITHMS_ARITHMETIC_H_
#define KILN_RUNTIME_COLLECTIVE_ALGORITHMS_ARITHMETIC_H_

#include <cstdint>

#include "kiln/v1/dtype.pb.h"

namespace kiln::runtime::collective {

enum class ReduceOp { kSum, kProd, kMax };

// All pointers are aligned to their items.
struct Arithmetic {
  uint32_t item_bytes = 0;
  // Of the accumulator; equal to item_bytes where it is the dtype itself.
  uint32_t acc_bytes = 0;

  // outputs[j][i] = ((inputs[0][i] op inputs[1][i]) op inputs[2][i]) …, for every j.
  // At least one input; an output may be an input.
  void (*reduce)(const void* const* inputs, uint32_t input_count, void* const* outputs, uint32_t output_count,
                 uint64_t elements);
  // From items to accumulators, and back; may be in place if they are one type.
  void (*widen)(const void* items, void* accumulators, uint64_t elements);
  void (*narrow)(const void* accumulators, void* items, uint64_t elements);
  // into[i] = into[i] op from[i], all accumulators.
  void (*combine)(void* into, const void* from, uint64_t elements);
};

// Null for a dtype that is not stored. Lives for ever.
const Arithmetic* ArithmeticOf(v1::DType dtype, ReduceOp op);

// Bytes of one element; 0 for a dtype that is not stored.
uint32_t ItemBytes(v1::DType dtype);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_ALGORITHMS_ARITHMETIC_H_
