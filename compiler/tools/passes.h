// The compiler's passes by name, each on a graph of its own: for kiln_opt and
// for the golden tests.
#ifndef KILN_COMPILER_TOOLS_PASSES_H_
#define KILN_COMPILER_TOOLS_PASSES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

struct NamedPass {
  absl::string_view name;
  absl::string_view what;  // one line for --help
  absl::StatusOr<UOp*> (*run)(Graph& graph, UOp* root, const v1::Target& target);
};

const std::vector<NamedPass>& NamedPasses();

// `text` (the numbered text form) through the pass called `name`, as text.
// "render_c", and the same with cuda, hip, opencl and metal, is all passes, down
// to the kernels' source in that language.
// `vector_bytes`: the width of the imagined machine's registers.
absl::StatusOr<std::string> RunNamedPass(absl::string_view name, absl::string_view text, uint32_t vector_bytes);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TOOLS_PASSES_H_
