#include "compiler/structure/group_product.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "absl/algorithm/container.h"
#include "compiler/ir/build.h"
#include "compiler/ir/dtype.h"
#include "compiler/structure/tf32.h"

namespace kiln::compiler {
namespace {

constexpr bool kRow = false, kColumn = true;

// PTX ISA, "mma.m16n8k16", the accumulators: of lane l of a warp, element e is in row l / 4 + 8 * (e / 2), column
// 2 * (l % 4) + e % 2. A warp holds `down` times `across` of them, and a group has so many warps.
MatrixTile MmaTile(const char* name, int64_t k, int64_t warp_rows, int64_t warp_columns, int64_t down, int64_t across,
                   int64_t stages) {
  MatrixTile tile;
  tile.name = name;
  tile.unit = MatrixTile::kMmaSync;
  tile.m = 16 * down * warp_rows;
  tile.n = 8 * across * warp_columns;
  tile.k = k;
  tile.threads = 32 * warp_rows * warp_columns;
  tile.stages = stages;
  tile.items = {{4, kColumn, 2}, {8, kRow, 1}, {warp_rows, kRow, 16 * down}, {warp_columns, kColumn, 8 * across}};
  tile.lanes = {{down, kRow, 16}, {2, kRow, 8}, {across, kColumn, 8}, {2, kColumn, 1}};
  return tile;
}

// PTX ISA, "wgmma.m64nNk16", the accumulators: a warp has 16 of the 64 rows, a lane of it what it has of mma.sync's.
// Two warp groups multiply; a third brings the operands.
MatrixTile WgmmaTile(const char* name, int64_t columns) {
  MatrixTile tile;
  tile.name = name;
  tile.unit = MatrixTile::kWgmma;
  tile.m = 128;
  tile.n = columns;
  tile.k = 64;
  tile.threads = 384;
  tile.stages = 4;
  tile.items = {{4, kColumn, 2}, {8, kRow, 1}, {4, kRow, 16}, {2, kRow, 64}};
  tile.lanes = {{2, kRow, 8}, {columns / 8, kColumn, 8}, {2, kColumn, 1}};
  return tile;
}

// AMD's instructions of 16x16, given both factors in each other's place: of lane l of a wave, element e is in row
// l % 16 and column l / 16 * neighbours + e. A wave holds `down` times `across` of them, and a group is 2 x 2 waves.
MatrixTile WaveTile(const char* name, MatrixTile::Unit unit, int64_t k, int64_t down, int64_t across) {
  const int64_t wave = unit == MatrixTile::kMfma ? 64 : 32, neighbours = 16 * 16 / wave;
  MatrixTile tile;
  tile.name = name;
  tile.unit = unit;
  tile.m = 2 * 16 * down;
  tile.n = 2 * 16 * across;
  tile.k = k;
  tile.threads = 4 * wave;
  tile.stages = 2;
  tile.items = {{16, kRow, 1}, {wave / 16, kColumn, neighbours}, {2, kRow, 16 * down}, {2, kColumn, 16 * across}};
  tile.lanes = {{down, kRow, 16}, {across, kColumn, 16}, {neighbours, kColumn, 1}};
  return tile;
}

// A warp covers 16 rows and 32 columns, of which an item has four neighbours each; the same below, half the tile's rows
// further; and the same beside both, half its columns further.
MatrixTile FmaTile(const char* name, int64_t k, int64_t warp_rows, int64_t warp_columns, int64_t stages) {
  MatrixTile tile;
  tile.name = name;
  tile.unit = MatrixTile::kFma;
  tile.m = 2 * 16 * warp_rows;
  tile.n = 2 * 32 * warp_columns;
  tile.k = k;
  tile.threads = 32 * warp_rows * warp_columns;
  tile.stages = stages;
  tile.items = {{8, kColumn, 4}, {4, kRow, 4}, {warp_rows, kRow, 16}, {warp_columns, kColumn, 32}};
  tile.lanes = {{2, kRow, tile.m / 2}, {4, kRow, 1}, {2, kColumn, tile.n / 2}, {4, kColumn, 1}};
  return tile;
}

bool IsHalf(DType in) { return in == DType::kFloat16 || in == DType::kBfloat16; }
bool IsByte(DType in) { return in == DType::kInt8 || in == DType::kUint8; }
bool IsSmallFloat(DType in) { return in == DType::kFloat8E4m3 || in == DType::kFloat8E5m2; }
bool IsFnuz(DType in) { return in == DType::kFloat8E4m3Fnuz || in == DType::kFloat8E5m2Fnuz; }

// The number that `uop` is a constant multiple of, as far as its form says.
int64_t DivisorOf(const UOp* uop) {
  if (uop->IsConst()) return uop->const_int();
  if (uop->op() == Op::ADD) return std::gcd(DivisorOf(uop->src(0)), DivisorOf(uop->src(1)));
  if (uop->op() == Op::MUL) return DivisorOf(uop->src(0)) * DivisorOf(uop->src(1));
  return 1;
}

constexpr size_t kMinNumbers = 9;  // of a side

// Reads the numbers of a side one behind the other.
class Reader {
 public:
  explicit Reader(absl::Span<UOp* const> numbers) : numbers_(numbers) {}

  UOp* Node() { return numbers_.at(next_++); }
  int64_t Number() { return Node()->const_int(); }
  std::vector<Jump> Jumps() {
    std::vector<Jump> jumps(static_cast<size_t>(Number()));
    for (Jump& jump : jumps) {
      jump.reduced = Number() != 0;
      jump.every = Number();
      jump.by = Number();
    }
    return jumps;
  }

 private:
  const absl::Span<UOp* const> numbers_;
  size_t next_ = 0;
};

// Of a product, whose tile and `reduced` each of its sides says.
std::optional<GroupProduct::Side> SideOf(const UOp* place, GroupProduct& product) {
  if (place->op() != Op::INDEX || place->src().size() != 2 || place->src(1)->op() != Op::STACK) return std::nullopt;
  if (place->src(1)->src().size() < kMinNumbers) return std::nullopt;
  Reader reader(place->src(1)->src());
  product.tile = &MatrixTiles().at(static_cast<size_t>(reader.Number()));
  GroupProduct::Side side;
  side.param = place->src(0);
  side.offset = reader.Node();
  side.first = reader.Node();
  side.size = reader.Number();
  side.step = reader.Number();
  side.step_k = reader.Number();
  product.reduced = reader.Number();
  side.jumps = reader.Jumps();
  side.windows.resize(static_cast<size_t>(reader.Number()));
  for (GroupProduct::Window& window : side.windows) {
    window.offset = reader.Node();
    window.step = reader.Number();
    window.step_k = reader.Number();
    window.size = reader.Number();
    window.jumps = reader.Jumps();
  }
  return side;
}

UOp* PlaceOf(Graph& graph, UOp* storage, const GroupProduct::Side& side, const GroupProduct& product) {
  std::vector<UOp*> numbers = {Idx(graph, product.tile - MatrixTiles().data()), side.offset, side.first};
  const auto add = [&](std::initializer_list<int64_t> more) {
    for (const int64_t number : more) numbers.push_back(Idx(graph, number));
  };
  const auto add_jumps = [&](const std::vector<Jump>& jumps) {
    add({static_cast<int64_t>(jumps.size())});
    for (const Jump& jump : jumps) add({jump.reduced, jump.every, jump.by});
  };
  add({side.size, side.step, side.step_k, product.reduced});
  add_jumps(side.jumps);
  add({static_cast<int64_t>(side.windows.size())});
  for (const GroupProduct::Window& window : side.windows) {
    numbers.push_back(window.offset);
    add({window.step, window.step_k, window.size});
    add_jumps(window.jumps);
  }
  return graph.Make(Op::INDEX, {storage, graph.Make(Op::STACK, numbers)});
}

// How many of a side follow each other before one jumps.
int64_t RunOf(const GroupProduct::Side& side, bool reduced) {
  int64_t run = std::numeric_limits<int64_t>::max();
  for (const Jump& jump : side.jumps) {
    if (jump.reduced == reduced) run = std::min(run, jump.every);
  }
  return run;
}

}  // namespace

const std::vector<MatrixTile>& MatrixTiles() {
  static const std::vector<MatrixTile> tiles = {
      WgmmaTile("WGMMA_128X256", 256),
      WgmmaTile("WGMMA_128X128", 128),
      MmaTile("MMA_128X128", 32, 2, 4, 4, 4, 3),
      MmaTile("MMA_64X64", 32, 2, 2, 2, 4, 4),
      MmaTile("MMA_32X32", 32, 2, 1, 1, 4, 4),
      WaveTile("MFMA_128X128", MatrixTile::kMfma, 16, 4, 4),
      WaveTile("MFMA_64X64", MatrixTile::kMfma, 32, 2, 2),
      WaveTile("WMMA_64X64", MatrixTile::kWmma, 16, 2, 2),
      FmaTile("FMA_128X128", 8, 4, 2, 4),
      FmaTile("FMA_64X64", 8, 2, 1, 4),
  };
  return tiles;
}

bool TakesTile(const v1::Target& target, const MatrixTile& tile, DType in) {
  const bool nvidia = target.kind() == v1::Target::NVPTX, amd = target.kind() == v1::Target::AMDGPU;
  const uint32_t lanes = target.tuning().lanes();
  switch (tile.unit) {
    case MatrixTile::kMmaSync:
      if (in == DType::kFloat32) return nvidia && MayRoundToTf32(target);
      if (IsSmallFloat(in)) return nvidia && target.arch() != "sm_80";  // which has no instruction for them
      return nvidia && (IsHalf(in) || IsByte(in) || in == DType::kFloat64);
    case MatrixTile::kWgmma: return target.arch() == "sm_90a" && IsHalf(in);
    case MatrixTile::kMfma:
      if (IsFnuz(in)) return target.arch() == "gfx942";
      return amd && lanes == 64 && (IsHalf(in) || in == DType::kInt8 || in == DType::kFloat32 || in == DType::kFloat64);
    case MatrixTile::kWmma:
      if (IsSmallFloat(in)) return target.arch() == "gfx1200";
      return amd && lanes == 32 && (IsHalf(in) || IsByte(in));
    case MatrixTile::kFma: return nvidia && in == DType::kFloat32;
  }
  return false;
}

int64_t DepthOf(const MatrixTile& tile, DType in) {
  return tile.unit == MatrixTile::kFma ? tile.k : tile.k * 2 / ItemSize(in);
}

DType SumOf(DType in) {
  if (in == DType::kFloat64) return DType::kFloat64;
  return IsFloat(in) ? DType::kFloat32 : DType::kInt32;
}

std::optional<int64_t> TileNamed(absl::string_view name) {
  const auto& tiles = MatrixTiles();
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (name == tiles[i].name) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

std::optional<GroupProduct> GroupProductOf(const UOp* uop) {
  if (uop->op() != Op::WMMA) return std::nullopt;
  const WmmaArg& arg = uop->arg_as<WmmaArg>();
  // A wave's product has fragments for sources, which a client may have indexed by lists as long.
  const bool by_group = absl::c_any_of(MatrixTiles(), [&](const MatrixTile& tile) {
    return tile.m == arg.m && tile.n == arg.n && tile.threads == arg.threads && DepthOf(tile, arg.in) == arg.k;
  });
  if (!by_group) return std::nullopt;
  GroupProduct product;
  const auto a = SideOf(uop->src(0), product), b = SideOf(uop->src(1), product);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  product.a = *a;
  product.b = *b;
  product.in = arg.in;
  return product;
}

bool HasGroupProduct(UOp* root) {
  const std::vector<UOp*> order = Toposort(root);
  return std::any_of(order.begin(), order.end(), [](const UOp* uop) { return GroupProductOf(uop).has_value(); });
}

UOp* MakeGroupProduct(Graph& graph, const GroupProduct& product, std::array<UOp*, 2> storage, UOp* element) {
  const MatrixTile& tile = *product.tile;
  WmmaArg arg;
  arg.m = tile.m;
  arg.n = tile.n;
  arg.k = DepthOf(tile, product.in);
  arg.in = product.in;
  arg.out = SumOf(product.in);
  arg.threads = tile.threads;
  return graph.Make(Op::WMMA,
                    {PlaceOf(graph, storage[0], product.a, product), PlaceOf(graph, storage[1], product.b, product),
                     Cast(graph, element, arg.out)},
                    arg);
}

int64_t JumpsTo(const std::vector<Jump>& jumps, int64_t row, int64_t i) {
  int64_t sum = 0;
  for (const Jump& jump : jumps) sum += (jump.reduced ? i : row) / jump.every * jump.by;
  return sum;
}

bool LiesAlongK(const GroupProduct::Side& side) {
  if (side.step_k != 1 && side.step != 1) return std::abs(side.step_k) <= std::abs(side.step);
  if (side.step_k != 1 || side.step != 1) return side.step_k == 1;
  return RunOf(side, true) >= RunOf(side, false);
}

int64_t NeighboursOf(const GroupProduct::Side& side, int64_t max_run) {
  const bool along_k = LiesAlongK(side);
  if ((along_k ? side.step_k : side.step) != 1) return 1;
  // Those beside each other are cut where a row of them ends, which need not be a multiple.
  int64_t divisor = std::gcd(DivisorOf(side.offset), along_k ? side.step : side.step_k);
  const auto also = [&](const std::vector<Jump>& jumps, bool moves) {
    for (const Jump& jump : jumps) {
      if (jump.reduced == along_k) divisor = std::gcd(divisor, jump.every);
      if (moves) divisor = std::gcd(divisor, jump.by);
    }
  };
  also(side.jumps, true);
  for (const GroupProduct::Window& window : side.windows) {
    const int64_t step = along_k ? window.step_k : window.step, apart = along_k ? window.step : window.step_k;
    if (step != 0 && step != 1) return 1;
    also(window.jumps, step == 1);
    if (step == 1) divisor = std::gcd(std::gcd(divisor, window.size), std::gcd(DivisorOf(window.offset), apart));
  }
  int64_t neighbours = max_run;
  while (neighbours > 1 && divisor % neighbours != 0) neighbours /= 2;
  return neighbours;
}

}  // namespace kiln::compiler
