// The same as compile.h for graphs with values on tuples of devices.
#ifndef KILN_COMPILER_COMPILE_MULTI_H_
#define KILN_COMPILER_COMPILE_MULTI_H_

#include "absl/status/statusor.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/multi_program.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// Whether a graph names a tuple of devices: then it is for CompileMulti. One device by
// name makes no such graph; a program is for the device that it is compiled for,
// whatever its name. Looks at each node once, and trusts none.
bool IsMultiDevice(const v1::Graph& graph);

// As Compile(); every device is a `target`. UNSUPPORTED_SHARD where a value cannot be
// split as the graph says. Graphs without tuples have one segment.
absl::StatusOr<v1::MultiProgram> CompileMulti(const v1::Graph& graph, const v1::Target& target, const Options& options,
                                              CompileObserver* observer = nullptr);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_COMPILE_MULTI_H_
