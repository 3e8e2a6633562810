// Tested by compiler/opt/cpu/heuristic_test.cc and tests/conformance/.
#include "compiler/opt/cpu/matmul_schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kiln::compiler {
namespace {

constexpr int64_t kMaxParts = 1 << 16;  // of the rows; sizes are a client's, and nothing is to be searched for ever

// `order_` says which output loop stands in each place.
class Scheduler {
 public:
  Scheduler(const Machine& machine, const Product& product, std::vector<OptOp> opts)
      : machine_(machine), product_(product), order_(product.outputs), opts_(std::move(opts)) {
    std::iota(order_.begin(), order_.end(), size_t{0});
  }

  std::vector<OptOp> Run(const MatmulTile& tile) {
    const int64_t blocks = CeilDiv(product_.Size(tile.row), tile.rows);
    const int64_t panels = CeilDiv(product_.Size(tile.column), tile.columns);
    PadTo(tile.row, tile.rows, true);
    const bool across = tile.dots && product_.operands[tile.b].strides[tile.column] != 1;
    PadTo(tile.column, tile.columns, tile.reduced || tile.transposed || across);
    if (tile.reduced) PadTo(tile.lane, machine_.lanes, false);
    Lanes(tile.row, tile.rows, AxisType::kUpcast, 0);
    // Whole vectors are a dimension of their own: LLVM is better at many of the machine's than at a few wide ones.
    const int64_t vectors = tile.reduced ? tile.columns : tile.columns / machine_.lanes;
    Lanes(tile.lane, machine_.lanes, tile.reduced ? AxisType::kUnroll : AxisType::kUpcast, tile.dots ? 3 : 2);
    Lanes(tile.column, vectors, AxisType::kUpcast, 1);
    if (tile.dots) Lanes(tile.reduced_axis, product_.terms, AxisType::kUnroll, 2);
    if (tile.copy && tile.depth == 0) MoveNeighboursInside(tile);

    if (tile.panels > 0) return RunTiles(tile, blocks, panels);
    if (RowsAreShared(machine_, product_, tile)) {
      Move(tile.row, 0);
      Move(tile.column, product_.outputs - 1);
      if (tile.copy) Copy(tile, static_cast<int64_t>(product_.outputs) - 1);
      opts_.push_back({OptOp::kThread, 0});
      return std::move(opts_);
    }
    // The loops over columns outside, those over rows inside: what belongs to the columns is read again.
    const auto inner = static_cast<int64_t>(product_.outputs) - 1;
    auto place = static_cast<size_t>(inner);
    Move(tile.row, place);
    // Those that vary stand between, so that what is shared out is a number of iterations, whichever it is; and those
    // that the panel does not depend on, for all of which it is copied once.
    bool panel_varies = false;
    const std::vector<size_t> inside = InsideAxes(machine_, product_, tile, blocks, panels);
    for (size_t axis = product_.outputs; axis-- > 0;) {
      const bool is_inside = std::count(inside.begin(), inside.end(), axis) > 0;
      if ((!product_.varies[axis] && !is_inside) || axis == tile.row) continue;
      Move(axis, --place);
      panel_varies = panel_varies || (product_.varies[axis] && product_.operands[tile.b].depends[axis]);
    }
    const auto varying = inner - static_cast<int64_t>(place);
    Move(tile.column, --place);
    const int64_t parts = Parts(tile, inside, blocks, panels);
    if (parts > 1) {
      OptOp split{OptOp::kSplit, static_cast<int>(inner), blocks / parts, AxisType::kLoop};
      opts_.push_back(split);
      for (int64_t at = inner; at > inner - varying; --at)
        opts_.push_back({OptOp::kSwap, static_cast<int>(at - 1), at});
    }
    const int64_t level = parts > 1 ? inner - varying : static_cast<int64_t>(place);
    int64_t copied = panel_varies ? level + varying : level;
    if (tile.depth > 0) {
      const auto reduced_axis = static_cast<int>(tile.reduced_axis) + (parts > 1);
      opts_.push_back({OptOp::kSplit, reduced_axis, tile.depth, AxisType::kReduce});
      opts_.push_back({OptOp::kSwap, static_cast<int>(level) + 1, reduced_axis});
      copied = static_cast<int64_t>(product_.sizes.size()) + (parts > 1);  // behind all axes
    }
    if (tile.copy) Copy(tile, copied);
    // One loop of all that is shared out.
    for (int64_t axis = level; axis > 0; --axis) opts_.push_back({OptOp::kFuse, static_cast<int>(axis - 1)});
    opts_.push_back({OptOp::kThread, 0});
    return std::move(opts_);
  }

 private:
  // The rest of a schedule for a matrix unit. From the outside: groups of panels, of which threads take turns at; parts
  // of the rows; tiles of rows; the panels of a group.
  std::vector<OptOp> RunTiles(const MatmulTile& tile, int64_t blocks, int64_t panels) {
    auto place = static_cast<int64_t>(product_.outputs) - 2;
    MatmulTile group = tile;
    group.columns *= tile.panels;
    const std::vector<size_t> inside = InsideAxes(machine_, product_, tile, blocks, panels / tile.panels);
    Move(tile.row, product_.outputs - 1);
    for (size_t i = inside.size(); i-- > 0;) Move(inside[i], static_cast<size_t>(place--));
    Move(tile.column, static_cast<size_t>(place));
    const auto split = [&](int64_t axis, int64_t amount) {
      opts_.push_back({OptOp::kSplit, static_cast<int>(axis), amount, AxisType::kLoop});
    };
    const auto swap = [&](int64_t axis) { opts_.push_back({OptOp::kSwap, static_cast<int>(axis), axis + 1}); };
    const auto between = static_cast<int64_t>(inside.size());
    if (tile.panels > 1) {
      split(place, tile.panels);
      for (int64_t axis = place + 1; axis <= place + 1 + between; ++axis) swap(axis);
    }
    const int64_t parts = Parts(group, inside, blocks, panels / tile.panels);
    if (parts > 1) {
      split(place + 1 + between, blocks / parts);
      for (int64_t axis = place + between; axis > place; --axis) swap(axis);
      ++place;
    }
    if (tile.copy) Copy(tile, place);
    if (tile.copy_rows) CopyWords(tile.a, place + between + 1);
    for (int64_t axis = place; axis > 0; --axis) opts_.push_back({OptOp::kFuse, static_cast<int>(axis - 1)});
    opts_.push_back({OptOp::kThread, 0});
    return std::move(opts_);
  }

  void PadTo(size_t axis, int64_t multiple, bool clamp) {
    if (multiple == 1) return;
    if (!product_.varies[axis] && product_.Size(axis) % multiple == 0) return;
    OptOp pad{OptOp::kPadTo, static_cast<int>(axis), multiple};
    pad.clamp = clamp;
    opts_.push_back(pad);
  }

  void Lanes(size_t axis, int64_t amount, AxisType type, int64_t dimension) {
    if (amount > 1) opts_.push_back({OptOp::kSplit, static_cast<int>(axis), amount, type, dimension});
  }

  void Copy(const MatmulTile& tile, int64_t level) {
    if (tile.dots) return CopyWords(tile.b, level);
    opts_.push_back({OptOp::kLocal, static_cast<int>(level), static_cast<int64_t>(tile.b)});
  }
  void CopyWords(size_t operand, int64_t level) {
    opts_.push_back({OptOp::kLocal, static_cast<int>(level), static_cast<int64_t>(operand + product_.operands.size())});
  }

  // The rows' own order in memory is that in which the innermost loop walks them: of many places that are reduced, each
  // row would keep a line in the cache. The copy follows.
  void MoveNeighboursInside(const MatmulTile& tile) {
    const auto& steps = product_.operands[tile.a].strides;
    const size_t last = product_.sizes.size() - 1;
    for (size_t axis = product_.outputs; axis < last; ++axis) {
      if (steps[axis] != 1) continue;
      opts_.push_back({OptOp::kSwap, static_cast<int>(axis), static_cast<int64_t>(last)});
      return;
    }
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

  // Into how many blocks the rows are cut, so that each thread gets its share.
  int64_t Parts(MatmulTile tile, absl::Span<const size_t> inside, int64_t blocks, int64_t panels) const {
    if (product_.varies[tile.row]) return 1;
    const int64_t iterations = panels * OuterIterations(product_, tile, inside);
    for (const size_t axis : inside) tile.rows *= product_.Size(axis);  // of a block, with all that is done for each
    const int64_t least = FewestParts(machine_, product_, tile, blocks);
    if (machine_.cores == 1) return least;
    const auto uneven = [&](int64_t parts) {
      const int64_t all = iterations * parts;
      return static_cast<double>(CeilDiv(all, machine_.cores) * machine_.cores) / static_cast<double>(all);
    };
    int64_t best = least;
    for (int64_t parts = least; parts <= std::min(blocks, kMaxParts); ++parts) {
      // Rather a copy that few rows share than a core without work.
      const int64_t min_rows = iterations * best < machine_.cores ? kMinShare : kMinBlock;
      if (blocks % parts != 0 || (tile.copy && blocks / parts * tile.rows < min_rows)) continue;
      if (iterations * best >= kIterationsPerCore * machine_.cores && uneven(best) < 1.03) break;
      if (uneven(parts) < uneven(best) - 0.01) best = parts;
    }
    return best;
  }

  const Machine& machine_;
  const Product& product_;
  std::vector<size_t> order_;
  std::vector<OptOp> opts_;
};

}  // namespace

int64_t OuterIterations(const Product& product, const MatmulTile& tile, absl::Span<const size_t> inside) {
  int64_t iterations = 1;
  for (size_t axis = 0; axis < product.outputs; ++axis) {
    if (axis == tile.row || axis == tile.column || product.varies[axis]) continue;
    if (std::find(inside.begin(), inside.end(), axis) == inside.end()) iterations *= product.Size(axis);
  }
  return iterations;
}

std::vector<size_t> InsideAxes(const Machine& machine, const Product& product, const MatmulTile& tile, int64_t blocks,
                               int64_t panels) {
  std::vector<size_t> inside;
  if (product.AnyVaries() || tile.depth > 0) return inside;
  for (size_t axis = 0; axis < product.outputs; ++axis) {
    if (axis != tile.row && axis != tile.column && product.Walks(tile.a, axis, tile.column) &&
        !product.operands[tile.b].depends[axis])
      inside.push_back(axis);
  }
  // Each core must get some.
  while (!inside.empty() && blocks * panels * OuterIterations(product, tile, inside) < machine.cores)
    inside.erase(inside.begin());
  return inside;
}

int64_t LeastParts(const Machine& machine, const Product& product, const MatmulTile& tile, int64_t blocks) {
  const int64_t max_blocks = MaxCut(machine) / (tile.rows * tile.columns * product.item);
  if (max_blocks == 0) return 0;
  const int64_t most = std::clamp<int64_t>(blocks / CeilDiv(kMinBlock, tile.rows), 1, kMaxParts);
  for (int64_t parts = CeilDiv(blocks, max_blocks); parts <= most; ++parts) {
    if (blocks % parts == 0) return parts;
  }
  return 0;
}

int64_t FewestParts(const Machine& machine, const Product& product, const MatmulTile& tile, int64_t blocks) {
  int64_t least = tile.depth > 0 ? LeastParts(machine, product, tile, blocks) : 1;
  const double block = 2.0 * product.most_varying * static_cast<double>(tile.rows * tile.columns) *
                       static_cast<double>(product.ReducedSize());
  const auto too_long = [&](int64_t parts) { return static_cast<double>(blocks / parts) * block > kMaxIterationWork; };
  for (int64_t parts = least + 1; too_long(least) && parts <= std::min(blocks, kMaxParts); ++parts) {
    if (blocks / parts * tile.rows < kMinBlock) break;
    if (blocks % parts == 0) least = parts;
  }
  return least;
}

// Operations of an iteration of a loop over columns, at most.
double ColumnsWork(const Machine& machine, const Product& product, const MatmulTile& tile) {
  double rows = 1;
  if (!product.varies[tile.row]) {
    const int64_t blocks = CeilDiv(product.Size(tile.row), tile.rows);
    rows = static_cast<double>(blocks / FewestParts(machine, product, tile, blocks) * tile.rows);
  }
  return 2.0 * product.most_varying * rows * static_cast<double>(tile.columns) *
         static_cast<double>(product.ReducedSize());
}

bool RowsAreShared(const Machine& machine, const Product& product, const MatmulTile& tile) {
  if (!product.varies[tile.row] || std::count(product.varies.begin(), product.varies.end(), true) != 1) return false;
  const int64_t panels = CeilDiv(product.Size(tile.column), tile.columns);
  const int64_t turns = panels * OuterIterations(product, tile, {});
  return turns < std::max<int64_t>(2, machine.cores) || ColumnsWork(machine, product, tile) > kMaxIterationWork;
}

double IterationWork(const Machine& machine, const Product& product, const MatmulTile& tile) {
  if (!RowsAreShared(machine, product, tile)) return ColumnsWork(machine, product, tile);
  return 2.0 * static_cast<double>(tile.rows * OuterIterations(product, tile, {})) *
         static_cast<double>(product.Size(tile.column)) * static_cast<double>(product.ReducedSize());
}

std::vector<OptOp> ScheduleMatmul(const Machine& machine, const Product& product, const MatmulTile& tile,
                                  std::vector<OptOp> opts) {
  return Scheduler(machine, product, std::move(opts)).Run(tile);
}

}  // namespace kiln::compiler
