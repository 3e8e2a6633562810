#include "compiler/target/llvm/row_order.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/target/llvm/values/values.h"

namespace kiln::compiler {
namespace {

// The shape of the lanes of which `uop` has a value, or stores one.
const Shape& LanesShape(const UOp* uop) {
  return uop->op() == Op::STORE ? WithoutOrder(uop->src(0))->shape() : uop->shape();
}

bool SameRows(const UOp* uop, const Shape& shape) {
  const Shape& mine = LanesShape(uop);
  return mine.size() == shape.size() && std::equal(mine.begin(), mine.end() - (mine.empty() ? 0 : 1), shape.begin());
}

// INDEX(storage, places) of a LOAD or STORE; null if it is of registers.
const UOp* PlaceOf(const UOp* access) {
  const UOp* place = WithoutOrder(access->src(0));
  return place->op() == Op::INDEX ? place : nullptr;
}

bool StoresToMemory(const UOp* uop) { return uop->op() == Op::STORE && PlaceOf(uop) != nullptr; }

// What a segment may have: values, and accesses to memory. Loops end it, and so does what mixes rows.
bool StaysInSegment(const UOp* uop) {
  switch (uop->op()) {
    case Op::CONST:
    case Op::PARAM:
    case Op::STACK:
    case Op::EXPAND:
    case Op::RESHAPE:
    case Op::INDEX:
    case Op::AFTER: return true;
    case Op::STORE: return StoresToMemory(uop);
    default: return IsByRows(uop);
  }
}

class Segment {
 public:
  Segment(absl::Span<UOp* const> uops, int64_t many_rows) : uops_(uops), many_rows_(many_rows) {}

  void AppendTo(std::vector<EmitStep>& steps) {
    if (!FindRows()) {
      for (UOp* uop : uops_) steps.push_back({uop, kAllRows});
      return;
    }
    for (UOp* uop : uops_) {
      if (!rows_.contains(uop)) steps.push_back({uop, kAllRows});
    }
    for (int64_t row = 0; row < RowsOf(*shape_); ++row) {
      for (UOp* uop : uops_) {
        if (rows_.contains(uop)) steps.push_back({uop, row});
      }
    }
  }

 private:
  // What is emitted row by row; false if nothing is.
  bool FindRows() {
    const auto store = std::find_if(uops_.begin(), uops_.end(), [this](const UOp* uop) {
      return StoresToMemory(uop) && IsConst(LanesShape(uop)) && RowsOf(LanesShape(uop)) >= many_rows_;
    });
    if (store == uops_.end()) return false;
    shape_ = &LanesShape(*store);
    bool stored = false;
    for (UOp* uop : uops_) {
      const bool by_rows = (IsByRows(uop) || uop->op() == Op::STORE) && SameRows(uop, *shape_);
      const auto reads_rows = [&](UOp* source) { return rows_.contains(WithoutOrder(source)); };
      // An INDEX is no value of its own: it is read where it is used.
      const bool is_value = uop->op() != Op::INDEX && uop->op() != Op::AFTER;
      if (!by_rows && is_value && std::any_of(uop->src().begin(), uop->src().end(), reads_rows)) return false;
      if (by_rows) rows_.insert(uop);
      if (uop->op() == Op::LOAD && stored) return false;
      if (uop->op() != Op::STORE) continue;
      stored = true;
      if (!by_rows || !MayBeEarly(uop)) return false;
    }
    return true;
  }

  // Whether all that is loaded from where `store` goes comes from the same places.
  bool MayBeEarly(const UOp* store) const {
    const UOp* target = PlaceOf(store);
    return std::all_of(uops_.begin(), uops_.end(), [&](const UOp* uop) {
      if (uop->op() != Op::LOAD || PlaceOf(uop) == nullptr) return true;
      const UOp* place = PlaceOf(uop);
      return WithoutOrder(place->src(0)) != WithoutOrder(target->src(0)) ||
             (place->src(1) == target->src(1) && rows_.contains(uop));
    });
  }

  const absl::Span<UOp* const> uops_;
  const int64_t many_rows_;
  const Shape* shape_ = nullptr;
  absl::flat_hash_set<const UOp*> rows_;
};

}  // namespace

bool IsByRows(const UOp* uop) {
  switch (uop->op()) {
    case Op::LOAD: return true;
    case Op::BITCAST: return ItemSize(uop->dtype()) == ItemSize(uop->src(0)->dtype());
    default: return IsElementwise(uop->op());
  }
}

std::vector<EmitStep> InRowOrder(absl::Span<UOp* const> linear, int64_t many_rows) {
  std::vector<EmitStep> steps;
  for (size_t begin = 0; begin < linear.size();) {
    size_t end = begin;
    while (end < linear.size() && StaysInSegment(linear[end])) ++end;
    if (end > begin) Segment(linear.subspan(begin, end - begin), many_rows).AppendTo(steps);
    if (end < linear.size()) steps.push_back({linear[end], kAllRows});
    begin = end + 1;
  }
  return steps;
}

}  // namespace kiln::compiler
