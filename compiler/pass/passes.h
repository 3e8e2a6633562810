// The table of all passes (passes.cc), and what is asked of it as a whole.
#ifndef KILN_COMPILER_PASS_PASSES_H_
#define KILN_COMPILER_PASS_PASSES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compiler/pass/pass.h"

namespace kiln::compiler {

// Stage by stage, in the order of a compile.
const std::vector<StagePasses>& AllPasses();

const StagePasses& PassesOf(Stage stage);

// The first pass of this name, or null.
const Pass* FindPass(absl::string_view name);

// BAD_ARGUMENT, with the names that would do, unless each of `names` is an optional pass.
absl::Status CheckDisabled(absl::Span<const std::string> names);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PASS_PASSES_H_
