// Sums of products of 8-bit integers, four at a time: what vector units have dot
// product instructions for (x86's VNNI).
//
// Such an instruction takes words of four neighbouring integers in each lane, unsigned
// ones from one operand and signed ones from the other, and adds their four products to
// an accumulator of 32 bits. So a schedule makes four turns of the fold UNROLL lanes and
// copies one operand in words, in which those four lie together (opt/local_buffer.h);
// the pass here finds what has got that form.
#ifndef KILN_COMPILER_KERNEL_DOTS_H_
#define KILN_COMPILER_KERNEL_DOTS_H_

#include <cstdint>
#include <optional>

#include "compiler/ir/graph.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

inline constexpr int64_t kDotTerms = 4;

// 32-bit lanes of the target's widest dot product instruction; 0 if it has none.
int64_t DotLanes(const v1::Target& target);

// The factors, int8 or uint8, of what a fold into 32 bits adds up, if its products are exact:
// both are widened before they are multiplied, to where no product wraps.
struct DotFactors {
  UOp* a;
  UOp* b;
};
std::optional<DotFactors> DotFactorsOf(UOp* value);

// Of a kernel of loops. The lanes of four over which a kernel folds an 8-bit integer `x`;
// null if it has none, or other lanes that are folded.
UOp* DotLanesIn(UOp* x);
// What `x` is along these, in one uint32, the first in the low bits; and `x` taken from such a word.
UOp* ToWord(Graph& graph, UOp* x, UOp* range);
UOp* FromWord(Graph& graph, UOp* word, UOp* range, DType dtype);

// Of a kernel whose lanes are shapes. A fold by ADD of four lanes of such products, vectors of
// `lanes`, becomes
//   REDUCE(WMMA(u, s, 0), loops)
// where in each lane WMMA(u, s, acc) of (1, 1, 4) is acc and the four products of the uint8 in
// the word `u` and the int8 in the word `s`. If both factors are of one sign, the one that is
// the same in all lanes is moved by 128, and what that adds, a fold over the other alone, is
// taken off. A fold whose operands do not lie in words stays as it is.
UOp* SelectDots(Graph& graph, UOp* sink, int64_t lanes);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_DOTS_H_
