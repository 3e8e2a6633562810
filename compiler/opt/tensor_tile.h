// OptOp TC: a product of matrices by work groups, each of which makes a tile of it with the device's matrix unit
// (structure/group_product.h).
//
// The loop over k goes: its REDUCE becomes one node. Loops over rows and columns become loops over tiles, which are
// work groups; one loop of the items of a group; and lanes. The item's number and the lane say row and column, by the
// digits of the tile, so that each item stores what the unit gave it.
//
// Rows and columns may be loops that were fused, k may be several, and places may be gated: what a convolution is as a
// product (factor_moves.h).
#ifndef KILN_COMPILER_OPT_TENSOR_TILE_H_
#define KILN_COMPILER_OPT_TENSOR_TILE_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/graph.h"
#include "compiler/structure/group_product.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// OK if `row` and `column`, loops of the output, can be cut into such tiles on `target`; else BAD_ARGUMENT says what a
// product must be. The caller must know that the iterations of all loops store apart.
absl::Status CheckTile(UOp* sink, UOp* row, UOp* column, const MatrixTile& tile, const v1::Target& target);

// `sink`, of which CheckTile is OK, with its REDUCE by tiles. It still has the two loops, in which the product does
// not stand: `row_value` and `column_value` take their places, and what closes them closes `row_loops` and
// `column_loops`.
struct TiledProduct {
  UOp* sink;
  UOp *row_value, *column_value;
  std::vector<UOp*> row_loops, column_loops;
};
TiledProduct PutTile(Graph& graph, UOp* sink, UOp* row, UOp* column, const MatrixTile& tile);

// The tile that is best for `sink`, by number; and which of AxesOf(sink) are its rows and columns: so many beside each
// other, which are to be fused. None if it is no such product, or too small a one.
//
// Each is one loop, where that will do; of convolutions, whose factors move by more than steps, and where it has few
// iterations, all that stand beside each other and that the same factor depends on.
struct TileChoice {
  int row, rows, column, columns;
  int64_t tile;
};
std::optional<TileChoice> ChooseTile(UOp* sink, const v1::Target& target);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_TENSOR_TILE_H_
