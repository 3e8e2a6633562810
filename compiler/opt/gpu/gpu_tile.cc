#include "compiler/opt/gpu/gpu_tile.h"

#include <algorithm>
#include <iterator>

#include "compiler/opt/product.h"

namespace kiln::compiler {
namespace {

// Largest first. What is loaded for an iteration of the reduction grows with the sides of a tile, what is computed with
// its area.
constexpr GpuTile kTiles[] = {{8, 8, 16, 16}, {8, 4, 16, 16}, {4, 4, 16, 16}, {4, 4, 8, 16},
                              {4, 4, 4, 16},  {8, 1, 8, 32},  {4, 1, 8, 32},  {2, 4, 4, 16},
                              {2, 2, 8, 16},  {1, 4, 4, 32},  {1, 1, 4, 32},  {1, 1, 8, 8}};

// Of those whose terms are shared: small groups, so that there is room for sharers, and many groups.
constexpr GpuTile kSharedTiles[] = {{4, 4, 2, 8}, {4, 1, 4, 16}, {4, 1, 2, 8}, {1, 1, 2, 8}, {1, 1, 1, 8}};
// Items of a core: fewer than kFewItems mostly wait for memory; kManyItems hide all of that.
constexpr int64_t kFewItems = 256, kManyItems = 1024;
// Results of an item, below which each is loaded for too often.
constexpr int64_t kFewResults = 4;
constexpr int64_t kMaxSharers = 32;
// Fewer do not make up for the smaller tiles.
constexpr int64_t kMinSharers = 8;
// Items of a group: each of more had too few registers for its sums, which then went to memory and back.
constexpr int64_t kMaxItemsThatShare = 256;

int64_t ItemsOf(const GpuTile& tile) { return tile.row_items * tile.column_items; }

class Output {
 public:
  Output(int64_t m, int64_t n, int64_t others, bool vectors) : m_(m), n_(n), others_(others), vectors_(vectors) {}

  // Of what the tiles compute, at most a quarter is padding.
  bool Fits(const GpuTile& tile) const {
    if (!vectors_ && tile.columns > 1) return false;
    const int64_t computed = Down(tile) * Height(tile) * Across(tile) * Width(tile);
    return computed * 3 <= m_ * n_ * 4;
  }
  int64_t Groups(const GpuTile& tile) const { return Down(tile) * Across(tile) * others_; }

 private:
  static int64_t Height(const GpuTile& tile) { return tile.rows * tile.row_items; }
  static int64_t Width(const GpuTile& tile) { return tile.columns * tile.column_items; }
  int64_t Down(const GpuTile& tile) const { return CeilDiv(m_, Height(tile)); }
  int64_t Across(const GpuTile& tile) const { return CeilDiv(n_, Width(tile)); }

  const int64_t m_, n_, others_;
  const bool vectors_;
};

// With as many sharers as make `items` of them all, if so many may be.
GpuTile Shared(GpuTile tile, int64_t groups, int64_t items, int64_t most_sharers) {
  const int64_t most = std::min({most_sharers, kMaxSharers, kMaxItemsThatShare / ItemsOf(tile)});
  while (tile.sharers < most && groups * ItemsOf(tile) * tile.sharers < items) tile.sharers *= 2;
  return tile;
}

}  // namespace

GpuTile ChooseGpuTile(int64_t m, int64_t n, int64_t others, int64_t cores, bool vectors, int64_t most_sharers) {
  const Output output(m, n, others, vectors);
  GpuTile best = kTiles[std::size(kTiles) - 1];
  for (const GpuTile& tile : kTiles) {
    if (!output.Fits(tile)) continue;
    best = tile;
    if (output.Groups(tile) >= cores) break;
  }
  const int64_t items = output.Groups(best) * ItemsOf(best);
  const bool few = items < cores * kFewItems, small = best.rows * best.columns <= kFewResults;
  if (most_sharers < kMinSharers || items >= cores * kManyItems || !(few || small)) return best;
  for (const GpuTile& tile : kSharedTiles) {
    if (!output.Fits(tile)) continue;
    const int64_t groups = output.Groups(tile);
    best = Shared(tile, groups, cores * kManyItems, most_sharers);
    if (groups * ItemsOf(best) * best.sharers * 4 >= cores * kManyItems) break;
  }
  return best;
}

}  // namespace kiln::compiler
