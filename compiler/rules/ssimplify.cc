#include "compiler/rules/ssimplify.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "compiler/ir/polynomial.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/symbolic.h"
#include "compiler/structure/variables.h"

namespace kiln::compiler {

UOp* Ssimplify(Graph& graph, UOp* uop) {
  UOp* simple = GraphRewrite(uop, SymbolicRules(), graph);
  if (simple->dtype() != kIndexType || !simple->shape().empty()) return simple;
  const Polynomial sum = PolynomialOf(graph, simple);
  if (!sum.exact()) return simple;
  UOp* normal = GraphRewrite(FromPolynomial(graph, sum), SymbolicRules(), graph);
  return Toposort(normal).size() <= Toposort(simple).size() ? normal : simple;
}

absl::StatusOr<int64_t> SymInfer(UOp* root, const std::map<std::string, int64_t>& values) {
  absl::flat_hash_map<const UOp*, uint64_t> known;  // bits, in ConstArg's form
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::STACK && uop->src().empty()) continue;  // a variable's shape
    if (uop->IsVariable()) {
      const auto value = values.find(uop->arg_as<BufferArg>().name);
      if (value == values.end())
        return MakeError(v1::MISSING_ARGUMENT, absl::StrCat("variable ", ToString(uop), " has no value"));
      KILN_RETURN_IF_ERROR(CheckValue(uop, value->second));
      known[uop] = static_cast<uint64_t>(value->second);
    } else if (uop->IsConst()) {
      known[uop] = uop->arg_as<ConstArg>().bits;
    } else if (IsElementwise(uop->op()) && IsIntOrBool(uop->dtype())) {
      std::vector<uint64_t> operands;
      for (const UOp* source : uop->src()) {
        const auto operand = known.find(source);
        if (operand == known.end()) return MakeError(v1::UNSUPPORTED_OP, "an operand that is no integer");
        operands.push_back(operand->second);
      }
      const DType from = uop->op() == Op::WHERE ? uop->dtype() : uop->src(0)->dtype();
      known[uop] = EvalScalar(uop->op(), from, uop->dtype(), operands);
    } else {
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat(Name(uop->op()), " in an expression of variables"));
    }
  }
  if (!known.contains(root)) return MakeError(v1::UNSUPPORTED_OP, "not an integer");
  return static_cast<int64_t>(known.at(root));
}

}  // namespace kiln::compiler
