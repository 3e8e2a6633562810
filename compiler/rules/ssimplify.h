// Symbolic integers, for code that builds on the compiler: simplify one, or work
// out its value.
#ifndef KILN_COMPILER_RULES_SSIMPLIFY_H_
#define KILN_COMPILER_RULES_SSIMPLIFY_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// `uop`, an expression of any dtype, as the rules simplify it; an int64 scalar is
// then written as a sum of products if that takes no more nodes. Equal for all
// values of what stands in it.
UOp* Ssimplify(Graph& graph, UOp* uop);

// The value of an integer or bool expression of CONSTs and variables, whose values
// are given by name. MISSING_ARGUMENT for a variable without one, BAD_ARGUMENT for
// one outside its range, and UNSUPPORTED_OP for what is no such expression.
absl::StatusOr<int64_t> SymInfer(UOp* uop, const std::map<std::string, int64_t>& values);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_SSIMPLIFY_H_
