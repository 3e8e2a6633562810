#include "compiler/opt/cpu/reduction.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/loop_body.h"

namespace kiln::compiler {
namespace {

bool Contains(absl::Span<UOp* const> ranges, const UOp* range) {
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

std::optional<int64_t> StrideOf(const UOp* access, UOp* range) { return StrideIn(PlaceOf(access), range); }

// Whether every iteration has an element of its own there: beside such a one, what is read again and again is nothing.
bool IsLarge(const LoopBody& body, const UOp* access) {
  const auto moves = [access](UOp* range) { return StrideOf(access, range) != 0; };
  return std::all_of(body.ranges.begin(), body.ranges.end(), moves) &&
         std::all_of(body.open.begin(), body.open.end(), moves);
}

// How badly memory is walked if lanes run along `range`; none if nothing is contiguous that matters.
std::optional<int> LaneCost(const LoopBody& body, UOp* range) {
  int cost = 0;
  bool contiguous = false, large = false;
  for (const UOp* access : body.accesses) {
    const std::optional<int64_t> stride = StrideOf(access, range);
    if (!large && IsLarge(body, access)) {
      large = true;
      contiguous = false;
    }
    contiguous |= stride == 1 && (!large || IsLarge(body, access));
    if (stride != 1 && stride != 0) cost += access->op() == Op::STORE ? 4 : stride.has_value() ? 1 : 3;
  }
  if (!contiguous || cost > static_cast<int>(body.accesses.size()) / 2) return std::nullopt;
  return cost;
}

bool Varies(const UOp* range) { return !range->src(0)->IsConst(); }

// Of a loop whose size each run decides, as many as it can have.
int64_t LikelyIterations(const UOp* range) {
  return Varies(range) ? static_cast<int64_t>(range->src(0)->bounds().max) : Iterations(range);
}

// Whether masked vectors along `range` are cheap: every access is contiguous or the same in all lanes, of at least the
// four bytes that all CPUs with vectors have masks for.
bool MasksAreCheap(const LoopBody& body, UOp* range) {
  return std::all_of(body.accesses.begin(), body.accesses.end(), [range](const UOp* access) {
    const std::optional<int64_t> stride = StrideOf(access, range);
    const UOp* value = access->op() == Op::STORE ? access->src(1) : access;
    return (stride == 0 || stride == 1) && ItemSize(value->dtype()) >= 4;
  });
}

// The range among `ranges` whose lanes walk memory best.
UOp* BestLane(const LoopBody& body, absl::Span<UOp* const> ranges) {
  UOp* best = nullptr;
  int best_cost = 0;
  for (UOp* range : ranges) {
    if (LikelyIterations(range) < 4 || (Varies(range) && !MasksAreCheap(body, range))) continue;
    const std::optional<int> cost = LaneCost(body, range);
    if (!cost.has_value() || (best != nullptr && *cost >= best_cost)) continue;
    best = range;
    best_cost = *cost;
  }
  return best;
}

class ReductionChooser {
 public:
  ReductionChooser(UOp* sink, const v1::Target& target) : axes_(AxesOf(sink)) {
    const auto& tuning = target.tuning();
    vector_bytes_ = tuning.vector_bytes() ? tuning.vector_bytes() : 16;
    registers_ = tuning.vector_registers() ? tuning.vector_registers() : 16;
    cores_ = std::max<int64_t>(1, tuning.cores());
    // Of what stays while rows pass by.
    cache_bytes_ = std::min<int64_t>((tuning.l2_bytes() ? static_cast<int64_t>(tuning.l2_bytes()) : 1 << 20) / 4,
                                     kMaxLocalBytes / 2);
    const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
    for (UOp* uop : Toposort(sink)) {
      if (uop->op() == Op::REDUCE) reduces_.push_back(LoopBodyOf(uop, open.at(uop)));
    }
    if (sink->src(0)->op() == Op::END) {
      output_ = LoopBodyOf(sink->src(0), {});
    } else {
      output_.accesses = {sink->src(0)};
    }
  }

  std::optional<std::vector<OptOp>> Run() {
    if (reduces_.empty() || Stores() != 1) return std::nullopt;
    for (const LoopBody& reduce : reduces_) {
      if (!ReadsOnce(reduce)) return std::nullopt;
    }
    std::vector<UOp*> free;
    for (UOp* range : output_.ranges) {
      if (!IsReduced(range)) free.push_back(range);
    }
    // What does about the same takes equal steps, so that one may use what another had (keep_row.h).
    if (!free.empty()) {
      vectors_ = 4;
      for (const LoopBody& reduce : reduces_) output_.work = std::max(output_.work, reduce.work);
      for (LoopBody& reduce : reduces_) {
        if (2 * reduce.work > output_.work) reduce.work = output_.work;
      }
    }
    if (!Rows() && !(free.empty() && Columns())) return std::nullopt;
    if (!free.empty()) Lanes(output_, free);
    // Where two iterations may store to one place, the later one must win.
    if (!CountsApart(PlaceOf(StoreOf()), output_.ranges)) return opts_;
    if (!output_.ranges.empty() && threads_) opts_.push_back({OptOp::kThread, 0});
    return opts_;
  }

 private:
  int64_t Stores() const {
    return std::count_if(output_.accesses.begin(), output_.accesses.end(),
                         [](const UOp* access) { return access->op() == Op::STORE; });
  }
  const UOp* StoreOf() const {
    return *std::find_if(output_.accesses.begin(), output_.accesses.end(),
                         [](const UOp* access) { return access->op() == Op::STORE; });
  }

  bool IsReduced(UOp* output) const {
    return std::any_of(reduces_.begin(), reduces_.end(),
                       [output](const LoopBody& reduce) { return Contains(reduce.open, output); });
  }

  // Whether one of its LOADs moves along every loop around, and no REDUCE stands there.
  bool ReadsOnce(const LoopBody& reduce) const {
    for (UOp* range : reduce.open) {
      if (!Contains(output_.ranges, range)) return false;
    }
    return std::any_of(reduce.accesses.begin(), reduce.accesses.end(), [&](const UOp* access) {
      return std::all_of(reduce.open.begin(), reduce.open.end(),
                         [access](UOp* range) { return StrideOf(access, range) != 0; });
    });
  }

  // Lanes along each reduction.
  bool Rows() {
    std::vector<UOp*> lanes;
    for (const LoopBody& reduce : reduces_) {
      lanes.push_back(BestLane(reduce, reduce.ranges));
      if (lanes.back() == nullptr) return false;
    }
    absl::flat_hash_set<UOp*> split;  // reductions may share a loop
    for (size_t i = 0; i < reduces_.size(); ++i) {
      if (split.insert(lanes[i]).second) Split(reduces_[i], lanes[i], AxisType::kUnroll, vectors_);
    }
    return true;
  }

  // Lanes along an output loop that all reductions stand in.
  bool Columns() {
    UOp* lane = BestLane(output_, output_.ranges);
    if (lane == nullptr || StrideOf(StoreOf(), lane) != 1) return false;
    for (const LoopBody& reduce : reduces_) {
      if (!Contains(reduce.open, lane) || BestLane(reduce, {lane}) == nullptr) return false;
    }
    if (!RowsFirst(lane))
      Split(reduces_[0], lane, AxisType::kUpcast,
            std::max<int64_t>(1, registers_ / 2 / static_cast<int64_t>(reduces_.size())));
    return true;
  }

  // The rows outside of the columns, a few of them at a time from end to end (outer_reduce.h).
  bool RowsFirst(UOp* lane) {
    if (lane != output_.ranges.back()) return false;
    const int64_t columns = Iterations(lane);
    int64_t widest = output_.widest;
    for (const LoopBody& reduce : reduces_) widest = std::max<int64_t>(widest, reduce.widest);
    const int64_t lanes = std::max<int64_t>(1, vector_bytes_ / widest);
    const bool whole = columns % (4 * lanes) == 0;
    int64_t accumulators = 0;  // bytes of a column's
    for (const LoopBody& reduce : reduces_) {
      if (reduce.ranges.size() != 1 || Iterations(reduce.ranges[0]) < (whole ? 2 : 1) * kMinRows) return false;
      for (UOp* range : reduce.open) {
        if (Iterations(range) == 0) return false;
      }
      accumulators += reduce.widest;
      // Where rows are short, the next one is at hand, and registers are enough for whole vectors.
      if (whole && RowBytes(reduce, lane) < kPage) return false;
    }
    if (columns < 4 * lanes) return false;
    // Pieces of a row for all cores, and as many columns as the cache holds accumulators for.
    const int64_t vectors = (columns + lanes - 1) / lanes;
    int64_t others = 1;
    for (UOp* range : output_.ranges) others *= range == lane ? 1 : Iterations(range);
    const int64_t held = std::max<int64_t>(1, cache_bytes_ / (accumulators * lanes));
    const int64_t shared = std::min((cores_ + others - 1) / others, std::max<int64_t>(1, vectors / kMinPiece));
    const int64_t pieces = std::max((vectors + held - 1) / held, shared);
    const int axis = AxisOf(lane);
    if (columns % (pieces * lanes) != 0) opts_.push_back({OptOp::kPadTo, axis, pieces * lanes});
    opts_.push_back({OptOp::kSplit, axis, lanes, AxisType::kUpcast, 1});
    for (const LoopBody& reduce : reduces_) {
      const int row = AxisOf(reduce.ranges[0]);
      if (Iterations(reduce.ranges[0]) % kRowsAtOnce != 0) opts_.push_back({OptOp::kPadTo, row, kRowsAtOnce});
      opts_.push_back({OptOp::kSplit, row, kRowsAtOnce, AxisType::kUnroll, 0});
    }
    const int inner = pieces > 1 ? axis + 1 : axis;
    if (pieces > 1) opts_.push_back({OptOp::kSplit, axis, (vectors + pieces - 1) / pieces, AxisType::kLoop, 0});
    threads_ = pieces * others > 1;
    for (size_t i = reduces_.size(); i-- > 0;)
      opts_.push_back({OptOp::kSwap, inner, AxisOf(reduces_[i].ranges[0]) + (inner - axis)});
    return true;
  }

  // From one row to the next, in bytes; 0 if nothing is read by rows.
  static int64_t RowBytes(const LoopBody& reduce, UOp* lane) {
    int64_t bytes = 0;
    for (const UOp* access : reduce.accesses) {
      if (StrideOf(access, lane) != 1) continue;
      bytes = std::max(bytes, StrideOf(access, reduce.ranges[0]).value_or(0) * ItemSize(access->dtype()));
    }
    return bytes;
  }

  // Lanes of what is elementwise.
  void Lanes(const LoopBody& body, absl::Span<UOp* const> ranges) {
    UOp* lane = BestLane(body, ranges);
    if (lane != nullptr && StrideOf(StoreOf(), lane) != 0) Split(body, lane, AxisType::kUpcast, vectors_);
  }

  int AxisOf(UOp* range) const {
    return static_cast<int>(std::find(axes_.begin(), axes_.end(), range) - axes_.begin());
  }

  // As many vectors as there is a use for.
  void Split(const LoopBody& body, UOp* range, AxisType type, int64_t most) {
    const int axis = AxisOf(range);
    const int64_t size = Iterations(range);
    const int64_t lanes = std::max<int64_t>(1, vector_bytes_ / body.widest);
    if (Varies(range)) return SplitVarying(body, axis, range, lanes, type, most);
    int64_t amount = 0;
    for (int64_t vectors = most; vectors > 1 && amount == 0; vectors /= 2) {
      if (static_cast<int64_t>(body.work) * vectors > kMaxWork) continue;
      if (size % (vectors * lanes) == 0) amount = vectors * lanes;
    }
    // Along columns, masks are made once for all rows.
    const bool columns = type == AxisType::kUpcast && Contains(reduces_[0].open, range);
    if (amount == 0 && !(columns && size > 4 * lanes)) amount = LargestDivisor(size, lanes);
    if (2 * amount <= lanes) {
      amount = std::min(size, lanes * (columns ? most : 1));
      if (size % amount != 0) opts_.push_back({OptOp::kPadTo, axis, amount});
    }
    opts_.push_back({OptOp::kSplit, axis, amount, type, 0});
  }

  // The last vectors are masked, whichever they are in a run: few where a row cannot be long.
  void SplitVarying(const LoopBody& body, int axis, const UOp* range, int64_t lanes, AxisType type, int64_t most) {
    int64_t vectors = std::clamp<int64_t>(LikelyIterations(range) / (kShortRow * lanes), 1, 4);
    vectors = std::min(vectors, most);
    while (vectors > 1 && static_cast<int64_t>(body.work) * vectors > kMaxWork) vectors /= 2;
    opts_.push_back({OptOp::kPadTo, axis, vectors * lanes});
    opts_.push_back({OptOp::kSplit, axis, vectors * lanes, type, 0});
  }

  // Vectors of a row, up to which it is read one at a time.
  static constexpr int64_t kShortRow = 32;
  // Nodes of one iteration of a loop, beyond which several vectors hide nothing more.
  static constexpr int64_t kMaxWork = 96;
  // Each is a stream that the processor fetches ahead by itself; more of them it loses.
  static constexpr int64_t kRowsAtOnce = 4;
  // Accumulators in memory are set, and read, once for so many.
  static constexpr int64_t kMinRows = 64;
  // Nothing is fetched ahead beyond it.
  static constexpr int64_t kPage = 4096;
  // Vectors of a row, below which another thread does not pay.
  static constexpr int64_t kMinPiece = 16;

  const std::vector<UOp*> axes_;
  LoopBody output_;
  std::vector<LoopBody> reduces_;
  int64_t vector_bytes_, registers_, cores_, cache_bytes_;
  int64_t vectors_ = 8;  // at once along a row
  bool threads_ = true;  // if there is a loop that they may share
  std::vector<OptOp> opts_;
};

}  // namespace

std::optional<std::vector<OptOp>> ChooseReductionOpts(UOp* sink, const v1::Target& target) {
  return ReductionChooser(sink, target).Run();
}

}  // namespace kiln::compiler
