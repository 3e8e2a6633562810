// Rangeify: a function becomes a list of kernels. Each value that is realised (realize.h)
// gets a buffer and a kernel of loops, and the kernels an order in which every read sees
// the state that it must. What goes before it stands in pass/passes.cc.
#ifndef KILN_COMPILER_SCHEDULE_RANGEIFY_H_
#define KILN_COMPILER_SCHEDULE_RANGEIFY_H_

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/layouts.h"
#include "compiler/schedule/opaque_calls.h"

namespace kiln::compiler {

// The layouts (layouts.h) that are best for the kernels that Rangeify would make with none. Adds to `realized` the
// padded images that products read.
Layouts LayoutsFor(Graph& graph, UOp* sink, const KernelBodies& bodies, absl::flat_hash_set<UOp*>& realized);

// `sink` is a Callify'd SINK in which nothing is Invalid, `bodies` are its CALLs', and `realized` its values that are
// realised. LINEAR(CALL(kernel, buffer...)...), in the order to run. A kernel is
// SINK(END(STORE(INDEX(PARAM k, i), value, gate?), RANGE...)), outermost RANGE
// first, over PARAMs that number its buffers. Beyond this point no movement op
// exists, everything inside a kernel has the shape (), and the kernel split is
// fixed.
// UNSUPPORTED_OP if no order of kernels and copies lets every read see its state.
absl::StatusOr<UOp*> Rangeify(Graph& graph, UOp* sink, const KernelBodies& bodies, absl::flat_hash_set<UOp*> realized,
                              const Layouts& layouts = {});

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_RANGEIFY_H_
