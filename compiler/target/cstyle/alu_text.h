// Elementwise ops, casts and bitcasts as expressions: an operator where it means
// what docs/ir.md says, a helper function where it does not.
#ifndef KILN_COMPILER_TARGET_CSTYLE_ALU_TEXT_H_
#define KILN_COMPILER_TARGET_CSTYLE_ALU_TEXT_H_

#include <string>

#include "absl/types/span.h"
#include "compiler/target/cstyle/prelude.h"

namespace kiln::compiler {

struct Expression {
  std::string text;
  // The type it has in the text: int32 for an index that provably fits.
  DType dtype = DType::kVoid;
  // Set if the text is a sum, product or xor in parentheses: they may go inside
  // another of the same op.
  bool strippable = false;
  Op op = Op::CONST;
};

// `uop`, a scalar elementwise op, of `operands`. `dtype` is the type that the
// result is to have in the text. The dialect has every function it takes
// (CheckDialect in lower.h has seen to that).
Expression AluText(Prelude& prelude, const UOp& uop, DType dtype, absl::Span<const Expression> operands);

// `x` converted from one dtype to another.
std::string CastText(Prelude& prelude, DType from, DType to, const std::string& x);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_ALU_TEXT_H_
