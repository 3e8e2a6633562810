// Callify: the graph of a request becomes one stateless function, a SINK of
// STOREs into parameters and results.
#ifndef KILN_COMPILER_SCHEDULE_CALLIFY_H_
#define KILN_COMPILER_SCHEDULE_CALLIFY_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/opaque_calls.h"

namespace kiln::compiler {

// A program from outside: what it is called with, and what it gives back.
struct Function {
  struct Result {
    UOp* value;                     // as the root has it
    UOp* buffer = nullptr;          // the BUFFER it is stored to; null for an alias
    std::optional<size_t> aliases;  // the parameter that the result is, updated in place
  };
  UOp* sink = nullptr;  // SINK(STORE...), in the order of the root's sources
  // What must not be negative for a call to have a meaning, and what it says then.
  struct Condition {
    UOp* size;  // an int64 expression of variables
    std::string text;
  };
  std::vector<UOp*> parameters;                       // PARAMs in ascending order of slot
  std::vector<bool> written;                          // whether the function stores to the parameter
  std::vector<bool> overwritten;                      // whether it needs nothing of it (overwritten.h); or empty
  std::vector<UOp*> variables;                        // in ascending order of slot
  absl::flat_hash_map<const UOp*, int64_t> bindings;  // the values they have where a call gives none
  std::vector<Condition> conditions;
  std::vector<Result> results;
  KernelBodies bodies;  // of the CALLs, given to Callify
};

// `root` is a TUPLE or a SINK whose sources are values (results), void effects
// (STOREs, and CALLs of kernels as HideBodies leaves them), or AFTERs over a parameter
// (updates in place). Beyond this point there is no concrete buffer of the caller's:
// a BUFFER is a result of the function or is made by a pass, and slots are numbered
// by position.
absl::StatusOr<Function> Callify(Graph& graph, UOp* root);

// What can be told of a root as it was sent: BAD_ROOT if it is no TUPLE or SINK or has a
// source that is neither a value nor an effect; the errors of a STORE's target.
absl::Status CheckRoot(const Graph& graph, UOp* root);

// The PARAMs under `root` in ascending order of slot. BAD_ARGUMENT where a slot is
// used in two ways.
absl::StatusOr<std::vector<UOp*>> ParametersOf(const Graph& graph, UOp* root);

// What must not be negative for a call to have a meaning: boxes that leave the tensor, and sizes that are
// negative, for some values of the variables.
std::vector<Function::Condition> ConditionsOf(Graph& graph, UOp* root);

// The PARAM, BUFFER or BINARY under a chain of movement ops and AFTERs, or
// nullptr if something is computed on the way.
UOp* StorageOf(UOp* uop);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_CALLIFY_H_
