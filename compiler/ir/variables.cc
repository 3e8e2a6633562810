#include "compiler/ir/variables.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/functions.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/program_nodes.h"

namespace kiln::compiler {
namespace {

absl::Status BadArgument(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

absl::Status VariableError(v1::ErrorCode code, const UOp* variable, absl::string_view text) {
  const BufferArg& arg = variable->arg_as<BufferArg>();
  return SlotError(code, arg.slot,
                   absl::StrCat("variable ", ToString(variable), " (slot ", arg.slot, ", from ", arg.min, " to ",
                                arg.max, "): ", text));
}

bool ByName(const v1::UOp& node) { return node.op() == v1::DEFINE_VAR || node.op() == v1::BUFFER; }

bool TakesSlot(const v1::UOp& node) { return node.op() == v1::PARAM || node.op() == v1::BUFFER; }

// A fully weak integer is int32, or int64 where it must be.
absl::StatusOr<DType> DTypeOf(const v1::BufferArg& arg) {
  const DType dtype = FromWire(arg.dtype());
  if (dtype == DType::kWeakint) {
    const bool narrow = arg.min_value() >= std::numeric_limits<int32_t>::min() &&
                        arg.max_value() <= std::numeric_limits<int32_t>::max();
    return narrow ? DType::kInt32 : DType::kInt64;
  }
  if (dtype == DType::kNone || !IsInt(dtype)) return BadArgument("a variable is an integer");
  return dtype;
}

}  // namespace

bool IsVariable(const v1::UOp& node) {
  if (node.op() == v1::DEFINE_VAR) return true;
  return TakesSlot(node) && node.has_buffer() && node.buffer().addrspace() == v1::ALU;
}

VariableReader::VariableReader(const v1::Graph& wire) {
  std::set<uint32_t> taken;
  uint32_t free = 0, arguments = 0;
  const std::vector<bool> reached = Reached(wire);
  for (int i = 0; i < wire.nodes_size(); ++i) {
    const v1::UOp& node = wire.nodes(i);
    if (!reached[i]) continue;
    if (node.op() == v1::FUNCTION || node.op() == v1::CALL)
      arguments = std::max(arguments, static_cast<uint32_t>(node.src_size()));
    if (!TakesSlot(node) && node.op() != v1::DEFINE_VAR && node.op() != v1::DEFINE_GLOBAL) continue;
    any_ |= IsVariable(node);
    free = std::max(free, std::min(node.buffer().slot(), 1u << 16) + 1);
    if (IsVariable(node) && ByName(node)) {
      // Of two, the lower: the order of nodes says nothing.
      const auto [known, is_new] = slot_of_.emplace(node.buffer().name(), node.buffer().slot());
      if (!is_new) known->second = std::min(known->second, node.buffer().slot());
    } else if (node.op() != v1::DEFINE_VAR) {
      taken.insert(node.buffer().slot());
    }
  }
  free = std::max(free, arguments);
  for (auto& [name, slot] : slot_of_) {
    if (slot >= arguments && taken.insert(slot).second) continue;
    slot = free++;
  }
  for (const v1::UOp& node : wire.nodes()) {
    if (IsVariable(node) && ByName(node) && slot_of_.try_emplace(node.buffer().name(), free).second) ++free;
  }
}

absl::StatusOr<UOp*> VariableReader::Read(Graph& graph, const v1::UOp& node, absl::Span<UOp* const> src) const {
  const v1::BufferArg& wire = node.buffer();
  if (!node.has_buffer()) return BadArgument("a variable wants a buffer argument with its name and range");
  if (wire.addrspace() != v1::ALU && wire.addrspace() != v1::ADDRSPACE_UNSPECIFIED)
    return BadArgument("a variable is in the address space ALU");
  if (src.size() > 1) return MakeError(v1::WRONG_SOURCE_COUNT, "a variable takes no source but its shape, ()");
  if (!src.empty() && (src[0]->op() != Op::STACK || !src[0]->src().empty()))
    return MakeError(v1::SHAPE_MISMATCH, "a variable is one integer: its shape is ()");
  if (!wire.has_min_value() || !wire.has_max_value() || wire.min_value() > wire.max_value())
    return BadArgument("a variable has a least and a greatest value (min_value, max_value)");
  BufferArg arg;
  KILN_ASSIGN_OR_RETURN(arg.dtype, DTypeOf(wire));
  const Bounds range = BoundsOf(arg.dtype);
  if (wire.min_value() < range.min || wire.max_value() > range.max) {
    return BadArgument(
        absl::StrCat("a variable from ", wire.min_value(), " to ", wire.max_value(), " is no ", Name(arg.dtype)));
  }
  if (ByName(node) && wire.name().empty()) return BadArgument("a variable that is no PARAM is known by its name");
  arg.slot = ByName(node) ? slot_of_.at(wire.name()) : wire.slot();
  if (arg.slot >= 1u << 16) return BadArgument(absl::StrCat("slot ", arg.slot, "; slots are below 65536"));
  arg.addrspace = AddrSpace::kAlu;
  arg.name = wire.name();
  arg.min = wire.min_value();
  arg.max = wire.max_value();
  return graph.TryMake(Op::PARAM, {{ShapeSource(graph, {})}}, arg);
}

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
  constexpr int kMostNodes = 256;
  std::vector<const UOp*> stack = {uop};
  for (int visited = 0; !stack.empty(); ++visited) {
    const UOp* top = stack.back();
    stack.pop_back();
    if (visited == kMostNodes) return false;
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
