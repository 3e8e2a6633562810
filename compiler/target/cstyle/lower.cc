#include "compiler/target/cstyle/lower.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/kernel/list_rewrite.h"
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
    case Op::WMMA: return Unsupported(absl::StrCat("WMMA in ", dialect.name));
    case Op::REDUCE:
    case Op::RESHAPE:
    case Op::EXPAND:
    case Op::CALL:
    case Op::FUNCTION: return Unsupported(absl::StrCat(Name(uop->op()), " in a kernel that is to be text"));
    default: return absl::OkStatus();
  }
}

// `status` with the client's node: what `uop` was, or the first that needs it, or
// all of `root`.
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
  return status;
}

// The text follows the list: what an instruction's text has must stand there before it.
absl::Status CheckList(const Graph& graph, UOp* linear, const Dialect& dialect) {
  for (UOp* uop : Toposort(linear)) {
    if (absl::Status fits = CheckNode(uop, dialect); !fits.ok()) return LocateNear(graph, linear, uop, fits);
  }
  absl::flat_hash_set<UOp*> listed;
  for (UOp* uop : linear->src()) {
    listed.insert(uop);
    for (UOp* source : PrintedSources(uop)) {
      const bool leaf = source->op() == Op::CONST || source->op() == Op::PARAM || source->op() == Op::BUFFER ||
                        IsWeak(source->dtype());
      if (leaf || listed.contains(source)) continue;
      return LocateNear(graph, linear, source,
                        MakeError(v1::BAD_ARGUMENT, absl::StrCat(Name(source->op()), " is used but not listed before ",
                                                                 Name(uop->op()))));
    }
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
