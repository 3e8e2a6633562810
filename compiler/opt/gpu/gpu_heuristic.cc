#include "compiler/opt/gpu/gpu_heuristic.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/kernel/gpu_dims.h"
#include "compiler/kernel/loops_apart.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/gpu/gpu_plan.h"
#include "compiler/opt/gpu/gpu_tile.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/loop_body.h"
#include "compiler/opt/product.h"
#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kVectorBytes = 16;
// Work items for each multiprocessor: enough that what they wait for is hidden.
constexpr int64_t kItemsOfCore = 1024;
constexpr int64_t kCores = 128;  // of a target that does not say
constexpr int64_t kWarp = 32;
// Items of a group whose rows are short.
constexpr int64_t kSmallGroup = 128;
// Vectors of a row for each of its items, below which fewer items do.
constexpr int64_t kMinVectors = 4;
// Terms of a product that several items share.
constexpr int64_t kManyTerms = 256;
// Of each of the items that share a sum, at least.
constexpr int64_t kMinTerms = 16;

bool Has(absl::Span<UOp* const> ranges, const UOp* range) {
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

int64_t Floor2(int64_t n) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

class GpuChooser {
 public:
  GpuChooser(UOp* sink, const v1::Target& target) : sink_(sink), target_(target), plan_(sink) {
    const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
    for (UOp* uop : Toposort(sink)) {
      if (uop->op() == Op::REDUCE) reduces_.push_back(LoopBodyOf(uop, open.at(uop)));
    }
    UOp* body = sink->src(0);
    if (body->op() == Op::END) {
      output_ = LoopBodyOf(body, {});
    } else {
      output_.accesses = {body};
    }
    apart_ = LoopsApart(sink, output_.ranges);
    const int64_t cores = target.tuning().cores() != 0 ? target.tuning().cores() : kCores;
    wanted_ = cores * kItemsOfCore;
  }

  std::vector<OptOp> Run() {
    if (sink_->src().size() != 1) return {};
    if (Tiles() || Products() || Rows() || Columns()) return plan_.Take();
    Elementwise();
    return plan_.Take();
  }

 private:
  // -- Vectors

  // How many elements of `axis`, neighbours in memory, each item takes at once. All of `bodies` are walked by them.
  int64_t VectorOf(UOp* axis, absl::Span<const LoopBody* const> bodies, int64_t most = kVectorBytes) const {
    int64_t widest = 1;
    bool contiguous = false;
    for (const LoopBody* body : bodies) {
      for (const UOp* access : body->accesses) {
        const std::optional<int64_t> stride = StrideIn(PlaceOf(access), axis);
        if (!stride.has_value() || (*stride != 0 && *stride != 1)) return 1;
        if (*stride == 0) continue;
        contiguous = true;
        widest = std::max<int64_t>(widest, ItemSize(access->src(0)->src(0)->dtype()));
      }
    }
    if (!contiguous) return 1;
    int64_t vector = std::min(most, kVectorBytes / widest);
    const auto fits = [&](int64_t amount) {
      if (plan_.Left(axis) % amount != 0) return false;
      for (const LoopBody* body : bodies) {
        for (const UOp* access : body->accesses) {
          if (!BeginsAtMultiples(access, axis, amount)) return false;
        }
      }
      return true;
    };
    while (vector > 1 && !fits(vector)) vector /= 2;
    return vector;
  }

  // -- Items of the output's loops

  const UOp* Store() const {
    for (const UOp* access : output_.accesses) {
      if (access->op() == Op::STORE) return access;
    }
    return nullptr;
  }

  int64_t StoreStride(UOp* axis) const { return StrideIn(PlaceOf(Store()), axis).value_or(0); }

  // Loops that may be shared out, by how far apart their iterations store; none of `done`.
  std::vector<UOp*> Shareable(absl::Span<UOp* const> done) const {
    std::vector<UOp*> axes;
    for (UOp* axis : apart_) {
      const bool everywhere =
          std::all_of(reduces_.begin(), reduces_.end(), [&](const LoopBody& reduce) { return Has(reduce.open, axis); });
      if (everywhere && !Has(done, axis) && Iterations(axis) > 1) axes.push_back(axis);
    }
    std::stable_sort(axes.begin(), axes.end(),
                     [&](UOp* a, UOp* b) { return std::abs(StoreStride(a)) < std::abs(StoreStride(b)); });
    return axes;
  }

  // Fills a group with items along `axes`.
  void FillGroup(absl::Span<UOp* const> axes, int64_t budget, size_t dimensions) {
    for (UOp* axis : axes) {
      if (budget < 2 || dimensions-- == 0) return;
      const int64_t left = plan_.Left(axis);
      int64_t items = LargestDivisor(left, budget);
      if (items < left && items * 4 < budget) items = PaddedItems(left, budget);
      plan_.Items(axis, items, AxisType::kLocal);
      budget /= items;
      if (items < left && items >= kWarp) return;  // the next axis is for groups
    }
  }

  // Items for an axis that no such number divides: as many as waste little.
  static int64_t PaddedItems(int64_t left, int64_t budget) {
    int64_t items = Floor2(budget);
    while (items > kWarp && (CeilDiv(left, items) * items - left) * 8 > left) items /= 2;
    return items;
  }

  void Elementwise() {
    if (apart_.empty()) return;
    std::vector<const LoopBody*> bodies = {&output_};
    for (const LoopBody& reduce : reduces_) bodies.push_back(&reduce);
    const std::vector<UOp*> axes = Shareable({});
    if (Transposed(axes)) return;
    for (UOp* axis : axes) {
      if (StoreStride(axis) != 1) continue;
      plan_.Vectors(axis, VectorOf(axis, bodies, reduces_.empty() ? kVectorBytes : 4), AxisType::kUpcast, 0);
    }
    FillGroup(axes, kMaxItems, 3);
  }

  // Where what is loaded lies beside each other along another axis than what is stored: each item takes a square, loads
  // its rows as vectors, and stores its columns as such. Eight items beside each other load all of a row's 128 bytes,
  // and four store 64 of a column's.
  bool Transposed(absl::Span<UOp* const> axes) {
    constexpr int64_t kLoading = 8, kStoring = 32, kSquare = 16;
    if (!reduces_.empty() || axes.size() < 2 || StoreStride(axes[0]) != 1) return false;
    UOp* const stored = axes[0];
    UOp* loaded = nullptr;
    int64_t bytes = ItemSize(Store()->src(0)->src(0)->dtype());
    for (const UOp* access : output_.accesses) {
      if (access->op() != Op::LOAD || StrideIn(PlaceOf(access), stored).value_or(1) <= 1) continue;
      for (UOp* axis : axes) {
        if (axis != stored && StrideIn(PlaceOf(access), axis) == 1) loaded = axis;
      }
      bytes = std::max<int64_t>(bytes, ItemSize(access->src(0)->src(0)->dtype()));
    }
    if (loaded == nullptr || std::min(plan_.Left(stored), plan_.Left(loaded)) < kSquare) return false;
    const int64_t side = kVectorBytes / bytes;
    const bool whole = plan_.Left(stored) % side == 0 && plan_.Left(loaded) % side == 0;
    const bool aligned = std::all_of(output_.accesses.begin(), output_.accesses.end(), [&](const UOp* access) {
      return BeginsAtMultiples(access, StrideIn(PlaceOf(access), loaded) == 1 ? loaded : stored, side);
    });
    if (!whole || !aligned) {
      // One element each: what a group's items load beside each other is still there when the next row wants it.
      plan_.Items(loaded, kSquare, AxisType::kLocal);
      plan_.Items(stored, kSquare, AxisType::kLocal);
      return true;
    }
    plan_.Vectors(loaded, side, AxisType::kUpcast, 0);
    plan_.Vectors(stored, side, AxisType::kUpcast, 1);
    plan_.Items(loaded, LargestDivisor(plan_.Left(loaded), kLoading), AxisType::kLocal);
    plan_.Items(stored, LargestDivisor(plan_.Left(stored), kStoring), AxisType::kLocal);
    return true;
  }

  // -- Rows: what is reduced lies beside each other

  struct Row {
    const LoopBody* body;
    UOp* lane;
    int64_t vector, vectors;
  };

  std::optional<Row> RowOf(const LoopBody& body) const {
    const UOp* main = MainLoad(body);
    UOp* lane = nullptr;
    int64_t nearest = 0;
    for (UOp* range : body.ranges) {
      if (Iterations(range) == 0 || main == nullptr) continue;
      const std::optional<int64_t> stride = StrideIn(PlaceOf(main), range);
      if (stride.value_or(0) == 0 || (lane != nullptr && std::abs(*stride) >= nearest)) continue;
      lane = range;
      nearest = std::abs(*stride);
    }
    if (lane == nullptr) return std::nullopt;
    // Nearer still along an output's loop: columns.
    for (UOp* range : body.open) {
      if (Has(apart_, range) && std::abs(StrideIn(PlaceOf(main), range).value_or(0)) == 1 && nearest != 1 &&
          Iterations(range) >= kWarp / 4)
        return std::nullopt;
    }
    const int64_t vector = VectorOf(lane, {&body});
    return Row{&body, lane, vector, Iterations(lane) / vector};
  }

  bool Rows() {
    if (reduces_.empty()) return false;
    std::vector<Row> rows;
    int64_t longest = 0;
    for (const LoopBody& reduce : reduces_) {
      const std::optional<Row> row = RowOf(reduce);
      // One that stands in another's iterations is done by each item for itself.
      const bool inner =
          !std::all_of(reduce.open.begin(), reduce.open.end(), [&](UOp* range) { return Has(output_.ranges, range); });
      if (!row.has_value() || inner) continue;
      rows.push_back(*row);
      longest = std::max(longest, row->vectors);
    }
    const std::vector<UOp*> shared = Shareable({});
    const int64_t outputs = IterationsOfAll(shared);
    // Short reductions of many outputs are for one item each.
    if (rows.empty() || longest < 2 || (longest < 16 && outputs >= wanted_)) return false;
    int64_t items = std::min(Floor2(longest), std::max(kWarp, Floor2(longest / kMinVectors)));
    items = std::min(items, kMaxItems);
    while (items * outputs < wanted_ && items * 2 <= longest && items < kMaxItemsOfGroup) items *= 2;
    absl::flat_hash_set<UOp*> done;  // one loop may be of several REDUCEs
    for (const Row& row : rows) {
      // Of a reduction that is much shorter than the longest, each item does all.
      if (row.vectors * 2 < items || !done.insert(row.lane).second) continue;
      plan_.Vectors(row.lane, row.vector, AxisType::kUnroll, 0);
      plan_.Items(row.lane, items, AxisType::kGroupReduce);
    }
    // What is walked once more with the result.
    std::vector<UOp*> again;
    for (UOp* axis : apart_) {
      if (!Has(shared, axis) && Iterations(axis) > 1) again.push_back(axis);
    }
    if (!again.empty()) {
      UOp* axis = *std::min_element(again.begin(), again.end(), [&](UOp* a, UOp* b) {
        return std::abs(StoreStride(a)) < std::abs(StoreStride(b));
      });
      if (StoreStride(axis) == 1) plan_.Vectors(axis, VectorOf(axis, {&output_}), AxisType::kUpcast, 0);
      plan_.Items(axis, items, AxisType::kLocal);
    }
    // Several short rows a group.
    for (UOp* axis : shared) {
      const int64_t several = std::min(Floor2(kSmallGroup / items), plan_.Left(axis) & -plan_.Left(axis));
      if (several < 2) continue;
      plan_.Items(axis, several, AxisType::kLocal);
      break;
    }
    return true;
  }

  // -- Columns: outputs lie beside each other, and what each of them reduces lies apart

  bool Columns() {
    if (reduces_.empty()) return false;
    const std::vector<UOp*> shared = Shareable({});
    if (shared.empty() || StoreStride(shared[0]) != 1) return false;
    int64_t outputs = IterationsOfAll(shared);
    if (outputs >= wanted_) return false;
    UOp* reduced = nullptr;  // by how many items one column is
    for (UOp* range : reduces_[0].ranges) {
      if (reduced == nullptr || Iterations(range) > Iterations(reduced)) reduced = range;
    }
    if (reduces_.size() != 1 || reduced == nullptr || Iterations(reduced) < 8) return false;
    std::vector<const LoopBody*> bodies = {&output_, &reduces_[0]};
    int64_t vector = VectorOf(shared[0], bodies, 4);
    // Narrower vectors, if there are too few columns for many groups.
    while (vector > 1 && outputs / vector * kWarp < wanted_) vector /= 2;
    plan_.Vectors(shared[0], vector, AxisType::kUpcast, 0);
    const int64_t columns = std::min<int64_t>(kWarp, Floor2(plan_.Left(shared[0])));
    int64_t items = 1;
    while (items < kMaxItemsOfGroup / columns && items < kWarp && items * 8 <= Iterations(reduced) &&
           outputs / vector * items < wanted_)
      items *= 2;
    plan_.Items(shared[0], columns, AxisType::kLocal);
    plan_.Items(reduced, items, AxisType::kGroupReduce);
    if (columns * items < kSmallGroup) {
      const std::vector<UOp*> rest(shared.begin() + 1, shared.end());
      FillGroup(rest, kSmallGroup / (columns * items), 1);
    }
    return true;
  }

  // -- Products: a tile of the output in registers, and a group of items over it

  static bool IsGated(UOp* operand) {
    const std::vector<UOp*> order = Toposort(operand);
    return std::any_of(order.begin(), order.end(),
                       [](const UOp* uop) { return uop->op() == Op::LOAD && uop->src().size() > 1; });
  }

  bool Tiles() {
    if (reduces_.size() != 1 || apart_.size() != output_.ranges.size()) return false;
    return plan_.Tile(ChooseTile(sink_, target_));
  }

  bool Products() {
    const std::optional<Product> product = ProductIn(sink_, target_);
    if (!product.has_value() || product->AnyVaries() || apart_.size() != output_.ranges.size()) return false;
    const std::vector<UOp*> axes = AxesOf(sink_);
    // The largest pair of axes along which one operand moves, and the other does not.
    std::optional<size_t> row, column;
    size_t pixels = 0;
    for (size_t a : {size_t{0}, size_t{1}}) {
      for (size_t i = 0; i < product->outputs; ++i) {
        for (size_t j = 0; j < product->outputs; ++j) {
          if (i == j || !product->Walks(a, i, j) || !product->Walks(1 - a, j, i)) continue;
          if (product->store[j] != 1 || product->Size(i) * product->Size(j) < 64) continue;
          if (row.has_value() && product->Size(i) <= product->Size(*row)) continue;
          row = i;
          column = j;
          pixels = 1 - a;
        }
      }
    }
    if (!row.has_value()) return false;
    const int64_t m = product->Size(*row), n = product->Size(*column);
    int64_t others = 1;
    for (size_t axis = 0; axis < product->outputs; ++axis) {
      if (axis != *row && axis != *column) others *= product->Size(axis);
    }
    // Few results of many terms: items that reduce together keep more of the device busy.
    if (m * n * others < wanted_ / kItemsOfCore * kWarp && IterationsOfAll(reduces_[0].ranges) >= kManyTerms)
      return false;
    // Lanes whose places are gated one by one, or lie apart, are loaded one by one anyway.
    const bool vectors = !IsGated(OperandsOf(sink_)[pixels]) && product->operands[pixels].strides[*column] == 1;
    UOp* const summed = MostShared(reduces_[0].ranges);
    const int64_t most_sharers = std::min(PowerOf2In(summed), Floor2(IterationsOfAll(reduces_[0].ranges) / kMinTerms));
    const GpuTile tile = ChooseGpuTile(m, n, others, wanted_ / kItemsOfCore, vectors, most_sharers);
    // Rows are dimension 0, and lanes the last.
    plan_.Pad(axes[*row], tile.rows * tile.row_items);
    plan_.Pad(axes[*column], tile.columns * tile.column_items);
    plan_.Vectors(axes[*row], tile.rows, AxisType::kUpcast, 0);
    plan_.Vectors(axes[*column], tile.columns, AxisType::kUpcast, 1);
    plan_.Items(axes[*row], tile.row_items, AxisType::kLocal);
    plan_.Items(axes[*column], tile.column_items, AxisType::kLocal);
    plan_.Sharers(summed, tile.sharers);
    return true;
  }

  static UOp* MostShared(absl::Span<UOp* const> ranges) {
    return *std::max_element(ranges.begin(), ranges.end(),
                             [](const UOp* a, const UOp* b) { return PowerOf2In(a) < PowerOf2In(b); });
  }

  UOp* sink_;
  const v1::Target& target_;
  GpuPlan plan_;
  LoopBody output_;
  std::vector<LoopBody> reduces_;
  std::vector<UOp*> apart_;
  int64_t wanted_;  // work items, to keep the device busy
};

}  // namespace

std::vector<OptOp> ChooseGpuOpts(UOp* sink, const v1::Target& target) {
  if (sink->src().size() != 1) return {};
  return GpuChooser(sink, target).Run();
}

}  // namespace kiln::compiler
