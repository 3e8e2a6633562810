#include "compiler/opt/cpu/matmul.h"

#include <algorithm>
#include <numeric>

#include "compiler/kernel/tiles/core_products.h"
#include "compiler/opt/cpu/lanes_apart.h"
#include "compiler/opt/cpu/machine.h"
#include "compiler/opt/cpu/matmul_schedule.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/product.h"
#include "compiler/structure/core_product.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kMinDepth = 128;    // terms of a reduction that are worth taking accumulators from memory and back
constexpr int64_t kRowsForOne = 4;    // that cost no more than one, where each vector comes from beyond the L2 cache
constexpr int64_t kMaxTileRows = 14;  // however many registers there are
constexpr int64_t kSetBytes = 4096;   // after which lines are of the same set of the L1 cache
constexpr double kGatedAccessCycles = 2;  // of one scalar or one vector that is read in place, under a gate

class Chooser {
 public:
  Chooser(const Machine& machine, Product product)
      : machine_(machine),
        product_(std::move(product)),
        lanes_(machine.lanes),
        registers_(machine.registers),
        l1_bytes_(machine.l1_bytes),
        l2_bytes_(machine.l2_bytes) {}

  // What the best tile costs; nothing if there is none.
  std::optional<double> Run() {
    for (size_t a : {size_t{0}, size_t{1}}) {
      // Of equals, rows that are nearer each other.
      for (size_t row = product_.outputs; row-- > 0;) {
        for (size_t column = 0; column < product_.outputs; ++column) {
          if (!MayTile(row, column) || !product_.Walks(a, row, column) || !product_.Walks(1 - a, column, row)) continue;
          TryLanesOfOutput(a, row, column);
          if (product_.dots) TryDots(a, row, column);
          if (product_.tiles) TryTiles(a, row, column);
          TryReducedLanes(a, row, column);
        }
      }
    }
    if (!best_.has_value()) return std::nullopt;
    return best_->cost;
  }

  // That tile, as OptOps behind `opts`.
  std::vector<OptOp> Schedule(const std::vector<OptOp>& opts) const {
    return ScheduleMatmul(machine_, product_, *best_, opts);
  }

 private:
  void Consider(const MatmulTile& tile) {
    if (best_.has_value() && tile.cost >= best_->cost) return;
    if (product_.AnyVaries() && IterationWork(machine_, product_, tile) > kMaxIterationWork) return;
    best_ = tile;
  }

  // Whether a tile may have this row and column. A loop whose size varies is one of rows, which end where they end, or
  // stands between the columns and the rows.
  bool MayTile(size_t row, size_t column) const { return row != column && !product_.varies[column]; }

  // The most rows of a tile. Of rows that a run may have one of, as many as are computed while the other operand
  // comes from memory: the last tile computes all of them, however few are left.
  int64_t MaxRows(size_t row) const {
    return product_.varies[row] ? std::min(kRowsForOne, product_.Size(row)) : std::min(kRowsApart, product_.Size(row));
  }
  // The same of scalars of operand `a`, of which each row keeps a line in the L1 cache: as many as its sets hold where
  // the rows' steps leave some of them out.
  int64_t MaxRows(size_t a, size_t row) const {
    const auto& step = product_.operands[a].strides[row];
    if (product_.varies[row] || !step.has_value()) return MaxRows(row);
    const int64_t sets = kSetBytes / std::gcd(kSetBytes, std::max<int64_t>(std::abs(*step) * product_.item, 64));
    return std::min(product_.Size(row), std::clamp(sets * kRowsApart / 2, kRowsApart, kMaxTileRows));
  }

  // Whether operand `b` may be copied: where rows vary there may be one, which a copy must not wait for.
  bool MayCopy(const MatmulTile& tile) const {
    return !product_.varies[tile.row] || product_.operands[tile.b].constant;
  }

  // Bytes of the panel of operand `b` that one iteration over its columns reads.
  int64_t PanelBytes(const MatmulTile& tile) const {
    int64_t elements = tile.columns;
    for (size_t axis = product_.outputs; axis < product_.sizes.size(); ++axis) {
      if (product_.operands[tile.b].depends[axis]) elements *= product_.Size(axis);
      if (elements > kMaxLocalBytes) break;
    }
    return elements * product_.item;
  }

  // Whether the panel of operand `b` is all of it, and lies in memory as it is walked: a copy wins nothing, unless
  // it is so large that pieces of it do (CutReduction).
  bool LiesInOrder(const MatmulTile& tile) const {
    const size_t reduced_axis = product_.outputs;
    return reduced_axis + 1 == product_.sizes.size() && tile.columns == product_.Size(tile.column) &&
           product_.operands[tile.b].strides[reduced_axis] == tile.columns && PanelBytes(tile) <= kMaxLocalBytes;
  }

  // Vectors of the output, rows of scalars of operand `a`.
  void TryLanesOfOutput(size_t a, size_t row, size_t column) {
    MatmulTile tile;
    tile.a = a;
    tile.b = 1 - a;
    tile.row = row;
    tile.column = tile.lane = column;
    const auto& stride = product_.operands[tile.b].strides[column];
    const bool contiguous = stride == 1;
    tile.transposed = !contiguous && product_.ReducesNeighbours(tile.b);
    if (product_.store[column] != 1) return;
    const int64_t m = product_.Size(row), n = product_.Size(column), k = product_.ReducedSize();
    const double batches = product_.Batches(row, column);
    // What is gated and read in place is gated in each iteration.
    const double gated_row = product_.operands[tile.a].gated ? kGatedAccessCycles : 0;
    const double gated_vector = product_.operands[tile.b].gated ? kGatedAccessCycles : 0;
    // Each panel reads all rows anew.
    const double far = product_.operands[tile.a].bytes > 4 * static_cast<double>(l2_bytes_)
                           ? static_cast<double>(product_.item) / machine_.FarBytesPerCycle(kReadAnewOverlap)
                           : 0;
    for (int64_t vectors = 1; vectors <= 4; ++vectors) {
      if (vectors > 1 && (vectors - 1) * lanes_ >= n) break;
      tile.columns = vectors * lanes_;
      const int64_t panels = CeilDiv(n, tile.columns);
      const int64_t panel_bytes = PanelBytes(tile);
      const bool far_apart = n * k * product_.item > l2_bytes_ / 4 && !LiesInOrder(tile);
      const bool fits = panel_bytes <= std::min(kMaxLocalBytes, l2_bytes_ * 3 / 4);
      const double from_l2 = panel_bytes > l1_bytes_ / 2 ? machine_.l2_vector_cycles : 0;
      for (tile.rows = 1; tile.rows <= MaxRows(a, row); ++tile.rows) {
        const int64_t accumulators = tile.rows * vectors;
        if (accumulators + vectors + 1 > registers_) break;
        const auto r = static_cast<double>(tile.rows), v = static_cast<double>(vectors);
        double iteration_cycles =
            machine_.MultiplyCycles(r, v) + kLoadWeight * (r + v) + (far + gated_row) * r + from_l2 * v;
        const double blocks = static_cast<double>(CeilDiv(m, tile.rows));
        const double tiles = batches * static_cast<double>(panels) * blocks;
        const std::vector<size_t> inside = InsideAxes(machine_, product_, tile, static_cast<int64_t>(blocks), panels);
        const double fill =
            static_cast<double>(OuterIterations(product_, tile, inside) * panels * k) *
            (product_.operands[tile.b].constant ? v * kPackedCycles
             : contiguous      ? v * (product_.operands[tile.b].gated ? machine_.gated_cycles : machine_.copy_cycles)
             : tile.transposed ? v * machine_.transpose_cycles
                               : machine_.gather_cycles * static_cast<double>(tile.columns));
        const double plain_iteration_cycles =
            contiguous ? iteration_cycles * (far_apart ? 1.5 : 1.0) + gated_vector * v
                       : iteration_cycles + machine_.gather_cycles * static_cast<double>(tile.columns);
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
  bool CutReduction(MatmulTile& tile, int64_t blocks) const {
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
      if (iteration_bytes > MaxCut(machine_)) return false;
    }
    int64_t depth = std::min(product_.Size(reduced_axis) / 2, MaxCut(machine_) / iteration_bytes);
    while (depth >= kMinDepth && product_.Size(reduced_axis) % depth != 0) --depth;
    if (depth < kMinDepth || LeastParts(machine_, product_, tile, blocks) == 0) return false;
    tile.reduced_axis = reduced_axis;
    tile.depth = depth;
    return true;
  }

  // Of one vector of words of operand `b`.
  double WordFillCycles(const MatmulTile& tile) const {
    const Operand& b = product_.operands[tile.b];
    if (b.constant) return kPackedCycles;
    if (b.strides[tile.column] == 1) return kPackCycles;
    if (b.terms_as_they_are && b.strides[tile.reduced_axis] == 1) return machine_.transpose_cycles;
    return machine_.gather_cycles * static_cast<double>(product_.terms * lanes_);
  }

  // The same, of words of several elements each, which operand `a` has in memory.
  void TryDots(size_t a, size_t row, size_t column) {
    MatmulTile tile;
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
    const int64_t m = product_.Size(row), n = product_.Size(column), k = product_.ReducedSize() / terms;
    for (int64_t vectors = 1; vectors <= 4; ++vectors) {
      if (vectors > 1 && (vectors - 1) * lanes_ >= n) break;
      tile.columns = vectors * lanes_;
      const double panels = product_.Batches(row, column) * static_cast<double>(CeilDiv(n, tile.columns));
      if (PanelBytes(tile) / terms > std::min(kMaxLocalBytes, l2_bytes_ * 3 / 4)) break;
      for (tile.rows = 1; tile.rows <= MaxRows(row); ++tile.rows) {
        if (tile.rows * vectors + vectors + 1 > registers_) break;
        const auto r = static_cast<double>(tile.rows), v = static_cast<double>(vectors);
        const double iteration_cycles = machine_.MultiplyCycles(r, v) + kLoadWeight * (r + v);
        const double fill = v * WordFillCycles(tile);
        tile.cost = panels * (static_cast<double>(CeilDiv(m, tile.rows)) *
                                  (static_cast<double>(k) * iteration_cycles + 2 * r * v) +
                              static_cast<double>(k) * fill);
        Consider(tile);
      }
    }
  }

  // The same, by the matrix unit of a core (kernel/tiles/core_products.h). Operand `a` is read where it is, if its rows
  // are words and come out even, and else copied for each tile.
  void TryTiles(size_t a, size_t row, size_t column) {
    MatmulTile tile;
    tile.dots = tile.copy = true;
    tile.a = a;
    tile.b = 1 - a;
    tile.row = row;
    tile.column = tile.lane = column;
    if (product_.store[column] != 1 || product_.AnyVaries() || lanes_ != kTileWords) return;
    for (tile.reduced_axis = product_.outputs; tile.reduced_axis < product_.sizes.size(); ++tile.reduced_axis) {
      const int64_t size = product_.Size(tile.reduced_axis);
      if (!product_.operands[0].depends[tile.reduced_axis] || !product_.operands[1].depends[tile.reduced_axis])
        continue;
      if (size % product_.terms != 0 || WordsOfTile(size / product_.terms) < kFewestWords) continue;
      for (int64_t across = 1; across <= 4; ++across) {
        if (across > 1 && (across - 1) * lanes_ >= product_.Size(column)) break;
        tile.columns = across * lanes_;
        for (tile.rows = std::min(product_.Size(row), 2 * kTileRows); tile.rows >= 1; --tile.rows) {
          if (FitsTiles(CeilDiv(tile.rows, kTileRows), across)) TryPanels(tile);
        }
      }
    }
  }

  // With as many panels at once as the L2 cache has room for.
  void TryPanels(MatmulTile tile) {
    const Operand& a = product_.operands[tile.a];
    const int64_t m = product_.Size(tile.row), terms = product_.terms, reduced = product_.ReducedSize();
    const int64_t panels = CeilDiv(product_.Size(tile.column), tile.columns);
    const int64_t panel_bytes = PanelBytes(tile) / terms, row_bytes = reduced * 4 / terms;
    const bool words_of_a = a.terms_as_they_are && a.strides[tile.reduced_axis] == 1;
    tile.copy_rows = !words_of_a || !a.strides[tile.row].has_value() || m % tile.rows != 0;
    // Both copies lie on the thread's stack, and in a chain beside slices of which l2_bytes_ says what they leave.
    const int64_t room = std::min(kMaxLocalBytes / 2, l2_bytes_ * 3 / 4) - (tile.copy_rows ? row_bytes * tile.rows : 0);
    if (panel_bytes > room) return;
    tile.panels = std::clamp<int64_t>(std::min(room, l2_bytes_ / 4) / panel_bytes, 1, panels);
    while (panels % tile.panels != 0) --tile.panels;

    const auto down = static_cast<double>(CeilDiv(tile.rows, kTileRows));
    const auto across = static_cast<double>(tile.columns / lanes_);
    const int64_t words = WordsOfTile(product_.Size(tile.reduced_axis) / terms);
    const auto pieces = static_cast<double>(reduced / terms / words);
    const double batches = product_.Batches(tile.row, tile.column), blocks = static_cast<double>(CeilDiv(m, tile.rows));
    const double step = std::max(down * across * kTileCycles, (down + across) * kTileLoadCycles);
    const double product = pieces * step + kTileStartCycles + 2 * static_cast<double>(tile.rows) * across;
    const double fill = pieces * static_cast<double>(words) * across * WordFillCycles(tile);
    const double rows_bytes = static_cast<double>(row_bytes * m);
    const double far =
        rows_bytes > static_cast<double>(l2_bytes_ / 2) ? rows_bytes / machine_.FarBytesPerCycle(kReadAnewOverlap) : 0;
    const double copy = !tile.copy_rows ? 0
                                        : static_cast<double>(row_bytes / 4 * tile.rows) *
                                              (words_of_a ? machine_.copy_cycles / static_cast<double>(lanes_)
                                                          : machine_.gather_cycles * static_cast<double>(terms));
    const auto groups = static_cast<double>(panels / tile.panels);
    const std::vector<size_t> inside =
        InsideAxes(machine_, product_, tile, static_cast<int64_t>(blocks), panels / tile.panels);
    const auto outer = static_cast<double>(OuterIterations(product_, tile, inside));
    tile.cost = batches * (static_cast<double>(panels) * blocks * product + groups * (blocks * copy + far)) +
                outer * static_cast<double>(panels) * fill;
    Consider(tile);
  }

  // Vectors along a reduced axis in which both are contiguous: a tile of dot products.
  void TryReducedLanes(size_t a, size_t row, size_t column) {
    if (row > column) return;  // the two are alike
    for (size_t axis = product_.outputs; axis < product_.sizes.size(); ++axis) {
      if (product_.operands[0].strides[axis] != 1 || product_.operands[1].strides[axis] != 1) continue;
      MatmulTile tile;
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
                             ? static_cast<double>(lanes_ * product_.item) / machine_.FarBytesPerCycle(kReadAnewOverlap)
                             : 0;
      // Columns lie apart, and nothing foresees where they are read next.
      const double from_l2 =
          product_.operands[tile.b].bytes > static_cast<double>(l1_bytes_) ? 2 * machine_.l2_vector_cycles : 0;
      for (tile.rows = 1; tile.rows <= MaxRows(row); ++tile.rows) {
        for (tile.columns = 1; tile.columns <= std::min<int64_t>(8, n); ++tile.columns) {
          if (tile.rows * tile.columns + std::min(tile.rows, tile.columns) + 1 > registers_) break;
          const auto r = static_cast<double>(tile.rows), c = static_cast<double>(tile.columns);
          const double iteration_cycles =
              machine_.MultiplyCycles(r, c) + 3 * kLoadWeight * (r + c) + far * r + from_l2 * c;
          tile.cost = product_.Batches(row, column) *
                      static_cast<double>(CeilDiv(m, tile.rows) * CeilDiv(n, tile.columns)) *
                      (steps * iteration_cycles + kReduceCycles * r * c);
          Consider(tile);
        }
      }
    }
  }

  const Machine& machine_;
  Product product_;
  int64_t lanes_, registers_, l1_bytes_, l2_bytes_;
  std::optional<MatmulTile> best_;
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
