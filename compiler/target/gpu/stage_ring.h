// The loop of a product by a work group whose operands come by asynchronous copies (cp.async), into a ring of stages in
// shared memory: while one stage is multiplied, the next ones are under way. The barrier of an iteration says both that
// a stage has come, for all items, and that all are done with the one that is copied to next.
//
//   iteration t:  wait for this item's copies of iteration t; barrier; begin the copies of iteration t + stages - 1;
//   multiply; finish
#ifndef KILN_COMPILER_TARGET_GPU_STAGE_RING_H_
#define KILN_COMPILER_TARGET_GPU_STAGE_RING_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

struct StageRing {
  int64_t iterations;  // at least 1
  int64_t stages;      // at least 2
  int64_t bytes;       // of a stage
};

// What `sums`, numbers before the first iteration, are after the last. `copy` begins the copies of an iteration to the
// stage at a byte of shared memory; for iterations beyond the last it is to copy zeros, or nothing. `finish` stores
// what it loaded to registers. `multiply` is given the byte of the stage that has come, and changes the sums. All
// values but the sums are i32s.
std::vector<llvm::Value*> EmitStageRing(
    llvm::IRBuilder<>& builder, const StageRing& ring, std::vector<llvm::Value*> sums,
    absl::FunctionRef<void(llvm::Value* iteration, llvm::Value* stage)> copy, absl::FunctionRef<void()> finish,
    absl::FunctionRef<void(llvm::Value* stage, std::vector<llvm::Value*>& sums)> multiply);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_STAGE_RING_H_
