#include "compiler/opt/cpu/lanes_apart.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "compiler/opt/cpu/matmul_schedule.h"
#include "compiler/opt/local_buffer.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kNearRows = 64;      // bytes; rows of scalars that lie no farther apart share lines of the cache
constexpr int64_t kMinIterations = 4;  // of each core

std::vector<int64_t> DivisorsOf(int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    divisors.push_back(d);
    if (d * d != n) divisors.push_back(n / d);
  }
  return divisors;
}

class Chooser {
 public:
  Chooser(const Machine& machine, const Product& product) : machine_(machine), product_(product) {}

  std::optional<ApartTile> Run() {
    for (size_t a : {size_t{0}, size_t{1}}) {
      for (size_t row = 0; row < product_.outputs; ++row) {
        for (size_t column = 0; column < product_.outputs; ++column) {
          if (row == column || product_.varies[row] || product_.varies[column]) continue;
          if (!product_.Walks(a, row, column) || !product_.Walks(1 - a, column, row)) continue;
          if (product_.store[row] != 1) continue;
          Try(a, row, column);
        }
      }
    }
    return best_;
  }

 private:
  void Try(size_t a, size_t row, size_t column) {
    const Operand& pixels = product_.operands[a];
    const Operand& weights = product_.operands[1 - a];
    const bool contiguous = weights.strides[column] == 1;
    if (weights.gated || (!contiguous && !product_.ReducesNeighbours(1 - a))) return;
    const auto& apart = pixels.strides[row];
    const bool near = apart.has_value() && std::abs(*apart) * product_.item <= kNearRows;
    if (!near || (pixels.gated && pixels.walks.empty())) return;
    if (pixels.constant) return;  // weights, of which a copy that was made beforehand is read from end to end
    ApartTile tile;
    tile.a = a;
    tile.row = row;
    tile.column = column;
    for (size_t axis = 0; axis < product_.outputs; ++axis) {
      if (axis == row || product_.varies[axis] || weights.depends[axis]) continue;
      if (product_.Walks(a, axis, column)) tile.inside.push_back(axis);
    }
    tile.inside.push_back(row);
    if (!pixels.gated) TryInside(tile, contiguous);
    // Of boxes that are too large, outer axes are walked outside.
    for (tile.box = !pixels.walks.empty(); tile.box && !tile.inside.empty(); tile.inside.erase(tile.inside.begin()))
      TryInside(tile, contiguous);
  }

  void TryInside(ApartTile tile, bool contiguous) {
    const int64_t m = product_.Size(tile.row), n = product_.Size(tile.column);
    for (tile.vectors = 1; tile.vectors <= 4; ++tile.vectors) {
      if (tile.vectors > 1 && (tile.vectors - 1) * machine_.lanes >= n) break;
      for (tile.rows = 1; tile.rows <= m; ++tile.rows) {
        if (tile.rows * tile.vectors + tile.vectors + 1 > machine_.registers) break;
        if (tile.box && m % tile.rows != 0) continue;  // rows that end early are no part of a box
        TryBlocks(tile, contiguous);
      }
    }
  }

  void TryBlocks(ApartTile tile, bool contiguous) {
    const Operand& pixels = product_.operands[tile.a];
    const Operand& weights = product_.operands[1 - tile.a];
    const int64_t panels = CeilDiv(product_.Size(tile.column), tile.vectors * machine_.lanes);
    const int64_t tiles_of_row = CeilDiv(product_.Size(tile.row), tile.rows);
    const int64_t first = tile.inside.size() == 1 ? tiles_of_row : product_.Size(tile.inside[0]);
    const auto r = static_cast<double>(tile.rows), v = static_cast<double>(tile.vectors);
    const auto k = static_cast<double>(product_.ReducedSize());
    const int64_t panel_bytes = product_.ReducedSize() * tile.vectors * machine_.lanes * product_.item;
    if (panel_bytes > kMaxLocalBytes) return;

    double outside = 1, varying = 1, tiles = static_cast<double>(panels * tiles_of_row);
    for (size_t axis = 0; axis < product_.outputs; ++axis) {
      if (axis == tile.row || axis == tile.column) continue;
      tiles *= static_cast<double>(product_.Size(axis));
      if (product_.varies[axis]) {
        varying *= static_cast<double>(product_.Size(axis));
      } else if (std::find(tile.inside.begin(), tile.inside.end(), axis) == tile.inside.end()) {
        outside *= static_cast<double>(product_.Size(axis));
      }
    }
    double iteration_cycles = machine_.MultiplyCycles(r, v) + kLoadWeight * (r + v);
    if (panel_bytes > machine_.l1_bytes / 2) iteration_cycles += machine_.l2_vector_cycles * v;
    // A few pixels of each line, and those of the next channel far from them.
    // Of lines that it walks with a stride it uses a part, and the panel lies beside all of them.
    const double beside = pixels.strides[tile.row] == 1 ? 0 : static_cast<double>(panel_bytes);
    const bool far = !tile.box && pixels.bytes + beside > static_cast<double>(machine_.l2_bytes);
    const bool farther = pixels.bytes > 4 * static_cast<double>(machine_.l2_bytes);
    if (far)
      iteration_cycles += (r * static_cast<double>(product_.item) + 32) /
                          machine_.FarBytesPerCycle(farther ? kReadAnewOverlap : kPixelOverlap);
    const double work = tiles * (k * iteration_cycles + r * v * (machine_.transpose_cycles + 2));
    const double copied = weights.constant ? kPackedCycles
                          : contiguous     ? machine_.copy_cycles
                                           : machine_.transpose_cycles;
    const double fill = static_cast<double>(panels) * k * v * copied * (tile.box ? varying : 1);

    const double operations =
        2 * tiles / varying * product_.most_varying * k * r * v * static_cast<double>(machine_.lanes);
    for (int64_t blocks : DivisorsOf(first)) {
      tile.blocks = blocks;
      double box = 0;
      if (tile.box) {
        const double bytes = BoxElements(tile, first) * static_cast<double>(product_.item);
        if (bytes + static_cast<double>(panel_bytes) > static_cast<double>(kMaxLocalBytes)) continue;
        box = BoxCycles(tile, first) * varying;
      }
      const double iterations = outside * static_cast<double>(tile.blocks);
      for (int64_t chunks : tile.box ? DivisorsOf(panels) : std::vector<int64_t>{panels}) {
        tile.chunks = chunks;
        const double shared = iterations * static_cast<double>(chunks);
        if (product_.AnyVaries() && operations > kMaxIterationWork * shared) continue;
        tile.cost = work * Uneven(shared) + iterations * fill + shared * box;
        if (!best_.has_value() || tile.cost < best_->cost) best_ = tile;
      }
    }
  }

  // How much longer the last of the cores has than an even share.
  double Uneven(double iterations) const {
    if (machine_.cores == 1) return 1;
    const auto cores = static_cast<double>(machine_.cores);
    return std::ceil(iterations / cores) * cores / iterations *
           (iterations < static_cast<double>(kMinIterations) * cores ? 1.05 : 1);
  }

  // Places along one axis of the box.
  double Extent(const ApartTile& tile, int64_t first, absl::Span<const std::pair<size_t, int64_t>> walk) const {
    int64_t extent = 1;
    for (const auto& [axis, step] : walk) {
      const auto inside = std::find(tile.inside.begin(), tile.inside.end(), axis);
      if (axis < product_.outputs && inside == tile.inside.end()) continue;
      int64_t size = product_.Size(axis);
      if (inside == tile.inside.begin()) size = axis == tile.row ? first / tile.blocks * tile.rows : size / tile.blocks;
      extent += (size - 1) * step;
    }
    return static_cast<double>(extent);
  }

  double BoxElements(const ApartTile& tile, int64_t first) const {
    double elements = 1;
    for (const auto& walk : product_.operands[tile.a].walks) elements *= Extent(tile, first, walk);
    return elements;
  }

  double BoxCycles(const ApartTile& tile, int64_t first) const {
    const Operand& pixels = product_.operands[tile.a];
    if (pixels.last_stride != 1) return BoxElements(tile, first) * kApartCycles;
    const double last = Extent(tile, first, pixels.walks.back());
    const auto vector = std::bit_floor(static_cast<uint64_t>(std::min(last, static_cast<double>(machine_.lanes))));
    return BoxElements(tile, first) / last * std::ceil(last / static_cast<double>(vector)) *
           (pixels.gated ? machine_.gated_cycles : machine_.copy_cycles);
  }

  const Machine& machine_;
  const Product& product_;
  std::optional<ApartTile> best_;
};

// Makes OptOps of a tile, and keeps account of which output loop stands where.
class Scheduler {
 public:
  Scheduler(const Product& product, std::vector<OptOp> opts) : product_(product), opts_(std::move(opts)) {
    loops_.resize(product.outputs);
    std::iota(loops_.begin(), loops_.end(), 0);
  }

  std::vector<OptOp> Run(const Machine& machine, const ApartTile& tile) {
    const int64_t columns = tile.vectors * machine.lanes;
    const int64_t panels = CeilDiv(product_.Size(tile.column), columns);
    const int64_t tiles_of_row = CeilDiv(product_.Size(tile.row), tile.rows);
    const bool contiguous = product_.operands[1 - tile.a].strides[tile.column] == 1;
    PadTo(tile.row, tile.rows, true);
    PadTo(tile.column, columns, !contiguous);
    Lanes(tile.row, tile.rows, 0);
    Lanes(tile.column, machine.lanes, 2);
    Lanes(tile.column, tile.vectors, 1);

    // First those outside, then panels, then those inside.
    size_t next = 0;
    for (size_t axis = 0; axis < product_.outputs; ++axis) {
      const bool inside = std::find(tile.inside.begin(), tile.inside.end(), axis) != tile.inside.end();
      if (!inside && !product_.varies[axis] && axis != tile.column) Move(axis, next++);
    }
    Move(tile.column, next);
    for (size_t i = 0; i < tile.inside.size(); ++i) Move(tile.inside[i], next + 1 + i);
    size_t level = next;
    if (tile.blocks > 1) {
      const int64_t first = tile.inside.size() == 1 ? tiles_of_row : product_.Size(tile.inside[0]);
      Split(tile.inside[0], first / tile.blocks);
      Move(tile.inside[0], next);  // the blocks; what is left of the axis follows the panels
      level = next + 1;
    }
    const bool chunks = tile.box && tile.chunks < panels;
    if (chunks) Split(tile.column, panels / tile.chunks);
    // Those that vary come behind all that is shared out, whose iterations are then a number.
    size_t varying = 0;
    bool weights_vary = false;
    for (size_t axis = 0; axis < product_.outputs; ++axis) {
      if (!product_.varies[axis]) continue;
      Move(axis, level + ++varying);
      weights_vary = weights_vary || product_.operands[1 - tile.a].depends[axis];
    }
    if (tile.box) Local(level + varying, tile.a);
    Local(chunks ? level + varying + 1 : weights_vary ? level + varying : level, 1 - tile.a);
    // One loop of all that is shared out.
    for (size_t axis = level; axis > 0; --axis) opts_.push_back({OptOp::kFuse, static_cast<int>(axis - 1)});
    opts_.push_back({OptOp::kThread, 0});
    return std::move(opts_);
  }

 private:
  static constexpr size_t kInner = 1000;  // the inner part of an axis has its number and this

  size_t PlaceOf(size_t loop) const {
    return static_cast<size_t>(std::find(loops_.begin(), loops_.end(), loop) - loops_.begin());
  }
  void PadTo(size_t axis, int64_t multiple, bool clamp) {
    if (product_.Size(axis) % multiple == 0) return;
    OptOp pad{OptOp::kPadTo, static_cast<int>(PlaceOf(axis)), multiple};
    pad.clamp = clamp;
    opts_.push_back(pad);
  }
  void Lanes(size_t axis, int64_t amount, int64_t dimension) {
    if (amount > 1)
      opts_.push_back({OptOp::kSplit, static_cast<int>(PlaceOf(axis)), amount, AxisType::kUpcast, dimension});
  }
  void Split(size_t axis, int64_t amount) {
    const size_t place = PlaceOf(axis);
    opts_.push_back({OptOp::kSplit, static_cast<int>(place), amount, AxisType::kLoop});
    loops_.insert(loops_.begin() + static_cast<int64_t>(place) + 1, axis + kInner);
  }
  // A loop to place `to`, and those between one place on.
  void Move(size_t loop, size_t to) {
    for (size_t from = PlaceOf(loop); from != to;) {
      const size_t next = from < to ? from + 1 : from - 1;
      opts_.push_back({OptOp::kSwap, static_cast<int>(from), static_cast<int64_t>(next)});
      std::swap(loops_[from], loops_[next]);
      from = next;
    }
  }
  void Local(size_t level, size_t operand) {
    opts_.push_back({OptOp::kLocal, static_cast<int>(level), static_cast<int64_t>(operand)});
  }

  const Product& product_;
  std::vector<size_t> loops_;
  std::vector<OptOp> opts_;
};

}  // namespace

std::optional<ApartTile> ChooseLanesApart(const Machine& machine, const Product& product) {
  if (machine.lanes < 4) return std::nullopt;
  return Chooser(machine, product).Run();
}

std::vector<OptOp> ScheduleLanesApart(const Machine& machine, const Product& product, const ApartTile& tile,
                                      std::vector<OptOp> opts) {
  return Scheduler(product, std::move(opts)).Run(machine, tile);
}

}  // namespace kiln::compiler
