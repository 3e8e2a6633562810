// Chooses a kernel's OptOps for a GPU by hand-written rules, in the same terms as those for the CPU: vectors of 16
// bytes along the axis that memory is contiguous in, work items beside each other along it, rows reduced by the items
// of a group together, and register tiles for products.
#ifndef KILN_COMPILER_OPT_GPU_GPU_HEURISTIC_H_
#define KILN_COMPILER_OPT_GPU_GPU_HEURISTIC_H_

#include <vector>

#include "compiler/opt/apply.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// For a target whose parallel loops are work items (kernel/gpu_dims.h). What it does not name, GpuDims makes groups of.
std::vector<OptOp> ChooseGpuOpts(UOp* sink, const v1::Target& target);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_GPU_GPU_HEURISTIC_H_
