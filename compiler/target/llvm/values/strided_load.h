// Lanes that stand a few elements apart in memory: whole vectors are loaded and the
// lanes picked out of them by shuffles. A gather does one access for each lane.
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_STRIDED_LOAD_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_STRIDED_LOAD_H_

#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Whether LoadStrided is for lanes that are `step` elements apart: every other one, every third or fourth, or
// backwards.
bool IsShortStep(int64_t step);

// `lanes` elements of type `scalar`: the first at `address`, each further one `step` elements behind it. Nothing
// before the first and behind the last is read; what stands between them is. With a `gate`, a vector of i1, only
// its lanes are read and the others are those of `otherwise`.
llvm::Value* LoadStrided(llvm::IRBuilder<>& builder, llvm::Type* scalar, llvm::Value* address, int64_t step,
                         int64_t lanes, llvm::Align align, llvm::Value* gate, llvm::Value* otherwise);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_STRIDED_LOAD_H_
