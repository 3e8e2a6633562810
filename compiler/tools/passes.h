// Runs one pass of the table (pass/passes.cc) on one graph: for kiln_opt and for the golden tests.
#ifndef KILN_COMPILER_TOOLS_PASSES_H_
#define KILN_COMPILER_TOOLS_PASSES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::compiler {

// What the pass is run with beside the graph.
struct PassSettings {
  std::string target;                       // as SourceTarget (source.h) takes it; empty: an imagined CPU
  uint32_t vector_bytes = 64;               // of the imagined CPU: the width of its vector registers
  std::vector<std::string> features;        // of the imagined CPU, as LLVM names them: "+avx512vnni"
  std::vector<uint32_t> constants;          // slots of parameters that stay the same from run to run
  std::vector<std::string> disabled;        // optional passes to leave out
  std::vector<std::string>* ran = nullptr;  // gets a line for each pass that ran, with its time; may be null
};

// `text` (the numbered text form) after the pass called `name`, as text. The name may have _ for spaces, and
// that of its stage before it, "program/decompose", where two stages have a pass of that name.
//
// Where the graph is what a pass of a stage on its own (StagePasses::alone) takes, that pass alone runs. Where it is
// what an earlier one takes, the required ones in between run first. Any other graph is compiled as far as the pass,
// and what it first leaves is shown. "simplify" is the symbolic rules, all over a graph; "render_c", and the same with
// cuda, hip, opencl and metal, is all passes, down to the kernels' source in that language.
absl::StatusOr<std::string> RunNamedPass(absl::string_view name, absl::string_view text, const PassSettings& settings);

// Every pass of every stage, for people: a line for each, under what its stage takes.
std::string PassList();

// "stage/pass" of every row of the table, with _ for spaces.
std::vector<std::string> PassNames();

// The one of these that `name` means, the first where it names no stage; empty if none is called so.
std::string FullName(absl::string_view name);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TOOLS_PASSES_H_
