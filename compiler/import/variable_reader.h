// Reading the variables of a graph (variables.h), whichever way it spells them.
// tests/e2e/symbolic_test.cc and tests/conformance/symbolic_test.cc hold it against values.
#ifndef KILN_COMPILER_IMPORT_VARIABLE_READER_H_
#define KILN_COMPILER_IMPORT_VARIABLE_READER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// Whether the node spells a variable.
bool IsVariable(const v1::UOp& node);

// Reads the variables of one graph.
class VariableReader {
 public:
  // A DEFINE_VAR or BUFFER is known by its name. It keeps its slot if nothing else
  // has it, and no function as many arguments; otherwise it gets a free one, in
  // the order of the names.
  explicit VariableReader(const v1::Graph& wire);

  // Whether the graph has any.
  bool any() const { return any_; }

  // The variable that `node` spells; its sources are `src`.
  absl::StatusOr<UOp*> Read(Graph& graph, const v1::UOp& node, absl::Span<UOp* const> src) const;

 private:
  std::map<std::string, uint32_t> slot_of_;  // by name
  bool any_ = false;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_VARIABLE_READER_H_
