#include "compiler/import/spellings.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/weak.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"

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
  if (x->dtype() == DType::kBool) return Not(graph, x);
  return graph.TryMake(Op::MUL, {x, ConstNumber(graph, x->dtype(), -1)});
}

absl::StatusOr<UOp*> TryNot(Graph& graph, UOp* x) {
  return graph.TryMake(Op::CMPNE, {x, ConstNumber(graph, x->dtype(), 1)});
}

// What the core ops below would refuse, said of the operands as they were sent: some are
// made in another order.
absl::Status CheckOperands(v1::Op op, const std::vector<UOp*>& src) {
  Shape shape = src[0]->shape();
  std::string have;
  bool alike = src[0]->dtype() != DType::kVoid;
  for (const UOp* operand : src) {
    absl::StrAppend(&have, have.empty() ? "" : ", ", Name(operand->dtype()));
    alike &= operand->dtype() == src[0]->dtype();
  }
  if (!alike) {
    return MakeError(v1::DTYPE_MISMATCH,
                     absl::StrCat(v1::Op_Name(op), src.size() == 1 ? " wants a value" : " wants operands of one dtype",
                                  ", not (", have, ")"));
  }
  for (const UOp* operand : src) {
    KILN_ASSIGN_OR_RETURN(shape, Broadcast(shape, operand->shape()));
  }
  return absl::OkStatus();
}

// SHRINKs of SHRINKs compose as offsets do: where it is not sure that the second
// box lies inside the first for all values of the variables, it is one box of what
// the first was cut from.
absl::Status Compose(Graph& graph, std::vector<UOp*>& src) {
  const UOp* inner = src[0];
  for (const UOp* box : {src[1], src[2], inner->src(1)}) {
    if (box->op() != Op::STACK && !box->IsConst()) return absl::OkStatus();  // a place in memory
  }
  KILN_ASSIGN_OR_RETURN(const Shape offset, ReadSizes(graph, src[1]));
  KILN_ASSIGN_OR_RETURN(const Shape shape, ReadSizes(graph, src[2]));
  const Shape& from = inner->shape();
  if (offset.size() != from.size() || shape.size() != from.size()) return absl::OkStatus();  // inference says it
  if (IsConst(from) && IsConst(offset) && IsConst(shape)) return absl::OkStatus();
  const Shape first = *ReadSizes(graph, inner->src(1));
  bool inside = true;
  Shape both;
  for (size_t i = 0; i < from.size(); ++i) {
    const Polynomial begin = PolynomialOf(graph, offset[i]), size = PolynomialOf(graph, shape[i]);
    inside &= IsNonNegative(graph, PolynomialOf(graph, from[i]) - begin - size);
    const Polynomial sum = begin + PolynomialOf(graph, first[i]);
    if (!sum.Range().has_value()) return MakeError(v1::SIZE_OVERFLOW, "an offset that may leave 64 bits");
    both.push_back(DimOf(graph, sum));
  }
  if (inside) return absl::OkStatus();
  src[1] = ShapeSource(graph, both);
  src[0] = inner->src(0);
  return absl::OkStatus();
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
    if (op == v1::SHRINK && src.size() == 3 && src[0]->op() == Op::SHRINK) KILN_RETURN_IF_ERROR(Compose(graph, src));
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
  const bool moves = op == v1::CONTIGUOUS || op == v1::COPY || op == v1::ASSIGN;
  if (!moves) KILN_RETURN_IF_ERROR(CheckOperands(op, src));
  switch (op) {
    case v1::NEG: return TryNegate(graph, src[0]);
    case v1::NOT: return TryNot(graph, src[0]);
    case v1::SUB: {
      KILN_ASSIGN_OR_RETURN(UOp * minus, TryNegate(graph, src[1]));
      return graph.TryMake(Op::ADD, {src[0], minus});
    }
    case v1::CMPGT: return graph.TryMake(Op::CMPLT, {src[1], src[0]});
    case v1::CMPGE: {
      KILN_ASSIGN_OR_RETURN(UOp * less, graph.TryMake(Op::CMPLT, {src[0], src[1]}));
      return Not(graph, less);
    }
    case v1::CMPLE: {
      KILN_ASSIGN_OR_RETURN(UOp * greater, graph.TryMake(Op::CMPLT, {src[1], src[0]}));
      return Not(graph, greater);
    }
    case v1::CMPEQ: {
      KILN_ASSIGN_OR_RETURN(UOp * differ, graph.TryMake(Op::CMPNE, {src[0], src[1]}));
      return Not(graph, differ);
    }
    case v1::MULACC: {
      KILN_ASSIGN_OR_RETURN(UOp * product, graph.TryMake(Op::MUL, {src[0], src[1]}));
      return graph.TryMake(Op::ADD, {product, src[2]});
    }
    case v1::IDIV: return graph.TryMake(dialect == v1::LEGACY_2025 ? Op::CDIV : Op::FLOORDIV, src);
    case v1::MOD: return graph.TryMake(dialect == v1::LEGACY_2025 ? Op::CMOD : Op::FLOORMOD, src);
    case v1::ASSIGN: {
      KILN_ASSIGN_OR_RETURN(UOp * store, graph.TryMake(Op::STORE, src));
      return graph.TryMake(Op::AFTER, {src[0], store});
    }
    default: return graph.TryMake(Op::LOAD, src, std::move(arg));  // CONTIGUOUS, COPY
  }
}

}  // namespace kiln::compiler
