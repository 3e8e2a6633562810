// Products whose lanes run along an axis along which the result does not lie: the
// channels of a convolution, while the rows of the tile are neighbouring pixels.
//
// An image of 7 x 7 fills no vectors, one of 56 x 56 whose rows a kernel of 3 x 3 walks
// overlaps itself; but channels come in whole vectors, and of pixels a tile reads one
// value at a time, wherever it lies. What that takes: the operand of the lanes, which
// mostly lies along what is reduced, is transposed while it is copied to a local panel; the
// other one is copied where it is gated, as the box of pixels that it is; and the tile
// of the result is transposed before it is stored.
//
// The loops, from the outside: what both operands walk; blocks of pixels, for which the
// box is copied; panels of channels, copied; the pixels of the block; what is reduced.
#ifndef KILN_COMPILER_OPT_CPU_LANES_APART_H_
#define KILN_COMPILER_OPT_CPU_LANES_APART_H_

#include <optional>
#include <vector>

#include "compiler/opt/apply.h"
#include "compiler/opt/cpu/machine.h"
#include "compiler/opt/product.h"

namespace kiln::compiler {

struct ApartTile {
  double cost = 0;             // cycles of the whole kernel
  size_t row = 0, column = 0;  // the tile's axes: row of operand `a`, column of the other
  size_t a = 0;
  int64_t rows = 1, vectors = 1;
  std::vector<size_t> inside;  // axes of `a` alone that are walked for each panel, outermost first; the last is `row`
  int64_t blocks = 1;          // into which the first of `inside` is cut (of tiles, if it is `row`)
  int64_t chunks = 1;          // into which the panels are, if there is a box: it is copied for each
  bool box = false;
};

// The cheapest; none if the product has no such axes.
std::optional<ApartTile> ChooseLanesApart(const Machine& machine, const Product& product);

// `opts`, which made `product`, and behind them those of the tile.
std::vector<OptOp> ScheduleLanesApart(const Machine& machine, const Product& product, const ApartTile& tile,
                                      std::vector<OptOp> opts);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_CPU_LANES_APART_H_
