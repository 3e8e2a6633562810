// From any graph to a program: by compile.h, or for several devices.
#ifndef KILN_COMPILER_COMPILE_PROGRAM_H_
#define KILN_COMPILER_COMPILE_PROGRAM_H_

#include <variant>

#include "absl/status/statusor.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/multi_program.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// What a graph compiles to: a program for one device, or for several.
using CompiledProgram = std::variant<v1::Executable, v1::MultiProgram>;

// Of any graph: by CompileForDevices() if it names a tuple of devices (base/graph/devices.h),
// else by Compile().
absl::StatusOr<CompiledProgram> CompileProgram(const v1::Graph& graph, const v1::Target& target, const Options& options,
                                               CompileObserver* observer = nullptr);

// As Compile(); every device is a `target`. UNSUPPORTED_SHARD where a value cannot be
// split as the graph says. Graphs without tuples have one segment.
absl::StatusOr<v1::MultiProgram> CompileForDevices(const v1::Graph& graph, const v1::Target& target,
                                                   const Options& options, CompileObserver* observer = nullptr);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_COMPILE_PROGRAM_H_
