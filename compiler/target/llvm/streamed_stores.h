// Results that go past the caches.
//
// A store to a line that is in no cache reads the line first, and what is written pushes out
// what others would have found. Of a result far beyond the last-level cache neither is of use:
// its next reader finds nothing of it there anyway. Whole lines that a processor is told
// not to keep (non-temporal stores) go to memory once.
#ifndef KILN_COMPILER_TARGET_LLVM_STREAMED_STORES_H_
#define KILN_COMPILER_TARGET_LLVM_STREAMED_STORES_H_

#include <string>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/uop.h"
#include "kiln/v1/target.pb.h"
#include "llvm/IR/Module.h"

namespace kiln::compiler {

// Bytes of a line, which is written whole or not streamed.
inline constexpr int64_t kLineBytes = 64;

// The parameters of a LINEAR whose stores are worth it: of more than twice the last-level
// cache, written in vectors that fill lines, without gates, and read nowhere in the kernel.
// None on processors that have no such stores.
absl::flat_hash_set<const UOp*> StreamedParameters(const UOp* linear, const v1::Target& target);

// A kernel `symbol` that runs `streaming` if all of `streamed` begin at a line, and `plain` if not: a client's
// storage may begin anywhere.
llvm::Function* EmitChoice(llvm::Module& module, const std::string& symbol,
                           const absl::flat_hash_set<const UOp*>& streamed, llvm::Function* streaming,
                           llvm::Function* plain);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_STREAMED_STORES_H_
