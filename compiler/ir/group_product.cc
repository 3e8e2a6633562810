#include "compiler/ir/group_product.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "compiler/ir/build.h"
#include "compiler/ir/dtype.h"
#include "compiler/ir/tf32.h"

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

// AMD's instructions of 16x16x16, given both factors in each other's place: of lane l of a wave, element e is in row
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

bool IsByte(DType in) { return in == DType::kInt8 || in == DType::kUint8; }
bool IsSmallFloat(DType in) { return in == DType::kFloat8E4m3 || in == DType::kFloat8E5m2; }

// What a unit multiplies in tiles, on some device. Tiles that are of one dtype differ in their numbers.
bool Multiplies(MatrixTile::Unit unit, DType in) {
  const bool half = in == DType::kFloat16 || in == DType::kBfloat16;
  switch (unit) {
    case MatrixTile::kMmaSync: return half || IsByte(in) || IsSmallFloat(in) || in == DType::kFloat32;
    case MatrixTile::kWgmma:
    case MatrixTile::kMfma:
    case MatrixTile::kWmma: return half;
    case MatrixTile::kFma: return in == DType::kFloat32;
  }
  return false;
}

// The number that `uop` is a constant multiple of, as far as its form says.
int64_t DivisorOf(const UOp* uop) {
  if (uop->IsConst()) return uop->const_int();
  if (uop->op() == Op::ADD) return std::gcd(DivisorOf(uop->src(0)), DivisorOf(uop->src(1)));
  if (uop->op() == Op::MUL) return DivisorOf(uop->src(0)) * DivisorOf(uop->src(1));
  return 1;
}

constexpr size_t kNumbers = 6;  // of a side

std::optional<GroupProduct::Side> SideOf(const UOp* place, int64_t& folded) {
  if (place->op() != Op::INDEX || place->src().size() != 2 || place->src(1)->op() != Op::STACK) return std::nullopt;
  const auto numbers = place->src(1)->src();
  if (numbers.size() != kNumbers) return std::nullopt;
  folded = numbers[5]->const_int();
  return GroupProduct::Side{
      place->src(0), numbers[0], numbers[1], numbers[2]->const_int(), numbers[3]->const_int(), numbers[4]->const_int()};
}

UOp* PlaceOf(Graph& graph, UOp* storage, const GroupProduct::Side& side, int64_t folded) {
  UOp* numbers = graph.Make(Op::STACK, {side.offset, side.first, Idx(graph, side.size), Idx(graph, side.step),
                                        Idx(graph, side.step_k), Idx(graph, folded)});
  return graph.Make(Op::INDEX, {storage, numbers});
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
  if (!Multiplies(tile.unit, in)) return false;
  const bool nvidia = target.kind() == v1::Target::NVPTX;
  const uint32_t lanes = target.tuning().lanes();
  switch (tile.unit) {
    case MatrixTile::kMmaSync:
      if (in == DType::kFloat32 && !MayRoundToTf32(target)) return false;
      if (IsSmallFloat(in) && target.arch() == "sm_80") return false;  // which has no instruction for them
      return nvidia;
    case MatrixTile::kWgmma: return target.arch() == "sm_90a";
    case MatrixTile::kMfma: return target.kind() == v1::Target::AMDGPU && lanes == 64;
    case MatrixTile::kWmma: return target.kind() == v1::Target::AMDGPU && lanes == 32;
    case MatrixTile::kFma: return nvidia;
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
  if (arg.threads == 1) return std::nullopt;
  GroupProduct product;
  const auto a = SideOf(uop->src(0), product.folded), b = SideOf(uop->src(1), product.folded);
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  product.a = *a;
  product.b = *b;
  product.in = arg.in;
  const auto& tiles = MatrixTiles();
  const auto found = std::find_if(tiles.begin(), tiles.end(), [&](const MatrixTile& tile) {
    return Multiplies(tile.unit, arg.in) && tile.m == arg.m && tile.n == arg.n && DepthOf(tile, arg.in) == arg.k &&
           tile.threads == arg.threads;
  });
  KILN_CHECK(found != tiles.end());
  product.tile = &*found;
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
                    {PlaceOf(graph, storage[0], product.a, product.folded),
                     PlaceOf(graph, storage[1], product.b, product.folded), Cast(graph, element, arg.out)},
                    arg);
}

int64_t NeighboursOf(const GroupProduct::Side& side, int64_t most) {
  if (side.step != 1 && side.step_k != 1) return 1;
  const bool along_k = side.step_k == 1;
  // Those beside each other are cut where a row of them ends, which need not be a multiple.
  const int64_t apart = along_k ? side.step : side.step_k;
  const int64_t divisor = std::gcd(DivisorOf(side.offset), apart);
  int64_t neighbours = most;
  while (neighbours > 1 && divisor % neighbours != 0) neighbours /= 2;
  return neighbours;
}

}  // namespace kiln::compiler
