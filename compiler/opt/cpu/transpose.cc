#include "compiler/opt/cpu/transpose.h"

#include <algorithm>

#include "compiler/kernel/ranges.h"
#include "compiler/kernel/work.h"

namespace kiln::compiler {
namespace {

// A tile holds so many registers for each value that more nodes than this spill.
constexpr int kMaxWork = 8;
constexpr int64_t kMinTile = 4;

std::optional<int64_t> StrideOf(const UOp* access, UOp* range) { return StrideIn(access->src(0)->src(1), range); }

int64_t Iterations(const UOp* range) { return range->src(0)->IsConst() ? range->src(0)->const_int() : 0; }

}  // namespace

std::optional<std::vector<OptOp>> ChooseTransposeOpts(UOp* sink, const v1::Target& target) {
  const std::vector<UOp*> ranges = OutputRanges(sink);
  std::vector<const UOp*> loads;
  const UOp* store = nullptr;
  int widest = 1, work = 0;
  for (const UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::REDUCE || (uop->op() == Op::STORE && store != nullptr)) return std::nullopt;
    if (uop->op() == Op::STORE) store = uop;
    if (uop->op() == Op::LOAD) loads.push_back(uop);
    if (uop->op() == Op::LOAD || (IsElementwise(uop->op()) && uop->dtype() != kIndexType)) {
      widest = std::max(widest, IsNarrowFloat(uop->dtype()) ? 4 : ItemSize(uop->dtype()));
      work += WorkOf(uop);
    }
  }
  if (store == nullptr || ranges.size() < 2 || work > kMaxWork) return std::nullopt;
  size_t written = ranges.size(), read = ranges.size();
  for (size_t i = 0; i < ranges.size(); ++i) {
    const std::optional<int64_t> stride = StrideOf(store, ranges[i]);
    if (!stride.has_value() || stride == 0) return std::nullopt;
    if (stride == 1) written = i;
  }
  if (written == ranges.size()) return std::nullopt;
  for (const UOp* load : loads) {
    const std::optional<int64_t> across = StrideOf(load, ranges[written]);
    if (!across.has_value() || *across == 0 || *across == 1) continue;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (StrideOf(load, ranges[i]) == 1 && i != written) read = i;
    }
  }
  if (read == ranges.size()) return std::nullopt;
  const auto& tuning = target.tuning();
  int64_t tile = std::max<int64_t>(1, (tuning.vector_bytes() ? tuning.vector_bytes() : 16) / widest);
  while (tile >= kMinTile && (Iterations(ranges[read]) % tile != 0 || Iterations(ranges[written]) % tile != 0))
    tile /= 2;
  if (tile < kMinTile || Iterations(ranges[read]) == 0 || Iterations(ranges[written]) == 0) return std::nullopt;
  return std::vector<OptOp>{{OptOp::kSplit, static_cast<int>(read), tile, AxisType::kUpcast, 0},
                            {OptOp::kSplit, static_cast<int>(written), tile, AxisType::kUpcast, 1},
                            {OptOp::kThread, 0}};
}

}  // namespace kiln::compiler
