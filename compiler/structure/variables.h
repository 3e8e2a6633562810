// Variables: integers that are given with each call, on which sizes, bounds and
// offsets may depend.
//
// A graph may spell one as a PARAM or a BUFFER of address space ALU or as a
// DEFINE_VAR; after import it is a PARAM of address space ALU, a scalar with a
// least and a greatest value. BIND(variable, CONST) is the variable, and gives the
// value that it has where a call gives none.
#ifndef KILN_COMPILER_STRUCTURE_VARIABLES_H_
#define KILN_COMPILER_STRUCTURE_VARIABLES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// BIND(variable, value): the variable, with a value to have where a call gives none.
absl::StatusOr<UOp*> Bind(Graph& graph, UOp* variable, const UOp* value);
// The same, spelled AFTER(variable, STORE(variable, value)...).
absl::StatusOr<UOp*> BindByStore(Graph& graph, absl::Span<UOp* const> src);

// Writes the shapes, offsets and bounds of coordinates among the sources of an `op`
// in the one form that each has: numbers, or the node that stands for all
// expressions of its value.
absl::Status FoldSizes(Graph& graph, Op op, std::vector<UOp*>& src);

// Whether it is made of CONSTs and variables alone: a number that is known before
// anything runs. Not too many of them, as FoldSizes leaves a bound.
bool IsKnownAtLaunch(const UOp* uop);

// Variables by slot.
using VariableValues = std::map<uint32_t, int64_t>;

// `root` with a constant for each variable, all of whose sizes are numbers. Values
// come from `values`, or from what BIND says. MISSING_ARGUMENT without either,
// BAD_ARGUMENT outside the variable's range; and a size or a box that is not
// possible with these values is an error of the node that has it.
absl::StatusOr<UOp*> BindVariables(Graph& graph, UOp* root, const VariableValues& values);

// BAD_ARGUMENT, with slot, name and range, if the variable cannot have this value.
absl::Status CheckValue(const UOp* variable, int64_t value);
// The same for a variable of the body of `what`, a FUNCTION or CALL, that gets
// `argument`: an integer none of whose values is outside the variable's range.
absl::Status CheckPassed(const UOp* variable, const UOp* argument, absl::string_view what);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_VARIABLES_H_
