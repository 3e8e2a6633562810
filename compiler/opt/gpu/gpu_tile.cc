#include "compiler/opt/gpu/gpu_tile.h"

#include <iterator>

#include "compiler/opt/product.h"

namespace kiln::compiler {
namespace {

// Largest first. What is loaded for an iteration of the reduction grows with the sides of a tile, what is computed with
// its area.
constexpr GpuTile kTiles[] = {{8, 8, 16, 16}, {8, 4, 16, 16}, {4, 4, 16, 16}, {4, 4, 8, 16},
                              {4, 4, 4, 16},  {8, 1, 8, 32},  {4, 1, 8, 32},  {2, 4, 4, 16},
                              {2, 2, 8, 16},  {1, 4, 4, 32},  {1, 1, 4, 32},  {1, 1, 8, 8}};

}  // namespace

GpuTile ChooseGpuTile(int64_t m, int64_t n, int64_t others, int64_t cores, bool vectors) {
  GpuTile best = kTiles[std::size(kTiles) - 1];
  for (const GpuTile& tile : kTiles) {
    if (!vectors && tile.columns > 1) continue;
    const int64_t height = tile.rows * tile.row_items, width = tile.columns * tile.column_items;
    const int64_t down = CeilDiv(m, height), across = CeilDiv(n, width);
    // Of what the tiles compute, at most a quarter is padding.
    if (down * height * across * width * 3 > m * n * 4) continue;
    best = tile;
    if (down * across * others >= cores) break;
  }
  return best;
}

}  // namespace kiln::compiler
