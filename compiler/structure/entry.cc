#include "compiler/structure/entry.h"

#include <vector>

#include "absl/container/flat_hash_set.h"

namespace kiln::compiler {

EntryLevel LevelOf(UOp* root) {
  if (root->op() == Op::LINEAR) return EntryLevel::kProgram;
  if (root->op() != Op::SINK) return EntryLevel::kTensor;
  if (std::holds_alternative<KernelArg>(root->arg())) return EntryLevel::kKernel;
  absl::flat_hash_set<const UOp*> seen = {root};
  std::vector<const UOp*> stack = {root};
  while (!stack.empty()) {
    const UOp* uop = stack.back();
    stack.pop_back();
    if (uop->op() == Op::SPECIAL) return EntryLevel::kKernel;
    if (uop->op() == Op::RANGE && uop->arg_as<RangeArg>().type != AxisType::kDevice) return EntryLevel::kKernel;
    const bool has_body = uop->op() == Op::CALL || uop->op() == Op::FUNCTION;
    for (const UOp* source : uop->src().subspan(has_body ? 1 : 0)) {
      if (seen.insert(source).second) stack.push_back(source);
    }
  }
  return EntryLevel::kTensor;
}

}  // namespace kiln::compiler
