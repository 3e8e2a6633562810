// From a graph to machine code: the compiler's whole public surface.
#ifndef KILN_COMPILER_COMPILE_H_
#define KILN_COMPILER_COMPILE_H_

#include "absl/status/statusor.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// Compiles `graph` for `target`. Any graph gets an answer: a Status with an
// ErrorDetail naming the node if it is at fault, never a crash. Opens no
// device, keeps no state: any number of threads may call it at once, and equal
// inputs give equal bytes. `observer` may be null.
absl::StatusOr<v1::Executable> Compile(const v1::Graph& graph, const v1::Target& target, const Options& options,
                                       CompileObserver* observer = nullptr);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_COMPILE_H_
