#include "compiler/target/cstyle/lower.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/program/list_rewrite.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/decompose.h"
#include "compiler/target/cstyle/inlining.h"
#include "compiler/target/cstyle/literal.h"
#include "compiler/target/cstyle/program.h"
#include "compiler/target/cstyle/scalarize.h"

namespace kiln::compiler {
namespace {

absl::Status Unsupported(absl::string_view text) { return MakeError(v1::UNSUPPORTED_OP, text); }

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
      if (!dialect.HasWorkItems()) return Unsupported(absl::StrCat("SPECIAL in ", dialect.name));
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
    case Op::STACK:
    case Op::LOAD: {
      const bool vector = uop->shape().size() == 1 && !dialect.vector_type.empty();
      if (uop->shape().empty() || vector || IsWeak(dtype)) return absl::OkStatus();
      return Unsupported(absl::StrCat(Name(uop->op()), " of shape ", ToString(uop->shape()), " in ", dialect.name));
    }
    case Op::BITCAST:
    case Op::PARAM:
    case Op::CONST:
    case Op::INDEX:
    case Op::SHRINK:
    case Op::AFTER:
    case Op::STORE:
    case Op::RANGE:
    case Op::END:
    case Op::IF:
    case Op::ENDIF:
    case Op::BARRIER:
    case Op::CUSTOM:
    case Op::CUSTOMI:
    case Op::GROUP:
    case Op::SINK:
    case Op::LINEAR: return absl::OkStatus();
    default:
      if (IsElementwise(uop->op()) && uop->shape().empty()) return absl::OkStatus();
      return Unsupported(absl::StrCat(Name(uop->op()), " of shape ", ToString(uop->shape()), " in ", dialect.name));
  }
}

// `status` with the client's node: what `uop` was, or the first that needs it, or
// all of `root`; for a kernel that the compiler made, with the op alone.
absl::Status LocateNear(const Graph& graph, UOp* root, const UOp* uop, const absl::Status& status) {
  absl::flat_hash_set<const UOp*> above = {uop};
  for (const UOp* user : Toposort(root)) {
    for (const UOp* source : user->src()) {
      if (above.contains(source)) above.insert(user);
    }
    if (!above.contains(user)) continue;
    const absl::Status located = graph.Locate(status, user);
    if (const auto detail = DetailOf(located); detail.has_value() && detail->has_node()) return located;
  }
  v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
  detail.set_op(std::string(Name(uop->op())));
  return MakeError(std::move(detail), status.message());
}

// The text follows the list: what an instruction's text has must stand before it, in
// a scope that is open there.
absl::Status CheckList(const Graph& graph, UOp* linear, const Dialect& dialect) {
  std::vector<UOp*> order = Toposort(linear);
  // Values that nothing uses are not written: some say what the shape of storage is.
  absl::flat_hash_set<const UOp*> printed;
  for (const UOp* uop : linear->src()) {
    if (uop->op() != Op::STACK && !IsElementwise(uop->op())) printed.insert(uop);
  }
  for (auto uop = order.rbegin(); uop != order.rend(); ++uop) {
    if (printed.contains(*uop)) printed.insert(PrintedSources(*uop).begin(), PrintedSources(*uop).end());
  }
  for (UOp* uop : order) {
    if (!printed.contains(uop)) continue;
    if (absl::Status fits = CheckNode(uop, dialect); !fits.ok()) return LocateNear(graph, linear, uop, fits);
  }
  absl::flat_hash_set<const UOp*> known;
  std::vector<std::vector<const UOp*>> scopes(1);
  const auto close = [&] {
    for (const UOp* uop : scopes.back()) known.erase(uop);
    scopes.pop_back();
    return !scopes.empty();
  };
  for (UOp* uop : linear->src()) {
    for (const UOp* source : PrintedSources(uop)) {
      const bool leaf = source->op() == Op::CONST || source->op() == Op::PARAM || source->op() == Op::BUFFER ||
                        source->op() == Op::SPECIAL || IsWeak(source->dtype());
      if (leaf || known.contains(source)) continue;
      const std::string text = absl::StrCat(Name(source->op()), " is used by ", Name(uop->op()), ", but not listed");
      return LocateNear(graph, linear, source, MakeError(v1::INTERNAL_FAULT, text));
    }
    const size_t closed = uop->op() == Op::ENDIF ? 1 : uop->op() == Op::END ? uop->src().size() - 1 : 0;
    for (size_t k = 0; k < closed; ++k) {
      if (!close()) return MakeError(v1::INTERNAL_FAULT, "more scopes are closed than opened");
    }
    if (uop->op() == Op::RANGE || uop->op() == Op::IF) scopes.emplace_back();
    known.insert(uop);
    scopes.back().push_back(uop);
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
  KILN_RETURN_IF_ERROR(CheckList(graph, linear, dialect));
  return linear;
}

absl::StatusOr<UOp*> LowerProgramForDialect(Graph& graph, UOp* linear, UOp* program, const Dialect& dialect) {
  linear = NumberReads(graph, linear, program);
  graph.InheritOrigin(linear, program);
  KILN_RETURN_IF_ERROR(CheckList(graph, linear, dialect));
  return linear;
}

}  // namespace kiln::compiler
