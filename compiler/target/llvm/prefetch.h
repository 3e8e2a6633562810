// What a kernel loads behind a loop, asked for before it.
//
// A convolution adds a bias, or another image, to each tile of its result. What it adds lies
// far away, and a processor looks a few hundred instructions ahead, which is less than the
// tile's loop: without a word before that loop it would wait behind it.
//
// And what the innermost loop of a product reads one line behind the other, from storage beyond the first caches:
// weights. Multiplications that wait for it fill the processor's queues long before it has asked for as much as memory
// could bring meanwhile.
#ifndef KILN_COMPILER_TARGET_LLVM_PREFETCH_H_
#define KILN_COMPILER_TARGET_LLVM_PREFETCH_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

struct Prefetches {
  std::vector<UOp*> list;                                     // the instructions, places before the loops
  absl::flat_hash_map<const UOp*, std::vector<UOp*>> before;  // by the RANGE before which they are asked for
  absl::flat_hash_set<const UOp*> ahead;                      // LOADs that ask for what is kPrefetchBytes farther, too
};

// About as much as is multiplied while it comes.
inline constexpr int64_t kPrefetchBytes = 4096;

// Of the instructions of a LINEAR: LOADs of parameters, without gates, that come after a
// reduction's loop and whose places are known before it.
Prefetches FindPrefetches(const UOp* linear);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_PREFETCH_H_
