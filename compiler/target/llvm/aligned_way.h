// Two ways through a kernel: one for buffers that begin where vectors may be accessed whole, and one for all others.
//
// A GPU takes 16 bytes at once from a place that is a multiple of 16, and faults at any other. Where a client's view
// begins is known when the kernel runs; all items then go the same way.
#ifndef KILN_COMPILER_TARGET_LLVM_ALIGNED_WAY_H_
#define KILN_COMPILER_TARGET_LLVM_ALIGNED_WAY_H_

#include <cstdint>
#include <optional>

#include "compiler/ir/uop.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

struct AlignedWay {
  llvm::BasicBlock* aligned;   // all parameters that lanes are loaded from, or stored to, begin at multiples of
  uint64_t alignment;          // so many bytes
  llvm::BasicBlock* anywhere;  // nothing is known
};

// At the end of `entry`, the choice between the two, which are still empty. None, and `entry` is as it was, if `linear`
// has no lanes in memory or vectors need no alignment.
std::optional<AlignedWay> ChooseAlignedWay(llvm::BasicBlock* entry, const UOp* linear, const KernelAbi& abi);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_ALIGNED_WAY_H_
