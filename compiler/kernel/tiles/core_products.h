// Sums of products of narrow numbers by the matrix unit of a core (structure/core_product.h), where the target has one.
//
// A schedule for it is one for dot products (kernel/dots.h) with more rows and columns than there are vector registers.
// The pass here finds that form: a reduction whose one factor lies in memory in words along what is reduced, for each
// row of a tile, and whose other factor lies in words along the tile's columns. A loop over words becomes one over as
// many at a time as a tile register holds.
//
// Sums of integers are exact. Of bfloat16, an instruction adds the products of even and of odd places each by
// themselves, in float32, and then both to the sum; it rounds to nearest, and takes subnormal numbers for zeros in all
// that it reads and writes. So it is for fast_math, as dot products of bfloat16 are.
#ifndef KILN_COMPILER_KERNEL_TILES_CORE_PRODUCTS_H_
#define KILN_COMPILER_KERNEL_TILES_CORE_PRODUCTS_H_

#include "compiler/ir/graph.h"
#include "compiler/kernel/dots.h"

namespace kiln::compiler {

// `sink`, a kernel of loops, with REDUCE(core product, loops) in place of its one reduction, if that has this form.
UOp* SelectCoreProducts(Graph& graph, UOp* sink, const DotUnits& units);

// The most words that one instruction takes of a loop over `iterations` of them: a divisor. Fewer than
// kFewestWords, and the unit wins nothing.
inline constexpr int64_t kFewestWords = 4;
int64_t WordsOfTile(int64_t iterations);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_TILES_CORE_PRODUCTS_H_
