#include "compiler/structure/variables.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

absl::Status BadArgument(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

absl::Status VariableError(v1::ErrorCode code, const UOp* variable, absl::string_view text) {
  const BufferArg& arg = variable->arg_as<BufferArg>();
  return SlotError(code, arg.slot,
                   absl::StrCat("variable ", ToString(variable), " (slot ", arg.slot, ", from ", arg.min, " to ",
                                arg.max, "): ", text));
}

}  // namespace

absl::StatusOr<UOp*> Bind(Graph& graph, UOp* variable, const UOp* value) {
  if (!variable->IsVariable())
    return BadArgument(absl::StrCat("BIND gives a variable a value, not a ", Name(variable->op())));
  if (!value->IsConst() || !IsInt(value->dtype())) return BadArgument("BIND's value is an integer CONST");
  KILN_RETURN_IF_ERROR(CheckValue(variable, value->const_int()));
  const auto [known, is_new] = graph.bindings().emplace(variable, value->const_int());
  if (!is_new && known->second != value->const_int()) {
    return VariableError(v1::BAD_ARGUMENT, variable,
                         absl::StrCat("bound to ", known->second, " and to ", value->const_int()));
  }
  return variable;
}

absl::StatusOr<UOp*> BindByStore(Graph& graph, absl::Span<UOp* const> src) {
  for (const UOp* dep : src.subspan(1)) {
    if (dep->op() != Op::STORE || dep->src(0) != src[0])
      return BadArgument("AFTER over a variable takes STOREs to it, and nothing else");
    KILN_RETURN_IF_ERROR(Bind(graph, src[0], dep->src(1)).status());
  }
  return src[0];
}

namespace {

// The bound of a coordinate; what is none is for the spec to refuse.
absl::Status FoldBound(Graph& graph, std::vector<UOp*>& src) {
  if (src.size() != 1 || src[0]->IsConst() || !src[0]->shape().empty() || !IsInt(src[0]->dtype()))
    return absl::OkStatus();
  const Polynomial bound = PolynomialOf(graph, src[0]);
  if (!IsSize(graph, bound)) return absl::OkStatus();
  const std::optional<Bounds> range = bound.Range();
  if (!range.has_value()) return MakeError(v1::SIZE_OVERFLOW, "a bound that may leave 64 bits");
  src[0] = FromPolynomial(graph, bound);
  return absl::OkStatus();
}

}  // namespace

absl::Status FoldSizes(Graph& graph, Op op, std::vector<UOp*>& src) {
  size_t first = 0;
  switch (op) {
    case Op::PARAM:
    case Op::BUFFER: break;
    case Op::SPECIAL: return FoldBound(graph, src);
    case Op::RESHAPE:
    case Op::EXPAND:
    case Op::PAD:
    case Op::SHRINK: first = 1; break;
    default: return absl::OkStatus();
  }
  const auto is_number = [](const UOp* uop) { return uop->IsConst(); };
  for (size_t i = first; i < src.size(); ++i) {
    const absl::Span<UOp* const> sizes = src[i]->src();
    const bool many = src[i]->op() == Op::STACK;
    // A place in memory, in a program: any integer that no variable is in.
    if (op == Op::SHRINK && i == 1 && !many && !src[i]->IsConst()) {
      const Polynomial place = PolynomialOf(graph, src[i]);
      if (!IsSize(graph, place) || place.constant().has_value()) return absl::OkStatus();
    }
    const bool symbolic = op == Op::SHRINK && !IsConst(src[0]->shape());
    if (many ? std::all_of(sizes.begin(), sizes.end(), is_number) : src[i]->IsConst() && !symbolic) continue;
    KILN_ASSIGN_OR_RETURN(const Shape read, ReadSizes(graph, src[i]));
    src[i] = ShapeSource(graph, read);
  }
  return absl::OkStatus();
}

bool IsKnownAtLaunch(const UOp* uop) {
  constexpr int kMaxNodes = 256;
  std::vector<const UOp*> stack = {uop};
  for (int visited = 0; !stack.empty(); ++visited) {
    const UOp* top = stack.back();
    stack.pop_back();
    if (visited == kMaxNodes) return false;
    if (top->IsConst() || top->IsVariable()) continue;
    if (!IsElementwise(top->op())) return false;
    stack.insert(stack.end(), top->src().begin(), top->src().end());
  }
  return true;
}

absl::Status CheckValue(const UOp* variable, int64_t value) {
  const BufferArg& arg = variable->arg_as<BufferArg>();
  if (value >= arg.min && value <= arg.max) return absl::OkStatus();
  return VariableError(v1::BAD_ARGUMENT, variable, absl::StrCat("it cannot be ", value));
}

absl::Status CheckPassed(const UOp* variable, const UOp* argument, absl::string_view what) {
  const Bounds &has = argument->bounds(), &takes = variable->bounds();
  if (IsInt(argument->dtype()) && argument->shape().empty() && has.min >= takes.min && has.max <= takes.max)
    return absl::OkStatus();
  return VariableError(v1::BAD_ARGUMENT, variable,
                       absl::StrCat("what ", what, " passes for it is to be an integer within that range"));
}

namespace {

absl::StatusOr<UOp*> BindAll(Graph& graph, UOp* root, const VariableValues& values, bool in_body);

// The body of a CALL of a kernel: a variable that is an argument has its value.
absl::StatusOr<UOp*> BindBody(Graph& graph, UOp* body, absl::Span<UOp* const> args, VariableValues values) {
  for (size_t slot = 0; slot < args.size(); ++slot) {
    values.erase(static_cast<uint32_t>(slot));
    if (!IsInt(args[slot]->dtype()) || !args[slot]->shape().empty()) continue;
    if (const std::optional<int64_t> number = PolynomialOf(graph, args[slot]).constant(); number.has_value())
      values[static_cast<uint32_t>(slot)] = *number;
  }
  return BindAll(graph, body, values, /*in_body=*/true);
}

absl::StatusOr<UOp*> BindAll(Graph& graph, UOp* root, const VariableValues& values, bool in_body) {
  absl::flat_hash_map<UOp*, UOp*> bound;
  for (UOp* uop : ToposortScope(root)) {
    if (uop->IsVariable()) {
      const auto given = values.find(uop->arg_as<BufferArg>().slot);
      const auto binding = graph.bindings().find(uop);
      if (given == values.end() && binding == graph.bindings().end())
        return VariableError(v1::MISSING_ARGUMENT, uop, "it has no value");
      const int64_t value = given != values.end() ? given->second : binding->second;
      KILN_RETURN_IF_ERROR(CheckValue(uop, value));
      bound[uop] = ConstInt(graph, uop->dtype(), value);
      continue;
    }
    std::vector<UOp*> src(uop->src().begin(), uop->src().end());
    for (size_t i = uop->op() == Op::CALL ? 1 : 0; i < src.size(); ++i) src[i] = bound[src[i]];
    if (uop->op() == Op::CALL) {
      if (in_body) return graph.Locate(BadArgument("a CALL in the body of a CALL of a kernel"), uop);
      KILN_ASSIGN_OR_RETURN(src[0], BindBody(graph, src[0], absl::MakeSpan(src).subspan(1), values));
    }
    absl::StatusOr<UOp*> made;
    const absl::Status folded = FoldSizes(graph, uop->op(), src);
    if (folded.ok()) {
      made = graph.TryMake(uop->op(), src, uop->arg());
    } else {
      made = folded;
    }
    if (!made.ok()) return graph.Locate(made.status(), uop);
    graph.CopyOrigin(uop, *made);
    bound[uop] = *made;
  }
  return bound[root];
}

}  // namespace

absl::StatusOr<UOp*> BindVariables(Graph& graph, UOp* root, const VariableValues& values) {
  return BindAll(graph, root, values, /*in_body=*/false);
}

}  // namespace kiln::compiler
