// What a kernel loads behind a loop, asked for before it.
//
// A convolution adds a bias, or another image, to each tile of its result. What it adds lies
// far away, and a processor looks a few hundred instructions ahead, which is less than the
// tile's loop: without a word before that loop it would wait behind it.
#ifndef KILN_COMPILER_TARGET_LLVM_PREFETCH_H_
#define KILN_COMPILER_TARGET_LLVM_PREFETCH_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

struct Prefetches {
  std::vector<UOp*> list;                                     // the instructions, places before the loops
  absl::flat_hash_map<const UOp*, std::vector<UOp*>> before;  // by the RANGE before which they are asked for
};

// Of the instructions of a LINEAR: LOADs of parameters, without gates, that come after a
// reduction's loop and whose places are known before it.
Prefetches FindPrefetches(const UOp* linear);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_PREFETCH_H_
