#include "compiler/target/cstyle/lower.h"

#include <cmath>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/list_rewrite.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/decompose.h"
#include "compiler/target/cstyle/scalarize.h"
#include "compiler/target/cstyle/work_items.h"

namespace kiln::compiler {
namespace {

absl::Status Unsupported(absl::string_view text) { return MakeError(v1::UNSUPPORTED_OP, text); }

// No language has a way to write a NaN with a payload, but all can reinterpret bits.
UOp* ConstOrBits(Graph& graph, UOp* uop) {
  if (!uop->IsConst() || !IsFloat(uop->dtype()) || IsWeak(uop->dtype())) return uop;
  const uint64_t bits = uop->arg_as<ConstArg>().bits;
  const uint64_t nan = FloatToBits(ToWire(uop->dtype()), std::numeric_limits<double>::quiet_NaN());
  if (!std::isnan(BitsToFloat(ToWire(uop->dtype()), bits)) || bits == nan) return uop;
  return Bitcast(graph, ConstBits(graph, UnsignedOfSize(ItemSize(uop->dtype())), bits), uop->dtype());
}

bool IsCallOfFunction(const UOp* uop) {
  switch (uop->op()) {
    case Op::EXP2:
    case Op::LOG2:
    case Op::SIN:
    case Op::SQRT:
    case Op::POW:
    case Op::THREEFRY: return true;
    case Op::TRUNC: return IsFloat(uop->dtype());
    default: return false;
  }
}

bool IsCoordinate(absl::string_view name, absl::string_view prefix) {
  return name.size() == prefix.size() + 1 && name.substr(0, prefix.size()) == prefix && name.back() >= '0' &&
         name.back() <= '2';
}

absl::Status CheckNode(const UOp* uop, const Dialect& dialect) {
  const DType dtype = uop->dtype();
  if (dtype != DType::kVoid && !IsWeak(dtype) && dialect.TypeOf(dtype) == nullptr)
    return Unsupported(absl::StrCat(dialect.name, " has no ", Name(dtype)));
  if (IsCallOfFunction(uop) && dialect.FunctionOf(uop->op(), dtype) == nullptr)
    return Unsupported(absl::StrCat(dialect.name, " has no ", Name(uop->op()), " of ", Name(dtype)));
  switch (uop->op()) {
    case Op::ATOMICADD:
      if (dialect.AtomicOf(uop->src(1)->dtype()) == nullptr)
        return Unsupported(absl::StrCat(dialect.name, " has no atomic addition of ", Name(uop->src(1)->dtype())));
      return absl::OkStatus();
    case Op::SPECIAL: {
      const std::string& name = uop->arg_as<TextArg>().text;
      if (IsCoordinate(name, "gidx") || IsCoordinate(name, "lidx") || IsCoordinate(name, "idx"))
        return absl::OkStatus();
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat("SPECIAL \"", name,
                                                      "\"; there are gidx0 to gidx2, lidx0 to "
                                                      "lidx2 and idx0 to idx2"));
    }
    case Op::BUFFER:
      if (uop->addrspace() == AddrSpace::kGlobal) return Unsupported("a BUFFER in global memory, inside a kernel");
      return absl::OkStatus();
    case Op::WMMA: return Unsupported(absl::StrCat("WMMA in ", dialect.name));
    case Op::REDUCE:
    case Op::RESHAPE:
    case Op::EXPAND:
    case Op::CALL:
    case Op::FUNCTION: return Unsupported(absl::StrCat(Name(uop->op()), " in a kernel that is to be text"));
    default: return absl::OkStatus();
  }
}

// Everything but leaves must stand in the list: the text follows its order.
absl::Status CheckList(const Graph& graph, UOp* linear, const Dialect& dialect) {
  const absl::flat_hash_set<UOp*> listed(linear->src().begin(), linear->src().end());
  for (UOp* uop : Toposort(linear)) {
    absl::Status fits = CheckNode(uop, dialect);
    const bool leaf = uop->op() == Op::CONST || uop->op() == Op::PARAM || uop->op() == Op::BUFFER ||
                      IsWeak(uop->dtype()) || uop == linear;
    if (fits.ok() && !leaf && !listed.contains(uop))
      fits = MakeError(v1::BAD_ARGUMENT, absl::StrCat(Name(uop->op()), " is used but not among LINEAR's instructions"));
    if (!fits.ok()) return graph.Locate(fits, uop);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UOp*> LowerForDialect(Graph& graph, UOp* linear, const Dialect& dialect) {
  const RuleSet rules = DecomposeRules(dialect.native);
  Rewriter decompose(rules, graph);
  KILN_ASSIGN_OR_RETURN(linear, RewriteList(graph, linear, [&](UOp* uop) -> absl::StatusOr<UOp*> {
                          return IsElementwise(uop->op()) ? decompose.Rewrite(uop) : ConstOrBits(graph, uop);
                        }));
  // Beyond this point, no arithmetic in narrow floats, and no function that the language lacks.
  KILN_ASSIGN_OR_RETURN(linear, Scalarize(graph, linear, dialect));
  // Beyond this point, operators take scalars, and storage has one axis.
  KILN_ASSIGN_OR_RETURN(linear, dialect.HasWorkItems() ? ZeroShared(graph, linear) : LoopOverItems(graph, linear));
  // Beyond this point, work items and what they share are the dialect's own.
  KILN_RETURN_IF_ERROR(CheckList(graph, linear, dialect));
  return linear;
}

}  // namespace kiln::compiler
