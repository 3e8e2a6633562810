// The tile of a product, and its OptOps: which loops are padded and split, in which order they stand, and what of them
// is shared out. matmul.cc chooses the tile.
#ifndef KILN_COMPILER_OPT_CPU_MATMUL_SCHEDULE_H_
#define KILN_COMPILER_OPT_CPU_MATMUL_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compiler/opt/apply.h"
#include "compiler/opt/cpu/machine.h"
#include "compiler/opt/product.h"

namespace kiln::compiler {

// Operations of an iteration of the loop that is shared out, if rows can be cut: the least of a kernel that is timed.
inline constexpr double kMaxIterationWork = 4e9;

// Which axes the tile has, and how much of each.
struct MatmulTile {
  double cost = 0;                       // cycles of the whole kernel
  bool reduced = false;                  // lanes along a reduced axis
  size_t row = 0, column = 0, lane = 0;  // row: of operand `a`. column: of operand `b`. lane: column, or a reduced axis
  size_t a = 0, b = 1;
  int64_t rows = 1, columns = 1;  // columns: elements of the output
  bool copy = false;
  bool transposed = false;  // the copy is: its memory lies across the lanes
  // Of one by a matrix unit, else 0: so many panels of columns are copied at once, and walked for each tile of rows.
  int64_t panels = 0;
  bool copy_rows = false;  // of such a one, each tile of rows is copied, too
  bool dots = false;       // several iterations of `reduced_axis` at once; the copy is of words
  size_t reduced_axis = 0;
  int64_t depth = 0;  // if not 0: of `reduced_axis`, as much at a time; accumulators wait in memory for the next
};

// Bytes of a panel of a part of the reduction, and of the accumulators that wait for the next.
inline int64_t MaxCut(const Machine& machine) { return machine.l2_bytes / 4; }

// The loops of the output, outermost first, that stand inside of those over `panels` of columns: the panel does not
// depend on them, and so many panels and `blocks` of rows are enough for all cores.
std::vector<size_t> InsideAxes(const Machine& machine, const Product& product, const MatmulTile& tile, int64_t blocks,
                               int64_t panels);

// Iterations of the loops of the output that have constant sizes and are neither the tile's nor `inside`.
int64_t OuterIterations(const Product& product, const MatmulTile& tile, absl::Span<const size_t> inside);

// The fewest parts of equally many of the `blocks` of rows whose accumulators fit where they wait; 0: none.
int64_t LeastParts(const Machine& machine, const Product& product, const MatmulTile& tile, int64_t blocks);

// The fewest parts of the `blocks` of rows with which no iteration of what is shared out is longer than
// kMaxIterationWork, if there are such: IterationWork says what is left.
int64_t FewestParts(const Machine& machine, const Product& product, const MatmulTile& tile, int64_t blocks);
// Whether the rows are what threads take turns at, however many a run has: there are too few columns, or a run may have
// so many rows that an iteration over columns would be too long.
bool RowsAreShared(const Machine& machine, const Product& product, const MatmulTile& tile);
// Operations of an iteration of what is shared out, at most.
double IterationWork(const Machine& machine, const Product& product, const MatmulTile& tile);

// `opts`, which made `product`, and behind them those of the tile.
std::vector<OptOp> ScheduleMatmul(const Machine& machine, const Product& product, const MatmulTile& tile,
                                  std::vector<OptOp> opts);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_CPU_MATMUL_SCHEDULE_H_
