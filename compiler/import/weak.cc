#include "compiler/import/weak.h"

#include <bit>
#include <limits>
#include <vector>

#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

UOp* StrengthenConst(Graph& graph, const ConstArg& value, DType dtype) {
  if (value.invalid) return graph.Make(Op::CONST, {}, ConstArg{dtype, 0, true});
  if (value.dtype == DType::kWeakint) {
    const auto n = static_cast<int64_t>(value.bits);
    return IsFloat(dtype) ? ConstNumber(graph, dtype, static_cast<double>(n)) : ConstInt(graph, dtype, n);
  }
  const double number = std::bit_cast<double>(value.bits);
  if (dtype == DType::kBool) return ConstInt(graph, dtype, number != 0);
  if (!IsFloat(dtype)) {  // as CAST does it: toward zero, saturating, NaN to 0
    const Bounds range = BoundsOf(dtype);
    if (number != number) return ConstInt(graph, dtype, 0);
    if (number <= static_cast<double>(range.min)) return ConstBits(graph, dtype, static_cast<uint64_t>(range.min));
    if (number >= static_cast<double>(range.max)) return ConstBits(graph, dtype, static_cast<uint64_t>(range.max));
    return ConstBits(graph, dtype, static_cast<uint64_t>(static_cast<__int128>(number)));
  }
  return ConstNumber(graph, dtype, number);
}

// Only the data of a movement op turns strong; its shape stays as it is.
size_t DataSources(const UOp* uop) {
  const bool shaped = Is(uop->op(), kMovement) && uop->op() != Op::STACK;
  return shaped ? 1 : uop->src().size();
}

absl::StatusOr<UOp*> StrengthenNode(Graph& graph, UOp* uop, DType dtype) {
  if (uop->op() == Op::CONST) return StrengthenConst(graph, uop->arg_as<ConstArg>(), dtype);
  if (uop->op() == Op::STACK && uop->src().empty()) {
    return MakeError(v1::DTYPE_MISMATCH, "a STACK of nothing is the shape (), not a value");
  }
  std::vector<UOp*> src(uop->src().begin(), uop->src().end());
  for (size_t i = 0; i < DataSources(uop); ++i) {
    if (IsWeak(src[i]->dtype())) src[i] = graph.strengthened().at({src[i], dtype});
  }
  Arg arg = uop->arg();
  if (auto* fill = std::get_if<ConstArg>(&arg)) arg = StrengthenConst(graph, *fill, dtype)->arg();
  if (std::holds_alternative<DType>(arg)) arg = dtype;
  return graph.TryMake(uop->op(), src, std::move(arg));
}

}  // namespace

DType Meet(DType a, DType b) {
  if (a == b) return a;
  if (IsWeak(a) && IsWeak(b)) return DType::kWeakfloat;
  if (IsWeak(a)) std::swap(a, b);
  if (!IsWeak(b)) return DType::kNone;
  if (b == DType::kWeakint) return a == DType::kBool ? DType::kInt32 : a;
  return IsFloat(a) ? a : DType::kFloat32;
}

absl::StatusOr<UOp*> Strengthen(Graph& graph, UOp* x, DType dtype) {
  if (!IsWeak(x->dtype())) return Cast(graph, x, dtype);
  auto& memo = graph.strengthened();
  std::vector<UOp*> stack = {x};
  while (!stack.empty()) {
    UOp* uop = stack.back();
    bool ready = true;
    for (size_t i = 0; i < DataSources(uop); ++i) {
      UOp* source = uop->src(i);
      if (!IsWeak(source->dtype()) || memo.contains({source, dtype})) continue;
      stack.push_back(source);
      ready = false;
    }
    if (!ready) continue;
    stack.pop_back();
    if (memo.contains({uop, dtype})) continue;
    KILN_ASSIGN_OR_RETURN(UOp * strong, StrengthenNode(graph, uop, dtype));
    memo[{uop, dtype}] = strong;
  }
  return memo[{x, dtype}];
}

absl::StatusOr<UOp*> StrengthenByDefault(Graph& graph, UOp* x) {
  if (!IsWeak(x->dtype())) return x;
  if (x->dtype() == DType::kWeakfloat) return Strengthen(graph, x, DType::kFloat32);
  const bool narrow =
      x->bounds().min >= std::numeric_limits<int32_t>::min() && x->bounds().max <= std::numeric_limits<int32_t>::max();
  return Strengthen(graph, x, narrow ? DType::kInt32 : DType::kInt64);
}

}  // namespace kiln::compiler
