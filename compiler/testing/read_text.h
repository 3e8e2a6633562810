// Graphs of passes' tests, as text: itself a part of these tests.
#ifndef KILN_COMPILER_TESTING_READ_TEXT_H_
#define KILN_COMPILER_TESTING_READ_TEXT_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// The root of a graph in the numbered text form. Aborts if it is none.
UOp* ReadText(Graph& graph, absl::string_view text);

// How many nodes under `root` are of this op.
size_t CountOf(UOp* root, Op op);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TESTING_READ_TEXT_H_
