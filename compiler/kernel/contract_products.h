// Products of 16-bit floats that are summed up in float32, fused with the sum.
//
// A product of two such numbers is exact in float32. Rounding it to 16 bits before it is added
// is what one multiplication and one addition would do; a fused multiply-add, which contraction
// allows, rounds the sum alone. So does every unit that multiplies 16-bit floats, and it is
// several times as quick as to round each product and widen it again.
#ifndef KILN_COMPILER_KERNEL_CONTRACT_PRODUCTS_H_
#define KILN_COMPILER_KERNEL_CONTRACT_PRODUCTS_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Of a decomposed kernel: a REDUCE by ADD in float32 of products that are rounded to float16 or
// bfloat16 first is one of the products. Nothing else that is rounded changes.
UOp* ContractProducts(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_CONTRACT_PRODUCTS_H_
