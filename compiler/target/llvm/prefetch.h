// What a kernel loads behind a loop, asked for before it.
//
// A convolution adds a bias, or another image, to each tile of its result. What it adds lies
// far away, and a processor looks a few hundred instructions ahead, which is less than the
// tile's loop: without a word before that loop it would wait behind it.
//
// And what the innermost loop of a product reads from end to end, from storage beyond the first caches: panels of
// weights. Multiplications that wait for it fill the processor's queues long before it has asked for as much as memory
// could bring meanwhile. So while the rows of one panel are multiplied, each of them asks for its share of the next.
#ifndef KILN_COMPILER_TARGET_LLVM_PREFETCH_H_
#define KILN_COMPILER_TARGET_LLVM_PREFETCH_H_

#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/uop.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// What is asked for where the k-th iteration of the loops in `reduced`, counted as one, reads `step` bytes of a panel,
// the t-th time of those in `rows`:
//   bytes from the panel's end + skipped + (t * iterations + k) * share on
// `share` of them. Without a next panel that is known, `rows` is empty, and it is `fixed` bytes behind what is read.
struct Ahead {
  std::vector<const UOp*> rows, reduced;
  int64_t iterations = 1, step = 0, share = 0, fixed = 0;
  int64_t skipped = 0;  // of panels that other threads take meanwhile
};

struct Prefetches {
  std::vector<UOp*> list;                                     // the instructions, places before the loops
  absl::flat_hash_map<const UOp*, std::vector<UOp*>> before;  // by the RANGE before which they are asked for
  absl::flat_hash_map<const UOp*, Ahead> ahead;               // by the LOAD, or the core product, that reads panels
};

// Of the instructions of a LINEAR: LOADs of parameters, without gates, that come after a
// reduction's loop and whose places are known before it; and what reads panels, on so many threads.
Prefetches FindPrefetches(const UOp* linear, int64_t threads);

// Which rows of what `load` reads are asked for, and how many elements from each on: neighbours that one line holds are
// asked for together. Rows whose distance is not known are asked for one by one.
struct AskedRow {
  int64_t row, elements;
};
std::vector<AskedRow> AskedRowsOf(const UOp* load);

// The addresses of these lines, where what is read begins at `address`, and `iteration` says in which one a loop is.
std::vector<llvm::Value*> LinesAhead(llvm::IRBuilder<>& builder, const Ahead& ahead, llvm::Value* address,
                                     const std::function<llvm::Value*(const UOp*)>& iteration);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_PREFETCH_H_
