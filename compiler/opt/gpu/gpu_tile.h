// Tiles of products on GPUs: what one work item holds in registers, how many items stand over it, and how many share
// the terms of each sum.
#ifndef KILN_COMPILER_OPT_GPU_GPU_TILE_H_
#define KILN_COMPILER_OPT_GPU_GPU_TILE_H_

#include <cstdint>

namespace kiln::compiler {

struct GpuTile {
  int64_t rows, columns;            // of an item
  int64_t row_items, column_items;  // of a group
  int64_t sharers = 1;              // of a group, for each of those: a power of two
};

// The largest for an output of `m` rows and `n` columns, `others` times, that leaves groups for `cores` and wastes
// little by padding. Without `vectors`, columns are loaded one by one, and a tile has one. Where that leaves few items,
// each with a loop in which it does little but wait for memory, up to `most_sharers` (a power of two) share its terms.
GpuTile ChooseGpuTile(int64_t m, int64_t n, int64_t others, int64_t cores, bool vectors, int64_t most_sharers);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_GPU_GPU_TILE_H_
