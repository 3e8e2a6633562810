#include "compiler/interp/lanes.h"

#include <variant>

#include "base/check.h"
#include "compiler/interp/eval.h"
#include "compiler/interp/tensor.h"

namespace kiln::compiler {
namespace {

Lanes Shifted(const UOp* uop, const Lanes& x) {
  const auto* fill = std::get_if<ConstArg>(&uop->arg());
  const int64_t from = uop->src(0)->shape().back(), to = uop->shape().back();
  const int64_t moved = uop->src(1)->src().back()->const_int() * (uop->op() == Op::SHRINK ? 1 : -1);
  Lanes lanes;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()) / from * to; ++i) {
    const int64_t lane = i % to + moved;
    lanes.push_back(lane >= 0 && lane < from ? x[i / to * from + lane] : fill->bits);
  }
  return lanes;
}

Lanes Transposed(const UOp* uop, const Lanes& x) {
  const int64_t rows = uop->shape().front(), lanes = uop->shape().back();
  const int64_t between = NumElements(uop->shape()) / (rows * lanes);
  Lanes transposed;
  for (int64_t i = 0; i < rows * between * lanes; ++i) {
    const int64_t row = i / (between * lanes), middle = i / lanes % between, lane = i % lanes;
    transposed.push_back(x[(lane * between + middle) * rows + row]);
  }
  return transposed;
}

Lanes Expanded(const UOp* uop, const Lanes& x) {
  Lanes lanes;
  for (const int64_t lane : Spread(uop->src(0)->shape(), uop->shape())) lanes.push_back(x[lane]);
  return lanes;
}

}  // namespace

std::vector<int64_t> Spread(const Shape& from, const Shape& to) {
  const Shape strides = BroadcastStrides(from, to);
  std::vector<int64_t> lanes;
  for (Odometer at(to); !at.done(); at.Next()) lanes.push_back(at.Dot(strides));
  return lanes;
}

Lanes MovedLanes(const UOp* uop, const Lanes& x) {
  switch (uop->op()) {
    case Op::RESHAPE: return x;
    case Op::EXPAND: return Expanded(uop, x);
    case Op::PERMUTE: return Transposed(uop, x);
    default: KILN_CHECK(uop->op() == Op::SHRINK || uop->op() == Op::PAD); return Shifted(uop, x);
  }
}

}  // namespace kiln::compiler
