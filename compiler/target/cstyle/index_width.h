// Which indices are ints in the text. The IR counts in int64; a GPU counts faster
// in 32 bits, and most indices provably fit.
#ifndef KILN_COMPILER_TARGET_CSTYLE_INDEX_WIDTH_H_
#define KILN_COMPILER_TARGET_CSTYLE_INDEX_WIDTH_H_

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

// The int64 nodes under `linear` whose values, and those of all that they are
// computed from in int64, lie in int32.
absl::flat_hash_set<const UOp*> NarrowIndices(UOp* linear);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_INDEX_WIDTH_H_
