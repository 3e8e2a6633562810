// What keeps LLVM's time in hand where a kernel is very large.
//
// Two things in LLVM's code generation cost more than they should. Strength reduction
// looks at an index as a tree of sums, one visit for each path: where every sum reads the
// two before it, a hundred of them are more than can be visited. And instruction selection
// and scheduling take time with the square of a block's length: minutes for the hundred
// thousands of instructions that a kernel of ten thousand exponentials has.
#ifndef KILN_COMPILER_TARGET_LLVM_LARGE_CODE_H_
#define KILN_COMPILER_TARGET_LLVM_LARGE_CODE_H_

#include <cstddef>

#include "llvm/IR/Module.h"

namespace kiln::compiler {

// Integer expressions with more paths than this are cut.
inline constexpr size_t kMaxPaths = 250;
// Longer blocks are translated in parts.
inline constexpr size_t kMaxBlockInstructions = 16384;

// Puts FREEZEs into integer expressions, beneath which no pass looks and which emit nothing.
// How many were put.
size_t CutIndexTrees(llvm::Module& module);

// Splits blocks that are too long, and marks their functions `optnone`: such code is run as it
// was written. How many splits.
size_t SplitLongBlocks(llvm::Module& module);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_LARGE_CODE_H_
