// Rows of passes.cc that are more than a call: whole graphs, before there are kernels. Tested by passes_test and the
// goldens.
#ifndef KILN_COMPILER_PASS_GRAPH_PASSES_H_
#define KILN_COMPILER_PASS_GRAPH_PASSES_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/pass/lowering.h"

namespace kiln::compiler {

// The wire's graph in core ops. Kernels inside a graph of tensors go to `function.bodies`.
absl::StatusOr<UOp*> Normalise(Lowering& lowering);

// The same of a graph on several devices. UNSUPPORTED_OP for a program written by hand.
absl::StatusOr<UOp*> NormaliseShards(Lowering& lowering);

// Fills `function`, and returns its SINK.
absl::StatusOr<UOp*> CallifyInto(Lowering& lowering, UOp* root);

// The values that were chosen, one a line, in the order in which they were made.
std::string RealizedText(const Lowering& lowering);

// The layouts of these; for targets that multiply narrow numbers, of what is kept narrow. And as text.
absl::StatusOr<UOp*> ChooseLayoutsInto(Lowering& lowering, UOp* sink);
std::string LayoutsText(const Lowering& lowering);

std::string MemoryPlanText(const Lowering& lowering);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PASS_GRAPH_PASSES_H_
