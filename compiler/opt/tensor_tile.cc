#include "compiler/opt/tensor_tile.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/dtype.h"
#include "compiler/ir/product_box.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/apply.h"
#include "compiler/opt/float8_value.h"
#include "compiler/opt/product.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

// Smaller products are as quick in registers.
constexpr int64_t kLeastSide = 16, kLeastFolded = 16, kLeastOutputs = 1024;
constexpr int64_t kMostSize = int64_t{1} << 30;
// Of an item, more leave no registers for what is read besides the factors.
constexpr int64_t kMostElements = 64;
constexpr int64_t kMostGroups = std::numeric_limits<int32_t>::max();
constexpr int64_t kTilesTogether = 8;
constexpr int64_t kCores = 128;  // of a target that does not say

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(parts...));
}

int64_t SizeOf(const UOp* range) { return range->src(0)->const_int(); }

// The two numbers in memory whose product is folded, and how they move.
struct Factors {
  UOp* reduce = nullptr;
  UOp* k = nullptr;
  std::array<UOp*, 2> load = {};  // that moves along the row, and along the column
  DType in = DType::kNone;        // of both
  std::array<int64_t, 2> step = {}, step_k = {};

  UOp* Index(size_t side) const { return load[side]->src(0)->src(1); }
  UOp* Storage(size_t side) const { return load[side]->src(0)->src(0); }
};

struct Factor {
  UOp* load;
  DType dtype;  // the number's: storage of 8-bit floats is of bytes by now
};

// A number that is read as it is, and widened to the sum's dtype if it is of another.
std::optional<Factor> FactorOf(UOp* uop) {
  UOp* load = uop->op() == Op::CAST ? uop->src(0) : uop;
  Factor factor = {load, load->dtype()};
  if (load->op() != Op::LOAD) {
    const std::optional<Float8Value> value = Float8ValueOf(uop);
    if (!value.has_value()) return std::nullopt;
    factor = {value->load, value->format};
  }
  load = factor.load;
  const bool plain =
      load->src().size() == 1 && load->src(0)->op() == Op::INDEX && load->src(0)->src(0)->op() == Op::PARAM;
  if (!plain || uop->dtype() != SumOf(factor.dtype)) return std::nullopt;
  return factor;
}

absl::StatusOr<Factors> FactorsOf(UOp* sink, UOp* row, UOp* column) {
  if (sink->src().size() != 1 || sink->src(0)->op() != Op::END || sink->src(0)->src(0)->op() != Op::STORE)
    return Bad("a tile is stored by one STORE in loops");
  Factors factors;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::BUFFER || uop->op() == Op::WMMA) return Bad("a kernel with memory of its own takes no tiles");
    if (uop->op() != Op::REDUCE) continue;
    if (factors.reduce != nullptr) return Bad("a kernel of several REDUCEs takes no tiles");
    factors.reduce = uop;
  }
  UOp* reduce = factors.reduce;
  if (reduce == nullptr || reduce->arg_as<ReduceArg>().op != Op::ADD || reduce->src().size() != 2 ||
      reduce->src(0)->op() != Op::MUL)
    return Bad("tiles are of a REDUCE that adds up products along one axis");
  factors.k = reduce->src(1);
  std::vector<UOp*> loops = OutputRanges(sink);
  const bool outputs = row != column && std::count(loops.begin(), loops.end(), row) == 1 &&
                       std::count(loops.begin(), loops.end(), column) == 1;
  if (!outputs) return Bad("rows and columns are two axes of the output");
  loops.push_back(factors.k);
  for (const UOp* loop : loops) {
    const AxisType type = loop->arg_as<RangeArg>().type;
    if (!loop->src(0)->IsConst()) return Bad("an axis whose size is not a number, but known when the kernel runs");
    if (type == AxisType::kLocal || type == AxisType::kUpcast || type == AxisType::kUnroll ||
        type == AxisType::kGroupReduce)
      return Bad("items and lanes are what the tile says: no other axis may be such");
  }
  for (UOp* source : reduce->src(0)->src()) {
    const std::optional<Factor> factor = FactorOf(source);
    if (!factor.has_value())
      return Bad("the factors are LOADs without a gate, or CASTs of them to what they are added up in");
    UOp* load = factor->load;
    UOp* index = load->src(0)->src(1);
    // Nobody proves or gates the tile's accesses later: all are the loops', and of these all must be inside.
    const Bounds& places = index->bounds();
    if (places.min < 0 || places.max >= load->src(0)->src(0)->shape()[0].min())
      return Bad("a factor's place may be outside of its storage");
    const auto along_row = StrideIn(index, row), along_column = StrideIn(index, column);
    const auto along_k = StrideIn(index, factors.k);
    if (!along_row.has_value() || !along_column.has_value() || !along_k.has_value())
      return Bad("a factor's place is no sum of multiples of row, column and k");
    if ((*along_row == 0) == (*along_column == 0))
      return Bad("one factor moves along the rows, and one along the columns");
    const size_t side = *along_row != 0 ? 0 : 1;
    if (factors.load[side] != nullptr) return Bad("one factor moves along the rows, and one along the columns");
    if (factors.in != DType::kNone && factors.in != factor->dtype) return Bad("the factors are of two dtypes");
    factors.in = factor->dtype;
    factors.load[side] = load;
    factors.step[side] = side == 0 ? *along_row : *along_column;
    factors.step_k[side] = *along_k;
  }
  for (const UOp* load : factors.load) {
    if (load->src(0)->src(0) == sink->src(0)->src(0)->src(0)->src(0)) return Bad("the kernel writes what it reads");
  }
  return factors;
}

// Whether the copy engine brings a factor, which moves along `axis`: of storage whose size is a number, as whoever
// loads a program checks what the engine is told against it.
bool TakesBoxes(const Factors& factors, size_t side, UOp* axis) {
  if (!IsConst(factors.Storage(side)->shape())) return false;
  const int64_t step = factors.step[side], step_k = factors.step_k[side];
  LinearForm place = LinearFormOf(factors.Index(side));
  place.Add(axis, -step);
  place.Add(factors.k, -step_k);
  return BoxOf(place, SizeOf(axis), step, step_k, SizeOf(factors.k)).has_value();
}

int64_t ElementsOfItem(const MatrixTile& tile) {
  int64_t elements = 1;
  for (const TileDigit& digit : tile.lanes) elements *= digit.size;
  return elements;
}
int64_t CountLoads(UOp* sink) {
  const std::vector<UOp*> order = Toposort(sink);
  return std::count_if(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::LOAD; });
}

// What the digits add up to: of the item's number, and of lanes.
UOp* Along(Graph& graph, const MatrixTile& tile, bool column, UOp* item, absl::Span<UOp* const> lanes) {
  UOp* sum = Idx(graph, 0);
  int64_t below = 1;
  for (size_t i = 0; i < tile.items.size(); ++i) {
    const TileDigit& digit = tile.items[i];
    UOp* value = below == 1 ? item : graph.Make(Op::FLOORDIV, {item, Idx(graph, below)});
    below *= digit.size;
    if (below < tile.threads) value = graph.Make(Op::FLOORMOD, {value, Idx(graph, digit.size)});
    if (digit.column == column && digit.size > 1) sum = Add(graph, sum, Mul(graph, value, Idx(graph, digit.step)));
  }
  for (size_t i = 0; i < tile.lanes.size(); ++i) {
    if (tile.lanes[i].column == column && lanes[i] != nullptr)
      sum = Add(graph, sum, Mul(graph, lanes[i], Idx(graph, tile.lanes[i].step)));
  }
  return sum;
}

}  // namespace

absl::Status CheckTile(UOp* sink, UOp* row, UOp* column, const MatrixTile& tile, const v1::Target& target) {
  const absl::StatusOr<Factors> factors = FactorsOf(sink, row, column);
  if (!factors.ok()) return factors.status();
  if (!TakesTile(target, tile, factors->in))
    return Bad(target.arch(), " has no ", tile.name, " of ", Name(factors->in));
  if (SizeOf(factors->k) > kMostSize)
    return Bad("an axis of ", SizeOf(factors->k), "; tiles are of axes up to ", kMostSize);
  for (size_t side : {size_t{0}, size_t{1}}) {
    if (tile.unit == MatrixTile::kWgmma && !TakesBoxes(*factors, side, side == 0 ? row : column))
      return Bad(tile.name, " is of factors whose rows begin at multiples of 16 bytes, in one matrix or a row of them");
  }
  __int128 groups = 1;
  for (const UOp* loop : OutputRanges(sink)) {
    const int64_t size = loop == row      ? CeilDiv(SizeOf(loop), tile.m)
                         : loop == column ? CeilDiv(SizeOf(loop), tile.n)
                                          : SizeOf(loop);
    if ((loop == row || loop == column) && SizeOf(loop) > kMostSize)
      return Bad("an axis of ", SizeOf(loop), "; tiles are of axes up to ", kMostSize);
    groups = std::min<__int128>(groups * size, __int128{kMostGroups} + 1);
  }
  if (groups > kMostGroups) return Bad("too many tiles: more than ", kMostGroups, " work groups");
  return absl::OkStatus();
}

TiledProduct PutTile(Graph& graph, UOp* sink, UOp* row, UOp* column, const MatrixTile& tile) {
  const Factors factors = *FactorsOf(sink, row, column);
  const auto loop = [&](int64_t size, AxisType type) {
    return graph.Make(Op::RANGE, {Idx(graph, size)}, RangeArg{graph.NextId(), type});
  };
  // Groups that run at the same time read few panels of both operands, which the cache then has: so many tiles one
  // below the other, then those beside them.
  const int64_t down_all = CeilDiv(SizeOf(row), tile.m);
  int64_t together = std::min(down_all, kTilesTogether);
  while (down_all % together != 0) --together;
  UOp* bands = loop(down_all / together, AxisType::kGlobal);
  UOp* band_rows = loop(together, AxisType::kGlobal);
  UOp* rows = Add(graph, Mul(graph, bands, Idx(graph, together)), band_rows);
  UOp* columns = loop(CeilDiv(SizeOf(column), tile.n), AxisType::kGlobal);
  UOp* item = loop(tile.threads, AxisType::kLocal);
  TiledProduct tiled;
  tiled.row_loops = {bands, item};
  tiled.column_loops = {columns, band_rows};
  std::vector<UOp*> lanes;
  for (size_t i = 0; i < tile.lanes.size(); ++i) {
    const int64_t id = kLaneIds + static_cast<int64_t>(i);
    lanes.push_back(tile.lanes[i].size == 1
                        ? nullptr
                        : graph.Make(Op::RANGE, {Idx(graph, tile.lanes[i].size)}, RangeArg{id, AxisType::kUpcast}));
    if (lanes.back() != nullptr) tiled.row_loops.push_back(lanes.back());
  }
  UOp* down = Along(graph, tile, false, item, lanes);
  UOp* across = Along(graph, tile, true, item, lanes);
  const std::array<UOp*, 2> first = {Mul(graph, rows, Idx(graph, tile.m)), Mul(graph, columns, Idx(graph, tile.n))};
  GroupProduct product;
  product.tile = &tile;
  product.in = factors.in;
  product.folded = SizeOf(factors.k);
  for (size_t side : {size_t{0}, size_t{1}}) {
    UOp* axis = side == 0 ? row : column;
    UOp* offset = Substitute(factors.Index(side), {{axis, first[side]}, {factors.k, Idx(graph, 0)}}, graph);
    (side == 0 ? product.a : product.b) = {factors.Storage(side), offset, first[side], SizeOf(axis), factors.step[side],
                                           factors.step_k[side]};
  }
  UOp* element = Add(graph, Mul(graph, down, Idx(graph, tile.n)), across);
  UOp* made = MakeGroupProduct(graph, product, {factors.Storage(0), factors.Storage(1)}, element);
  tiled.sink = Substitute(sink, {{factors.reduce, made}}, graph);
  tiled.row_value = Add(graph, first[0], down);
  tiled.column_value = Add(graph, first[1], across);
  return tiled;
}

std::optional<TileChoice> ChooseTile(UOp* sink, const v1::Target& target) {
  const std::vector<UOp*> axes = AxesOf(sink);
  const std::vector<UOp*> outputs = OutputRanges(sink);
  if (sink->src(0)->op() != Op::END || sink->src(0)->src(0)->op() != Op::STORE) return std::nullopt;
  UOp* place = sink->src(0)->src(0)->src(0);
  if (place->op() != Op::INDEX) return std::nullopt;
  std::optional<TileChoice> best;
  int64_t largest = 0;
  DType in = DType::kNone;
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t j = 0; j < outputs.size(); ++j) {
      if (i == j) continue;
      const absl::StatusOr<Factors> factors = FactorsOf(sink, outputs[i], outputs[j]);
      if (!factors.ok()) continue;
      const int64_t m = SizeOf(outputs[i]), n = SizeOf(outputs[j]);
      if (std::min(m, n) < kLeastSide || m * n < kLeastOutputs || SizeOf(factors->k) < kLeastFolded) continue;
      // Either may be the columns: neighbours in what is stored, so that lanes are.
      const int64_t fitness = m * n * (StrideIn(place->src(1), outputs[j]) == 1 ? 2 : 1);
      if (fitness <= largest) continue;
      largest = fitness;
      in = factors->in;
      best = {static_cast<int>(i), static_cast<int>(j), -1};
    }
  }
  if (!best.has_value()) return std::nullopt;
  const int64_t m = SizeOf(outputs[static_cast<size_t>(best->row)]);
  const int64_t n = SizeOf(outputs[static_cast<size_t>(best->column)]);
  int64_t others = 1;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (static_cast<int>(i) != best->row && static_cast<int>(i) != best->column) others *= SizeOf(outputs[i]);
  }
  const int64_t cores = target.tuning().cores() != 0 ? target.tuning().cores() : kCores;
  const auto& tiles = MatrixTiles();
  UOp* const row = outputs[static_cast<size_t>(best->row)];
  UOp* const column = outputs[static_cast<size_t>(best->column)];
  const bool reads_more = CountLoads(sink) > 2;
  std::vector<int64_t> computed;  // elements by each tile, with padding
  int64_t least = 0;
  for (const MatrixTile& tile : tiles) {
    const bool fits = TakesTile(target, tile, in) && CheckTile(sink, row, column, tile, target).ok() &&
                      (ElementsOfItem(tile) <= kMostElements || !reads_more);
    computed.push_back(fits ? CeilDiv(m, tile.m) * tile.m * CeilDiv(n, tile.n) * tile.n : 0);
    if (fits && (least == 0 || computed.back() < least)) least = computed.back();
  }
  // The first that leaves a group for every core, or else that of which there are most; of those that compute hardly
  // more than any must.
  int64_t most = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (computed[i] == 0 || computed[i] * 3 > least * 4) continue;
    const int64_t groups = CeilDiv(m, tiles[i].m) * CeilDiv(n, tiles[i].n) * others;
    if (groups <= most) continue;
    // Ordinary arithmetic is as quick without shared memory, and then more items take part in a small product.
    if (tiles[i].unit == MatrixTile::kFma && groups * 2 < cores) continue;
    most = groups;
    best->tile = static_cast<int64_t>(i);
    if (groups >= cores) break;
  }
  if (best->tile < 0) return std::nullopt;
  return best;
}

}  // namespace kiln::compiler
