// Arithmetic on int64s of which each lane is that before it plus a step: places in storage, and what they are compared
// with. They stay a scalar and a step, so that addresses need no vectors.
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_AFFINE_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_AFFINE_H_

#include <optional>

#include "compiler/target/llvm/values/values.h"

namespace kiln::compiler {

// `uop`, of several lanes, of `a` and `b`: none if it is not made of them without a vector of int64s. Sums are affine,
// and products with a constant. A comparison with one bound for all lanes asks how many of them are below it, which
// takes vectors of bytes for what would be vectors of eight times as many.
std::optional<Element> EmitAffine(llvm::IRBuilder<>& builder, const UOp& uop, const Element& a, const Element& b);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_AFFINE_H_
