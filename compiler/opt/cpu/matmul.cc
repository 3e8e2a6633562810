#include "compiler/opt/cpu/matmul.h"

#include <algorithm>
#include <numeric>

#include "compiler/opt/cpu/lanes_apart.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/product.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kMaxParts = 1 << 16;     // of the rows; sizes are a client's, and nothing is to be searched for ever
constexpr double kMaxIterationWork = 4e9;  // operations, if rows can be cut: the least of a kernel that is timed
constexpr int64_t kMinDepth = 128;  // terms of a reduction that are worth taking accumulators from memory and back
constexpr int64_t kRowsForOne = 4;  // that cost no more than one, where each vector comes from beyond the L2 cache
constexpr double kGatedAccessCycles = 2;  // of one scalar or one vector that is read in place, under a gate

// Which axes the tile has, and how much of each.
struct Tile {
  double cost = 0;                       // cycles of the whole kernel
  bool reduced = false;                  // lanes along a reduced axis
  size_t row = 0, column = 0, lane = 0;  // row: of operand `a`. column: of operand `b`. lane: column, or a reduced axis
  size_t a = 0, b = 1;
  int64_t rows = 1, columns = 1;  // columns: elements of the output
  bool copy = false;
  bool transposed = false;  // the copy is: its memory lies across the lanes
  bool dots = false;        // several iterations of `reduced_axis` at once; the copy is of words
  size_t reduced_axis = 0;
  int64_t depth = 0;  // if not 0: of `reduced_axis`, as much at a time; accumulators wait in memory for the next
};

class Chooser {
 public:
  Chooser(const Machine& machine, Product product)
      : product_(std::move(product)),
        lanes_(machine.lanes),
        registers_(machine.registers),
        cores_(machine.cores),
        l2_bytes_(machine.l2_bytes) {}

  // What the best tile costs; nothing if there is none.
  std::optional<double> Run() {
    for (size_t a : {size_t{0}, size_t{1}}) {
      for (size_t row = 0; row < product_.outputs; ++row) {
        for (size_t column = 0; column < product_.outputs; ++column) {
          if (!MayTile(row, column) || !product_.Walks(a, row, column) || !product_.Walks(1 - a, column, row)) continue;
          TryLanesOfOutput(a, row, column);
          if (product_.terms > 1) TryDots(a, row, column);
          TryReducedLanes(a, row, column);
        }
      }
    }
    if (!best_.has_value()) return std::nullopt;
    return best_->cost;
  }

  // That tile, as OptOps behind `opts`.
  std::vector<OptOp> Schedule(std::vector<OptOp> opts) {
    opts_ = std::move(opts);
    Emit(*best_);
    return opts_;
  }

 private:
  void Consider(const Tile& tile) {
    if (!best_.has_value() || tile.cost < best_->cost) best_ = tile;
  }

  double Batches(size_t row, size_t column) const {
    double batches = 1;
    for (size_t axis = 0; axis < product_.outputs; ++axis) {
      if (axis != row && axis != column) batches *= static_cast<double>(product_.Size(axis));
    }
    return batches;
  }

  // Whether a tile may have this row and column. A loop whose size varies is one of rows, which end where they end, or
  // stands between the columns and the rows.
  bool MayTile(size_t row, size_t column) const {
    const double work = 2 * product_.most_varying * static_cast<double>(4 * lanes_ * product_.ReducedSize());
    return row != column && !product_.varies[column] && (!product_.AnyVaries() || work <= kMaxIterationWork);
  }

  // The most rows of a tile. Of rows that a run may have one of, as many as are computed while the other operand
  // comes from memory: the last tile computes all of them, however few are left.
  int64_t MaxRows(size_t row) const {
    return product_.varies[row] ? std::min(kRowsForOne, product_.Size(row)) : std::min(kRowsApart, product_.Size(row));
  }

  // Whether operand `b` may be copied: where rows vary there may be one, which a copy must not wait for; and what a
  // loop within the columns' walks is no panel.
  bool MayCopy(const Tile& tile) const {
    for (size_t axis = 0; axis < product_.outputs; ++axis) {
      if (product_.varies[axis] && product_.operands[tile.b].depends[axis]) return false;
    }
    return !product_.varies[tile.row] || product_.operands[tile.b].constant;
  }

  // Bytes of the panel of operand `b` that one iteration over its columns reads.
  int64_t PanelBytes(const Tile& tile) const {
    int64_t elements = tile.columns;
    for (size_t axis = product_.outputs; axis < product_.sizes.size(); ++axis) {
      if (product_.operands[tile.b].depends[axis]) elements *= product_.Size(axis);
      if (elements > kMaxLocalBytes) break;
    }
    return elements * product_.item;
  }

  // Whether the panel of operand `b` is all of it, and lies in memory as it is walked: a copy wins nothing, unless
  // it is so large that pieces of it do (CutReduction).
  bool LiesInOrder(const Tile& tile) const {
    const size_t reduced_axis = product_.outputs;
    return reduced_axis + 1 == product_.sizes.size() && tile.columns == product_.Size(tile.column) &&
           product_.operands[tile.b].strides[reduced_axis] == tile.columns && PanelBytes(tile) <= kMaxLocalBytes;
  }

  // Vectors of the output, rows of scalars of operand `a`.
  void TryLanesOfOutput(size_t a, size_t row, size_t column) {
    Tile tile;
    tile.a = a;
    tile.b = 1 - a;
    tile.row = row;
    tile.column = tile.lane = column;
    const auto& stride = product_.operands[tile.b].strides[column];
    const bool contiguous = stride == 1;
    tile.transposed = !contiguous && product_.ReducesNeighbours(tile.b);
    if (product_.store[column] != 1) return;
    const int64_t m = product_.Size(row), n = product_.Size(column), k = product_.ReducedSize();
    const double batches = Batches(row, column);
    const double a_bytes = static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(product_.item);
    // What is gated and read in place is gated in each iteration.
    const double gated_row = product_.operands[tile.a].gated ? kGatedAccessCycles : 0;
    const double gated_vector = product_.operands[tile.b].gated ? kGatedAccessCycles : 0;
    const double far =
        a_bytes > 4 * static_cast<double>(l2_bytes_) ? static_cast<double>(product_.item) / kFarBytesPerCycle : 0;
    for (int64_t vectors = 1; vectors <= 4; ++vectors) {
      if (vectors > 1 && (vectors - 1) * lanes_ >= n) break;
      tile.columns = vectors * lanes_;
      const int64_t panels = CeilDiv(n, tile.columns);
      const int64_t panel_bytes = PanelBytes(tile);
      const bool far_apart = n * k * product_.item > l2_bytes_ / 4 && !LiesInOrder(tile);
      const bool fits = panel_bytes <= std::min(kMaxLocalBytes, l2_bytes_ * 3 / 4);
      for (tile.rows = 1; tile.rows <= MaxRows(row); ++tile.rows) {
        const int64_t accumulators = tile.rows * vectors;
        if (accumulators + vectors + 1 > registers_) break;
        const auto r = static_cast<double>(tile.rows), v = static_cast<double>(vectors);
        double iteration_cycles = std::max({r * v / kFmasPerCycle, (r + v) / kLoadsPerCycle, kFmaLatency}) +
                                  kLoadWeight * (r + v) + (far + gated_row) * r;
        const double blocks = static_cast<double>(CeilDiv(m, tile.rows));
        const double tiles = batches * static_cast<double>(panels) * blocks;
        const double fill = batches * static_cast<double>(panels * k) *
                            (product_.operands[tile.b].constant ? v * kPackedCycles
                             : contiguous      ? v * (product_.operands[tile.b].gated ? kGatedCycles : kCopyCycles)
                             : tile.transposed ? v * kTransposeCycles
                                               : kGatherCycles * static_cast<double>(tile.columns));
        const double plain_iteration_cycles =
            contiguous ? iteration_cycles * (far_apart ? 1.5 : 1.0) + gated_vector * v
                       : iteration_cycles + kGatherCycles * static_cast<double>(tile.columns);
        const double start = 2 * r * v;
        tile.copy = false;
        tile.cost = tiles * (static_cast<double>(k) * plain_iteration_cycles + start);
        Consider(tile);
        if (!MayCopy(tile)) continue;
        tile.copy = true;
        if (!fits && !CutReduction(tile, blocks)) continue;
        const double reductions =
            tile.depth > 0 ? kMemoryStartFactor * static_cast<double>(product_.Size(tile.reduced_axis) / tile.depth)
                           : 1;
        tile.cost = tiles * (static_cast<double>(k) * iteration_cycles + start * reductions) + fill;
        Consider(tile);
        tile.depth = 0;
      }
    }
  }

  // For a panel that is too large: cuts the longest reduction in pieces, for each of which a smaller one is copied.
  // False, and nothing has changed, if the reduction or the rows cannot be cut so.
  bool CutReduction(Tile& tile, int64_t blocks) const {
    if (product_.AnyVaries()) return false;
    size_t reduced_axis = product_.outputs;
    for (size_t axis = reduced_axis; axis < product_.sizes.size(); ++axis) {
      if (product_.Size(axis) > product_.Size(reduced_axis)) reduced_axis = axis;
    }
    if (!product_.operands[tile.b].depends[reduced_axis] || !product_.operands[tile.a].depends[reduced_axis])
      return false;
    int64_t iteration_bytes = tile.columns * product_.item;  // of the panel, of one iteration of the reduction
    for (size_t axis = product_.outputs; axis < product_.sizes.size(); ++axis) {
      if (axis != reduced_axis && product_.operands[tile.b].depends[axis]) iteration_bytes *= product_.Size(axis);
      if (iteration_bytes > MaxCut()) return false;
    }
    int64_t depth = std::min(product_.Size(reduced_axis) / 2, MaxCut() / iteration_bytes);
    while (depth >= kMinDepth && product_.Size(reduced_axis) % depth != 0) --depth;
    if (depth < kMinDepth || LeastParts(tile, blocks) == 0) return false;
    tile.reduced_axis = reduced_axis;
    tile.depth = depth;
    return true;
  }

  // Bytes of a panel of a part of the reduction, and of the accumulators that wait for the next.
  int64_t MaxCut() const { return l2_bytes_ / 4; }

  // The fewest parts of equally many of the `blocks` of rows whose accumulators fit where they wait; 0: none.
  int64_t LeastParts(const Tile& tile, int64_t blocks) const {
    const int64_t max_blocks = MaxCut() / (tile.rows * tile.columns * product_.item);
    if (max_blocks == 0) return 0;
    const int64_t most = std::clamp<int64_t>(blocks / CeilDiv(kMinBlock, tile.rows), 1, kMaxParts);
    for (int64_t parts = CeilDiv(blocks, max_blocks); parts <= most; ++parts) {
      if (blocks % parts == 0) return parts;
    }
    return 0;
  }

  // The same, of words of several elements each, which operand `a` has in memory.
  void TryDots(size_t a, size_t row, size_t column) {
    Tile tile;
    tile.dots = tile.copy = true;
    tile.a = a;
    tile.b = 1 - a;
    tile.row = row;
    tile.column = tile.lane = column;
    const auto& strides = product_.operands[a].strides;
    const auto along = std::find(strides.begin() + static_cast<int64_t>(product_.outputs), strides.end(), 1);
    if (along == strides.end() || product_.store[column] != 1 || !product_.operands[a].terms_as_they_are) return;
    if (!MayCopy(tile)) return;
    tile.reduced_axis = static_cast<size_t>(along - strides.begin());
    const int64_t terms = product_.terms;
    if (product_.Size(tile.reduced_axis) % terms != 0) return;
    const bool contiguous = product_.operands[tile.b].strides[column] == 1;
    const int64_t m = product_.Size(row), n = product_.Size(column), k = product_.ReducedSize() / terms;
    for (int64_t vectors = 1; vectors <= 4; ++vectors) {
      if (vectors > 1 && (vectors - 1) * lanes_ >= n) break;
      tile.columns = vectors * lanes_;
      const double panels = Batches(row, column) * static_cast<double>(CeilDiv(n, tile.columns));
      if (PanelBytes(tile) / terms > std::min(kMaxLocalBytes, l2_bytes_ * 3 / 4)) break;
      for (tile.rows = 1; tile.rows <= MaxRows(row); ++tile.rows) {
        if (tile.rows * vectors + vectors + 1 > registers_) break;
        const auto r = static_cast<double>(tile.rows), v = static_cast<double>(vectors);
        const double iteration_cycles =
            std::max({r * v / kFmasPerCycle, (r + v) / kLoadsPerCycle, kFmaLatency}) + kLoadWeight * (r + v);
        const double fill = v * (product_.operands[tile.b].constant ? kPackedCycles
                                 : contiguous ? kPackCycles
                                              : kGatherCycles * static_cast<double>(terms * lanes_));
        tile.cost = panels * (static_cast<double>(CeilDiv(m, tile.rows)) *
                                  (static_cast<double>(k) * iteration_cycles + 2 * r * v) +
                              static_cast<double>(k) * fill);
        Consider(tile);
      }
    }
  }

  // Vectors along a reduced axis in which both are contiguous: a tile of dot products.
  void TryReducedLanes(size_t a, size_t row, size_t column) {
    if (row > column) return;  // the two are alike
    for (size_t axis = product_.outputs; axis < product_.sizes.size(); ++axis) {
      if (product_.operands[0].strides[axis] != 1 || product_.operands[1].strides[axis] != 1) continue;
      Tile tile;
      tile.reduced = true;
      tile.a = a;
      tile.b = 1 - a;
      tile.row = row;
      tile.column = column;
      tile.lane = axis;
      const int64_t m = product_.Size(row), n = product_.Size(column);
      const double steps = static_cast<double>(CeilDiv(product_.Size(axis), lanes_)) *
                           static_cast<double>(product_.ReducedSize() / product_.Size(axis));
      // All rows are read again for each few columns.
      const double a_bytes = static_cast<double>(m * product_.item) * static_cast<double>(product_.ReducedSize());
      const double far = a_bytes > static_cast<double>(l2_bytes_)
                             ? static_cast<double>(lanes_ * product_.item) / kFarBytesPerCycle
                             : 0;
      for (tile.rows = 1; tile.rows <= MaxRows(row); ++tile.rows) {
        for (tile.columns = 1; tile.columns <= std::min<int64_t>(8, n); ++tile.columns) {
          if (tile.rows * tile.columns + std::min(tile.rows, tile.columns) + 1 > registers_) break;
          const auto r = static_cast<double>(tile.rows), c = static_cast<double>(tile.columns);
          const double iteration_cycles = std::max({r * c / kFmasPerCycle, (r + c) / kLoadsPerCycle, kFmaLatency}) +
                                          3 * kLoadWeight * (r + c) + far * r;
          tile.cost = Batches(row, column) * static_cast<double>(CeilDiv(m, tile.rows) * CeilDiv(n, tile.columns)) *
                      (steps * iteration_cycles + kReduceCycles * r * c);
          Consider(tile);
        }
      }
    }
  }

  // -- From a tile to OptOps. `order_` says what stands in the place of each loop.

  void PadTo(size_t axis, int64_t multiple, bool clamp) {
    if (!product_.varies[axis] && product_.Size(axis) % multiple == 0) return;
    OptOp pad{OptOp::kPadTo, static_cast<int>(axis), multiple};
    pad.clamp = clamp;
    opts_.push_back(pad);
  }

  void Lanes(size_t axis, int64_t amount, AxisType type, int64_t dimension) {
    if (amount > 1) opts_.push_back({OptOp::kSplit, static_cast<int>(axis), amount, type, dimension});
  }

  // Moves the output loop `axis` to place `to`, and those between one place on.
  void Move(size_t axis, size_t to) {
    auto from = static_cast<size_t>(std::find(order_.begin(), order_.end(), axis) - order_.begin());
    while (from != to) {
      const size_t next = from < to ? from + 1 : from - 1;
      opts_.push_back({OptOp::kSwap, static_cast<int>(from), static_cast<int64_t>(next)});
      std::swap(order_[from], order_[next]);
      from = next;
    }
  }

  void Emit(const Tile& tile) {
    const int64_t blocks = CeilDiv(product_.Size(tile.row), tile.rows);
    const int64_t panels = CeilDiv(product_.Size(tile.column), tile.columns);
    PadTo(tile.row, tile.rows, true);
    const bool across = tile.dots && product_.operands[tile.b].strides[tile.column] != 1;
    PadTo(tile.column, tile.columns, tile.reduced || tile.transposed || across);
    if (tile.reduced) PadTo(tile.lane, lanes_, false);
    Lanes(tile.row, tile.rows, AxisType::kUpcast, 0);
    // Whole vectors are a dimension of their own: LLVM is better at many of the machine's than at a few wide ones.
    const int64_t vectors = tile.reduced ? tile.columns : tile.columns / lanes_;
    Lanes(tile.lane, lanes_, tile.reduced ? AxisType::kUnroll : AxisType::kUpcast, tile.dots ? 3 : 2);
    Lanes(tile.column, vectors, AxisType::kUpcast, 1);
    if (tile.dots) Lanes(tile.reduced_axis, product_.terms, AxisType::kUnroll, 2);

    // The loops over columns outside, those over rows inside: what belongs to the columns is read again.
    order_.resize(product_.outputs);
    std::iota(order_.begin(), order_.end(), size_t{0});
    const auto inner = static_cast<int64_t>(product_.outputs) - 1;
    auto place = static_cast<size_t>(inner);
    Move(tile.row, place);
    for (size_t axis = product_.outputs; axis-- > 0;) {
      if (product_.varies[axis] && axis != tile.row) Move(axis, --place);
    }
    Move(tile.column, --place);
    const auto batches = static_cast<int64_t>(Batches(tile.row, tile.column));
    const int64_t parts = Parts(tile, blocks, panels * batches);
    if (parts > 1) {
      OptOp split{OptOp::kSplit, static_cast<int>(inner), blocks / parts, AxisType::kLoop};
      opts_.push_back(split);
    }
    const int64_t level = parts > 1 ? inner : static_cast<int64_t>(place);
    const size_t number = tile.b + (tile.dots ? product_.operands.size() : 0);
    int64_t copied = level;
    if (tile.depth > 0) {
      const auto reduced_axis = static_cast<int>(tile.reduced_axis) + (parts > 1);
      opts_.push_back({OptOp::kSplit, reduced_axis, tile.depth, AxisType::kReduce});
      opts_.push_back({OptOp::kSwap, static_cast<int>(level) + 1, reduced_axis});
      copied = static_cast<int64_t>(product_.sizes.size()) + (parts > 1);  // behind all axes
    }
    if (tile.copy) opts_.push_back({OptOp::kLocal, static_cast<int>(copied), static_cast<int64_t>(number)});
    // One loop of all that is shared out.
    for (int64_t axis = level; axis > 0; --axis) opts_.push_back({OptOp::kFuse, static_cast<int>(axis - 1)});
    opts_.push_back({OptOp::kThread, 0});
  }

  // Into how many blocks the rows are cut, so that each thread gets its share.
  int64_t Parts(const Tile& tile, int64_t blocks, int64_t iterations) const {
    if (product_.AnyVaries()) return 1;
    int64_t least = tile.depth > 0 ? LeastParts(tile, blocks) : 1;
    const double block =
        2.0 * static_cast<double>(tile.rows * tile.columns) * static_cast<double>(product_.ReducedSize());
    const auto too_long = [&](int64_t parts) {
      return static_cast<double>(blocks / parts) * block > kMaxIterationWork;
    };
    for (int64_t parts = least + 1; too_long(least) && parts <= std::min(blocks, kMaxParts); ++parts) {
      if (blocks / parts * tile.rows < kMinBlock) break;
      if (blocks % parts == 0) least = parts;
    }
    if (cores_ == 1) return least;
    const auto uneven = [&](int64_t parts) {
      const int64_t all = iterations * parts;
      return static_cast<double>(CeilDiv(all, cores_) * cores_) / static_cast<double>(all);
    };
    int64_t best = least;
    for (int64_t parts = least; parts <= std::min(blocks, kMaxParts); ++parts) {
      // Rather a copy that few rows share than a core without work.
      const int64_t min_rows = iterations * best < cores_ ? kMinShare : kMinBlock;
      if (blocks % parts != 0 || (tile.copy && blocks / parts * tile.rows < min_rows)) continue;
      if (iterations * best >= kIterationsPerCore * cores_ && uneven(best) < 1.03) break;
      if (uneven(parts) < uneven(best) - 0.01) best = parts;
    }
    return best;
  }

  Product product_;
  int64_t lanes_, registers_, cores_, l2_bytes_;
  std::optional<Tile> best_;
  std::vector<size_t> order_;  // of the output's loops, while a schedule is made
  std::vector<OptOp> opts_;
};

}  // namespace

std::optional<std::vector<OptOp>> ChooseMatmulOpts(UOp* sink, const v1::Target& target) {
  const std::optional<Product> product = ProductIn(sink, target);
  if (!product.has_value()) return std::nullopt;
  const Machine machine(target, product->item);
  std::optional<double> cost;
  std::optional<std::vector<OptOp>> best;
  const auto consider = [&](const Product& candidate, const std::vector<OptOp>& before) {
    Chooser chooser(machine, candidate);
    if (const std::optional<double> found = chooser.Run(); found.has_value() && (!cost.has_value() || *found < *cost)) {
      cost = found;
      best = chooser.Schedule(before);
    }
    const std::optional<ApartTile> apart = ChooseLanesApart(machine, candidate);
    if (!apart.has_value() || (cost.has_value() && apart->cost >= *cost)) return;
    cost = apart->cost;
    best = ScheduleLanesApart(machine, candidate, *apart, before);
  };
  consider(*product, {});
  for (size_t axis = 0; axis + 1 < product->outputs; ++axis) {
    if (const std::optional<Product> fused = Fused(*product, axis); fused.has_value())
      consider(*fused, {{OptOp::kFuse, static_cast<int>(axis)}});
  }
  return best;
}

}  // namespace kiln::compiler
