// Sums of products of narrow numbers, as many at a time as fill 32 bits: what vector units
// have dot product instructions for (x86's VNNI and BF16).
//
// Such an instruction takes words of neighbouring numbers in each lane and adds their
// products to an accumulator of 32 bits: of four 8-bit integers, unsigned ones from one
// operand and signed ones from the other, or of two bfloat16. So a schedule makes that many
// iterations of the reduction UNROLL lanes and copies one operand in words, in which those lie
// together (opt/local_buffer.h); the pass here finds what has got that form.
//
// Those of integers are exact. Those of bfloat16 take subnormal numbers for zeros, in all
// they read and write, and round as no two operations of docs/ir.md do: fast_math allows them.
#ifndef KILN_COMPILER_KERNEL_DOTS_H_
#define KILN_COMPILER_KERNEL_DOTS_H_

#include <cstdint>
#include <optional>

#include "compiler/ir/graph.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// A target's dot product instructions.
struct DotUnits {
  int64_t lanes = 0;  // of 32 bits, of the widest of them; 0 if there are none
  bool bytes = false;
  bool bfloats = false;
  // Whether its cores have a matrix unit for such products, too (tiles/core_products.h).
  bool byte_tiles = false;
  bool bfloat_tiles = false;

  bool TakesDotsOf(DType dtype) const { return Of(dtype, bytes, bfloats); }
  bool TakesTilesOf(DType dtype) const { return Of(dtype, byte_tiles, bfloat_tiles); }

 private:
  static bool Of(DType dtype, bool bytes, bool bfloats) {
    return dtype == DType::kBfloat16 ? bfloats : (dtype == DType::kInt8 || dtype == DType::kUint8) && bytes;
  }
};
DotUnits DotUnitsOf(const v1::Target& target);

// What code for `target` may use of it: without `fast_math` no dot products of bfloat16, and with it products
// of float32 by tf32 (structure/tf32.h).
v1::Target AllowedTarget(v1::Target target, bool fast_math);

// Numbers of this dtype in a word: the terms that one lane adds up.
inline int64_t DotTerms(DType dtype) { return 4 / ItemSize(dtype); }

// The factors, int8, uint8 or bfloat16, of what a reduction into 32 bits adds up, if some of `units` do that: both
// are widened before they are multiplied, to where no product wraps.
struct DotFactors {
  UOp* a;
  UOp* b;
  int64_t terms() const { return DotTerms(a->dtype()); }
};
std::optional<DotFactors> DotFactorsOf(UOp* value, const DotUnits& units);

// Of a kernel of loops. The lanes over which a kernel reduces such a number `x`, as many as a word has;
// null if it has none, or other lanes that are reduced.
UOp* DotLanesIn(UOp* x);
// What `x` is along these, in one uint32, the first in the low bits; and `x` taken from such a word.
UOp* ToWord(Graph& graph, UOp* x, UOp* range);
UOp* FromWord(Graph& graph, UOp* word, UOp* range, DType dtype);

// Of a kernel whose lanes are shapes. A reduction by ADD of lanes of such products, vectors of
// `units.lanes`, becomes
//   REDUCE(WMMA(u, s, 0), loops)
// where in each lane WMMA(u, s, acc) of (1, 1, 4) is acc and the four products of the uint8 in
// the word `u` and the int8 in the word `s`, and of (1, 1, 2) the two of bfloat16. If both
// factors are integers of one sign, the one that is the same in all lanes is moved by 128, and
// what that adds, a reduction over the other alone, is taken off. A reduction whose operands do not lie
// in words stays as it is.
UOp* SelectDots(Graph& graph, UOp* sink, const DotUnits& units);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_DOTS_H_
