#include "compiler/opt/gpu/gpu_plan.h"

#include <algorithm>

#include "compiler/opt/product.h"

namespace kiln::compiler {

GpuPlan::GpuPlan(UOp* sink) : axes_(AxesOf(sink)) {
  for (UOp* axis : axes_) left_[axis] = axis->src(0)->IsConst() ? axis->src(0)->const_int() : 0;
}

int GpuPlan::Number(UOp* axis) const {
  return static_cast<int>(std::find(axes_.begin(), axes_.end(), axis) - axes_.begin());
}

void GpuPlan::Vectors(UOp* axis, int64_t amount, AxisType type, int64_t dimension) {
  if (amount == 1) return;
  opts_.push_back({OptOp::kSplit, Number(axis), amount, type, dimension});
  left_[axis] /= amount;
}

bool GpuPlan::Tile(const std::optional<TileChoice>& choice) {
  if (!choice.has_value()) return false;
  opts_.clear();
  const auto fuse = [&](int axis, int axes) {
    opts_.insert(opts_.end(), static_cast<size_t>(axes - 1), {OptOp::kFuse, axis});
  };
  // Inner ones first: the others keep their numbers.
  const bool rows_first = choice->row < choice->column;
  if (rows_first) fuse(choice->column, choice->columns);
  fuse(choice->row, choice->rows);
  if (!rows_first) fuse(choice->column, choice->columns);
  const int row = choice->row - (rows_first ? 0 : choice->columns - 1);
  const int column = choice->column - (rows_first ? choice->rows - 1 : 0);
  opts_.push_back({OptOp::kTensor, row, column, AxisType::kUpcast, choice->tile});
  return true;
}

void GpuPlan::Pad(UOp* axis, int64_t multiple) {
  if (left_[axis] % multiple == 0) return;
  OptOp pad{OptOp::kPadTo, Number(axis), multiple};
  pad.clamp = true;  // no jump over what lies beyond
  opts_.push_back(pad);
  left_[axis] = CeilDiv(left_[axis], multiple) * multiple;
}

void GpuPlan::Items(UOp* axis, int64_t amount, AxisType type) {
  if (amount == 1) return;
  Pad(axis, amount);
  opts_.push_back({OptOp::kSplit, Number(axis), amount, type});
  left_[axis] /= amount;
  AddPart(axis, false);
}

void GpuPlan::Sharers(UOp* axis, int64_t amount) {
  if (amount == 1) return;
  OptOp split{OptOp::kSplit, Number(axis), amount, AxisType::kGroupReduce};
  split.top = true;
  opts_.push_back(split);
  left_[axis] /= amount;
  AddPart(axis, true);
}

// A loop that several REDUCEs close has a number in each.
void GpuPlan::AddPart(UOp* axis, bool before) {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i] != axis) continue;
    axes_.insert(axes_.begin() + static_cast<int64_t>(before ? i : i + 1), nullptr);
    ++i;
  }
}

}  // namespace kiln::compiler
