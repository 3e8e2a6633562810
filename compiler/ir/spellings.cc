#include "compiler/ir/spellings.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/weak.h"

namespace kiln::compiler {
namespace {

// How many sources each derived spelling takes.
struct Spelling {
  v1::Op op;
  int sources;
};
constexpr Spelling kSpellings[] = {
    {v1::NEG, 1},    {v1::NOT, 1},   {v1::SUB, 2},    {v1::CMPGT, 2},      {v1::CMPGE, 2},
    {v1::CMPLE, 2},  {v1::CMPEQ, 2}, {v1::MULACC, 3}, {v1::CONTIGUOUS, 1}, {v1::COPY, 1},
    {v1::ASSIGN, 2}, {v1::IDIV, 2},  {v1::MOD, 2},
};

const Spelling* Find(v1::Op op) {
  for (const Spelling& known : kSpellings) {
    if (known.op == op) return &known;
  }
  return nullptr;
}

absl::StatusOr<UOp*> TryNegate(Graph& graph, UOp* x) {
  if (x->dtype() == DType::kVoid) return MakeError(v1::DTYPE_MISMATCH, "NEG wants a value, not void");
  if (x->dtype() == DType::kBool) return Not(graph, x);
  return graph.TryMake(Op::MUL, {{x, ConstNumber(graph, x->dtype(), -1)}});
}

absl::StatusOr<UOp*> TryNot(Graph& graph, UOp* x) {
  if (x->dtype() == DType::kVoid) return MakeError(v1::DTYPE_MISMATCH, "NOT wants a value, not void");
  return graph.TryMake(Op::CMPNE, {{x, ConstNumber(graph, x->dtype(), 1)}});
}

}  // namespace

bool IsSpelling(v1::Op op) { return Find(op) != nullptr; }

absl::StatusOr<UOp*> MakeSpelled(Graph& graph, v1::Op op, v1::Dialect dialect, std::vector<UOp*> src, Arg arg) {
  if (IsCoreOp(op)) {
    if (op == v1::CAST && !src.empty() && IsWeak(src[0]->dtype()) && std::holds_alternative<DType>(arg) &&
        !IsWeak(std::get<DType>(arg))) {
      // The constant keeps its exact value until it has its dtype.
      if (src[0]->op() == Op::CONST || IsFloat(std::get<DType>(arg)))
        return Strengthen(graph, src[0], std::get<DType>(arg));
      KILN_ASSIGN_OR_RETURN(
          src[0], Strengthen(graph, src[0], src[0]->dtype() == DType::kWeakint ? DType::kInt64 : DType::kFloat64));
    }
    return graph.TryMake(static_cast<Op>(op), src, std::move(arg));
  }
  const Spelling* spelling = Find(op);
  if (spelling == nullptr) {
    return MakeError(v1::UNSUPPORTED_OP,
                     absl::StrCat(v1::Op_Name(op), " is an op of the IR that this server does not build yet"));
  }
  if (static_cast<int>(src.size()) != spelling->sources) {
    return MakeError(v1::WRONG_SOURCE_COUNT,
                     absl::StrCat(v1::Op_Name(op), " takes ", spelling->sources, " sources, not ", src.size()));
  }
  switch (op) {
    case v1::NEG: return TryNegate(graph, src[0]);
    case v1::NOT: return TryNot(graph, src[0]);
    case v1::SUB: {
      KILN_ASSIGN_OR_RETURN(UOp * minus, TryNegate(graph, src[1]));
      return graph.TryMake(Op::ADD, {{src[0], minus}});
    }
    case v1::CMPGT: return graph.TryMake(Op::CMPLT, {{src[1], src[0]}});
    case v1::CMPGE: {
      KILN_ASSIGN_OR_RETURN(UOp * less, graph.TryMake(Op::CMPLT, {{src[0], src[1]}}));
      return Not(graph, less);
    }
    case v1::CMPLE: {
      KILN_ASSIGN_OR_RETURN(UOp * greater, graph.TryMake(Op::CMPLT, {{src[1], src[0]}}));
      return Not(graph, greater);
    }
    case v1::CMPEQ: {
      KILN_ASSIGN_OR_RETURN(UOp * differ, graph.TryMake(Op::CMPNE, {{src[0], src[1]}}));
      return Not(graph, differ);
    }
    case v1::MULACC: {
      KILN_ASSIGN_OR_RETURN(UOp * product, graph.TryMake(Op::MUL, {{src[0], src[1]}}));
      return graph.TryMake(Op::ADD, {{product, src[2]}});
    }
    case v1::IDIV: return graph.TryMake(dialect == v1::LEGACY_2025 ? Op::CDIV : Op::FLOORDIV, src);
    case v1::MOD: return graph.TryMake(dialect == v1::LEGACY_2025 ? Op::CMOD : Op::FLOORMOD, src);
    case v1::ASSIGN: {
      KILN_ASSIGN_OR_RETURN(UOp * store, graph.TryMake(Op::STORE, src));
      return graph.TryMake(Op::AFTER, {{src[0], store}});
    }
    default: return graph.TryMake(Op::LOAD, src);  // CONTIGUOUS, COPY
  }
}

}  // namespace kiln::compiler
