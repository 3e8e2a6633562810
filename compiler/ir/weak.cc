#include "compiler/ir/weak.h"

#include <bit>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  absl::flat_hash_map<UOp*, UOp*> strong;
  for (UOp* uop : Toposort(x)) {
    if (!IsWeak(uop->dtype())) continue;
    if (uop->op() == Op::CONST) {
      strong[uop] = StrengthenConst(graph, uop->arg_as<ConstArg>(), dtype);
      continue;
    }
    std::vector<UOp*> src(uop->src().begin(), uop->src().end());
    // Only the data of a movement op turns strong; its shape stays as it is.
    const size_t data = Is(uop->op(), kMovement) && uop->op() != Op::STACK ? 1 : src.size();
    for (size_t i = 0; i < data; ++i) {
      if (auto found = strong.find(src[i]); found != strong.end()) src[i] = found->second;
    }
    Arg arg = uop->arg();
    if (auto* fill = std::get_if<ConstArg>(&arg)) arg = StrengthenConst(graph, *fill, dtype)->arg();
    if (std::holds_alternative<DType>(arg)) arg = dtype;
    KILN_ASSIGN_OR_RETURN(strong[uop], graph.TryMake(uop->op(), src, std::move(arg)));
  }
  return strong[x];
}

absl::StatusOr<UOp*> StrengthenByDefault(Graph& graph, UOp* x) {
  if (!IsWeak(x->dtype())) return x;
  if (x->dtype() == DType::kWeakfloat) return Strengthen(graph, x, DType::kFloat32);
  const bool narrow = x->bounds().min >= std::numeric_limits<int32_t>::min() && x->bounds().max <= std::numeric_limits<int32_t>::max();
  return Strengthen(graph, x, narrow ? DType::kInt32 : DType::kInt64);
}

}  // namespace kiln::compiler
