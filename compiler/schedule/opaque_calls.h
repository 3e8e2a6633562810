// CALLs of kernels, while a graph of tensors is scheduled.
//
// The nodes of a body are the kernel's own, and a PARAM in it may be the same node as
// one outside. So that no pass looks into a body, a stand-in takes its place:
//   CALL(body, arg...)  ->  CALL(SINK [] "call 3", arg..., variable...) "wrv"
// The text has a letter for each argument: w for a storage that the body writes, r for
// a value that it reads, v for a variable, - for what it does not name.
#ifndef KILN_COMPILER_SCHEDULE_OPAQUE_CALLS_H_
#define KILN_COMPILER_SCHEDULE_OPAQUE_CALLS_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options/options.h"

namespace kiln::compiler {

// By stand-in: the body, as CompileKernels takes it. Its PARAMs are numbered by the
// arguments that it names, in their order.
using KernelBodies = absl::flat_hash_map<const UOp*, UOp*>;

// The graph of tensors `root` with its kernels in `bodies`; equal ones once. A call or a
// body that is not legal is an error of its node; GRAPH_TOO_LARGE for too many of them.
absl::StatusOr<UOp*> HideBodies(Graph& graph, UOp* root, const Limits& limits, KernelBodies& bodies);

// What argument `i` of a CALL with a stand-in is: its letter.
char ArgumentKind(const UOp* call, size_t i);

// The storage that such a CALL writes, in the order of its arguments.
std::vector<UOp*> StorageWrittenBy(const UOp* call);

// `root` with each argument that is read, and no whole storage, or one that the same
// call writes, marked to be realised: a LOAD.
UOp* RealiseArguments(Graph& graph, UOp* root);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_OPAQUE_CALLS_H_
