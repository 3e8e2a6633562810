// The two factors of a product that OptOp TC makes by tiles (tensor_tile.h), and how they move.
#ifndef KILN_COMPILER_OPT_TILE_FACTORS_H_
#define KILN_COMPILER_OPT_TILE_FACTORS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"
#include "compiler/opt/factor_moves.h"

namespace kiln::compiler {

inline constexpr int64_t kMaxTileAxis = int64_t{1} << 30;

// Loops that are counted as one, outermost first.
using Loops = absl::Span<UOp* const>;

// A number in memory, widened, and where there is one.
struct Factor {
  UOp *number = nullptr, *load = nullptr;
  std::vector<UOp*> loops;     // that the number depends on
  DType dtype = DType::kNone;  // storage of 8-bit floats is of bytes by now
  LinearForm place;
  std::vector<Condition> conditions;

  UOp* Storage() const { return load->src(0)->src(0); }
};

// The two whose product is reduced.
struct Factors {
  UOp* reduce = nullptr;
  std::array<Factor, 2> of;
  int64_t reduced = 1;

  Loops ReducedLoops() const { return reduce->src().subspan(1); }
  DType in() const { return of[0].dtype; }
};

// How one of them moves along rows, or along columns.
struct Side {
  const Factor* factor = nullptr;
  FactorMoves place;
  std::vector<FactorMoves> conditions;

  bool IsPlain() const { return place.jumps.empty() && conditions.empty(); }
};

// The iterations of all of them; or one more than kMaxTileAxis.
int64_t IterationsOf(Loops loops);

// Of a kernel that is such a product, whichever loops are its rows and columns; else BAD_ARGUMENT.
absl::StatusOr<Factors> FactorsOf(UOp* sink);

bool DependsOn(const Factor& factor, Loops loops);

// Of A and of B, if these are the rows and columns, loops of the output. What is reduced may be in any order, as
// matrix units' sums are of none: here it is in one in which much is copied at once. Of float32, it is as it is nested.
using Sides = std::array<Side, 2>;
absl::StatusOr<Sides> SidesOf(const Factors& factors, Loops rows, Loops columns);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_TILE_FACTORS_H_
