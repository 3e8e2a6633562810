// One value, or one STORE, as a kernel of loops.
#ifndef KILN_COMPILER_SCHEDULE_KERNEL_GRAPH_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_GRAPH_H_

#include <vector>

#include "compiler/schedule/index_lowering.h"
#include "compiler/schedule/layouts.h"

namespace kiln::compiler {

// What one kernel computes, and what it must be ordered against.
struct KernelDraft {
  UOp* sink = nullptr;           // over the function's own buffers; null if there is nothing to do
  UOp* output = nullptr;         // the storage it writes
  UOp* value = nullptr;          // the realised value that it computes, if it is one
  UOp* store = nullptr;          // the STORE or CALL it carries out, or null for a realised value
  UOp* call = nullptr;           // of a CALL: with its body and buffers, in place of `sink`
  std::vector<UOp*> homes_read;  // realised values it loads
  std::vector<StateRead> reads;  // caller-visible storage it loads
  // It loads what it stores at another place than it stores it: some element
  // might be overwritten before it is read.
  bool overlaps = false;
};

// The kernel that fills `home`, which has the value's shape, with `value`. All realised values lie as `layouts` says.
KernelDraft DraftValue(Graph& graph, Rewriter& simplify, const StoreOrder& stores,
                       const absl::flat_hash_map<UOp*, UOp*>& homes, const Layouts& layouts, UOp* value, UOp* home);

// The kernel of a STORE.
KernelDraft DraftStore(Graph& graph, Rewriter& simplify, const StoreOrder& stores,
                       const absl::flat_hash_map<UOp*, UOp*>& homes, const Layouts& layouts, UOp* store);

// CALL `call` of the kernel `body` (opaque_calls.h).
KernelDraft DraftCall(Graph& graph, const StoreOrder& stores, const absl::flat_hash_map<UOp*, UOp*>& homes, UOp* call,
                      UOp* body);

// CALL(kernel, buffer..., variable...): the draft with its buffers and variables as
// numbered PARAMs and its ranges numbered from 0, so that equal kernels are one
// node.
UOp* MakeCall(Graph& graph, const KernelDraft& draft);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_GRAPH_H_
