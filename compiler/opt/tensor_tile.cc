#include "compiler/opt/tensor_tile.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/dtype.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/apply.h"
#include "compiler/opt/product.h"
#include "compiler/opt/tile_factors.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/structure/product_box.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kFewRows = 64;  // fewer, and loops beside them are fused with them
// Smaller products are as quick in registers.
constexpr int64_t kMinSide = 16, kMinReduced = 16, kMinOutputs = 1024;
// Of an item, more leave no registers for what is read besides the factors.
constexpr int64_t kMaxElementsOfItem = 64;
constexpr int64_t kMaxGroups = std::numeric_limits<int32_t>::max();
constexpr int64_t kTilesTogether = 8;
constexpr int64_t kCores = 128;  // of a target that does not say

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(parts...));
}

int64_t SizeOf(const UOp* range) { return range->src(0)->const_int(); }

// Of PutTile: `side` from row `first` on, of `size` rows.
GroupProduct::Side MadeSide(Graph& graph, const Side& side, UOp* first, int64_t size) {
  const auto offset = [&](const FactorMoves& moves, int64_t least) {
    LinearForm rest = moves.rest;
    rest.constant -= least;
    return Add(graph, FromLinear(graph, rest), Mul(graph, first, Idx(graph, moves.step)));
  };
  GroupProduct::Side made{side.factor->Storage(), offset(side.place, 0), first,           size,
                          side.place.step,        side.place.step_k,     side.place.jumps};
  for (size_t i = 0; i < side.conditions.size(); ++i) {
    const Condition& condition = side.factor->conditions[i];
    const FactorMoves& moves = side.conditions[i];
    made.windows.push_back({offset(moves, condition.least), moves.step, moves.step_k,
                            condition.greatest - condition.least + 1, moves.jumps});
  }
  return made;
}

// Whether the copy engine brings a factor, of `size` rows: of storage whose size is a number, as whoever loads a
// program checks what the engine is told against it.
bool TakesBoxes(const Factors& factors, const Side& side, int64_t size) {
  if (!side.IsPlain() || !IsConst(side.factor->Storage()->shape())) return false;
  PlaceForm place;
  place.constant = side.place.rest.constant;
  for (const auto& term : side.place.rest.terms) place.Add(PlaceFormOf(term.node), term.coefficient);
  return BoxOf(place, size, side.place.step, side.place.step_k, factors.reduced).has_value();
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

absl::Status CheckTileOf(const Factors& factors, Loops outputs, Loops rows, Loops columns, const MatrixTile& tile,
                         const v1::Target& target) {
  const int64_t m = IterationsOf(rows), n = IterationsOf(columns);
  if (std::max(m, n) > kMaxTileAxis)
    return Bad("an axis of ", std::max(m, n), "; tiles are of axes up to ", kMaxTileAxis);
  const absl::StatusOr<Sides> sides = SidesOf(factors, rows, columns);
  if (!sides.ok()) return sides.status();
  if (!TakesTile(target, tile, factors.in()))
    return Bad(target.arch(), " has no ", tile.name, " of ", Name(factors.in()));
  const bool boxes = TakesBoxes(factors, (*sides)[0], m) && TakesBoxes(factors, (*sides)[1], n);
  if (tile.unit == MatrixTile::kWgmma && !boxes)
    return Bad(tile.name, " is of factors whose rows begin at multiples of 16 bytes, in one matrix or a row of them");
  __int128 groups = __int128{CeilDiv(m, tile.m)} * CeilDiv(n, tile.n);
  for (UOp* loop : outputs) {
    const bool tiled =
        std::count(rows.begin(), rows.end(), loop) + std::count(columns.begin(), columns.end(), loop) > 0;
    if (!tiled) groups = std::min<__int128>(groups * SizeOf(loop), __int128{kMaxGroups} + 1);
  }
  if (groups > kMaxGroups) return Bad("too many tiles: more than ", kMaxGroups, " work groups");
  return absl::OkStatus();
}

// Loops of the output beside each other that one factor depends on, and the other does not.
struct Run {
  int begin;
  Loops loops;
  size_t factor;
};
std::vector<Run> RunsOf(const Factors& factors, Loops outputs) {
  std::vector<Run> runs;
  std::optional<Run> open;
  const auto close = [&] {
    if (open.has_value() && open->loops.size() > 1) runs.push_back(*open);
    open.reset();
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Loops loop = outputs.subspan(i, 1);
    const bool a = DependsOn(factors.of[0], loop), b = DependsOn(factors.of[1], loop);
    const Run single{static_cast<int>(i), loop, b ? size_t{1} : size_t{0}};
    if (a == b || (open.has_value() && open->factor != single.factor)) close();
    if (a == b) continue;
    runs.push_back(single);
    if (!open.has_value()) open = single;
    open->loops = outputs.subspan(static_cast<size_t>(open->begin), i + 1 - static_cast<size_t>(open->begin));
  }
  close();
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Run& a, const Run& b) { return a.loops.size() < b.loops.size(); });
  return runs;
}

struct Choice {
  Run rows, columns;
  int64_t m, n;
  bool plain = false;
  int64_t fitness = 0;
};

}  // namespace

absl::Status CheckTile(UOp* sink, UOp* row, UOp* column, const MatrixTile& tile, const v1::Target& target) {
  const std::vector<UOp*> outputs = OutputRanges(sink);
  const bool are_outputs = row != column && std::count(outputs.begin(), outputs.end(), row) == 1 &&
                           std::count(outputs.begin(), outputs.end(), column) == 1;
  const absl::StatusOr<Factors> factors = FactorsOf(sink);
  if (!factors.ok()) return factors.status();
  if (!are_outputs) return Bad("rows and columns are two axes of the output");
  return CheckTileOf(*factors, outputs, {&row, 1}, {&column, 1}, tile, target);
}

TiledProduct PutTile(Graph& graph, UOp* sink, UOp* row, UOp* column, const MatrixTile& tile) {
  const Factors factors = *FactorsOf(sink);
  const Sides sides = *SidesOf(factors, {&row, 1}, {&column, 1});
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
  product.in = factors.in();
  product.reduced = factors.reduced;
  product.a = MadeSide(graph, sides[0], first[0], SizeOf(row));
  product.b = MadeSide(graph, sides[1], first[1], SizeOf(column));
  UOp* element = Add(graph, Mul(graph, down, Idx(graph, tile.n)), across);
  UOp* made = MakeGroupProduct(graph, product, {sides[0].factor->Storage(), sides[1].factor->Storage()}, element);
  tiled.sink = Substitute(sink, {{factors.reduce, made}}, graph);
  tiled.row_value = Add(graph, first[0], down);
  tiled.column_value = Add(graph, first[1], across);
  return tiled;
}

std::optional<TileChoice> ChooseTile(UOp* sink, const v1::Target& target) {
  const std::vector<UOp*> outputs = OutputRanges(sink);
  const absl::StatusOr<Factors> factors = FactorsOf(sink);
  if (!factors.ok()) return std::nullopt;
  UOp* place = sink->src(0)->src(0)->src(0);
  if (place->op() != Op::INDEX) return std::nullopt;
  const std::vector<Run> runs = RunsOf(*factors, outputs);
  std::optional<Choice> one, best;  // of single loops, of any
  for (const Run& rows : runs) {
    for (const Run& columns : runs) {
      if (rows.factor == columns.factor) continue;
      Choice choice{rows, columns, IterationsOf(rows.loops), IterationsOf(columns.loops)};
      if (std::min(choice.m, choice.n) < kMinSide || choice.m * choice.n < kMinOutputs) continue;
      const absl::StatusOr<Sides> sides = SidesOf(*factors, rows.loops, columns.loops);
      if (!sides.ok()) continue;
      choice.plain = (*sides)[0].IsPlain() && (*sides)[1].IsPlain();
      // Either may be the columns: neighbours in what is stored, so that lanes are.
      const bool stored_so = StrideIn(place->src(1), columns.loops.back()) == 1;
      choice.fitness = choice.m * choice.n * (stored_so ? 2 : 1);
      const bool single = rows.loops.size() + columns.loops.size() == 2;
      if (single && (!one.has_value() || choice.fitness > one->fitness)) one = choice;
      if (!best.has_value() || choice.fitness > best->fitness) best = choice;
    }
  }
  if (!best.has_value() || factors->reduced < kMinReduced) return std::nullopt;
  // Steps alone are what is copied best, by the engine if there is one.
  if (one.has_value() && one->plain && std::min(one->m, one->n) >= kFewRows) best = one;
  int64_t others = 1;
  for (const UOp* loop : outputs) others *= SizeOf(loop);
  others /= best->m * best->n;
  const int64_t cores = target.tuning().cores() != 0 ? target.tuning().cores() : kCores;
  const auto& tiles = MatrixTiles();
  const bool reads_more = CountLoads(sink) > 2;
  std::vector<int64_t> computed;  // elements by each tile, with padding
  int64_t least = 0;
  for (const MatrixTile& tile : tiles) {
    const bool fits = TakesTile(target, tile, factors->in()) &&
                      CheckTileOf(*factors, outputs, best->rows.loops, best->columns.loops, tile, target).ok() &&
                      (ElementsOfItem(tile) <= kMaxElementsOfItem || !reads_more);
    computed.push_back(fits ? CeilDiv(best->m, tile.m) * tile.m * CeilDiv(best->n, tile.n) * tile.n : 0);
    if (fits && (least == 0 || computed.back() < least)) least = computed.back();
  }
  // The first that leaves a group for every core, or else that of which there are most; of those that compute hardly
  // more than any must.
  int64_t most = 0;
  std::optional<int64_t> tile;
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (computed[i] == 0 || computed[i] * 3 > least * 4) continue;
    const int64_t groups = CeilDiv(best->m, tiles[i].m) * CeilDiv(best->n, tiles[i].n) * others;
    if (groups <= most) continue;
    // Ordinary arithmetic is as quick without shared memory, and then more items take part in a small product; and no
    // such tile is small.
    const bool much_padding = !best->plain && computed[i] * 3 > best->m * best->n * 4;
    if (tiles[i].unit == MatrixTile::kFma && (groups * 2 < cores || much_padding)) continue;
    most = groups;
    tile = static_cast<int64_t>(i);
    if (groups >= cores) break;
  }
  if (!tile.has_value()) return std::nullopt;
  return TileChoice{best->rows.begin, static_cast<int>(best->rows.loops.size()), best->columns.begin,
                    static_cast<int>(best->columns.loops.size()), *tile};
}

}  // namespace kiln::compiler
