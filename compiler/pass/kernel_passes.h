// Rows of passes.cc that are more than a call: kernels of loops. Tested by passes_test and the goldens.
#ifndef KILN_COMPILER_PASS_KERNEL_PASSES_H_
#define KILN_COMPILER_PASS_KERNEL_PASSES_H_

#include "absl/status/statusor.h"
#include "compiler/pass/lowering.h"

namespace kiln::compiler {

// Whether the client asked for OptOps, of the axes as they are; then no rule chooses any.
bool IsRequested(const Lowering& lowering);

// Whether something that `kernel` reads stays the same from run to run.
bool HasConstants(UOp* kernel);

// A running sum and its like in the loops of one; any other kernel as it is.
absl::StatusOr<UOp*> ScanLoops(Lowering& lowering, UOp* kernel);

// Both keep in `body.opts` what they applied.
absl::StatusOr<UOp*> ApplyRequestedOpts(Lowering& lowering, UOp* kernel);
absl::StatusOr<UOp*> ApplyChosenOpts(Lowering& lowering, UOp* kernel);

// Whether cores have a matrix unit for narrow numbers; and products by it.
bool HasMatrixUnit(const Lowering& lowering);
absl::StatusOr<UOp*> CoreProducts(Lowering& lowering, UOp* kernel);

// Parallel loops as coordinates of work items.
absl::StatusOr<UOp*> ToWorkItems(Lowering& lowering, UOp* kernel);

// A program's arithmetic rewritten: instruction by instruction the same list.
UOp* DecomposeList(Lowering& lowering, UOp* linear);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PASS_KERNEL_PASSES_H_
