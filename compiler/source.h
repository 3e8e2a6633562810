// From a graph to text in a C-like language.
#ifndef KILN_COMPILER_SOURCE_H_
#define KILN_COMPILER_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/options/options.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// The target whose source is text in `dialect`: c, cuda, hip, opencl or metal; or the assembly of
// the GPU of that name (target/gpu/architectures.h). Compile refuses any other name.
v1::Target SourceTarget(absl::string_view dialect);

// Every kernel of `graph`, in the order of first use, as Compile makes them.
absl::StatusOr<std::string> RenderSource(const v1::Graph& graph, absl::string_view dialect, const Options& options);

// `executable`, compiled for SourceTarget("c"), as a whole program in C: its
// kernels, its constants, and
//   void kiln_run(void* const* parameters, void* const* results, void* arena, const long long* variables)
// which runs it; the text says how many of each there are, from where to where a
// variable may go, and how large the arena, aligned to 64 bytes, must be. Sizes are
// the greatest, over all values of the variables.
std::string ProgramText(const v1::Executable& executable);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SOURCE_H_
