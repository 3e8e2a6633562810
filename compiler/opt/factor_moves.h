// How the places of a factor move in a product by work groups (structure/group_product.h): by steps and jumps along its
// rows and along what is reduced; and from which to which place there is anything.
//
// Rows, or what is reduced, may be several loops, whose iterations are counted as one number, n, the last loop's the
// fastest. A loop is then a digit of n, and any digit is a difference of n / every * by:
//
//   n / inner % size  =  n / inner - n / (inner * size) * size
//
// Where a factor lies in memory as its loops are nested, such terms cancel each other, and the step is what is left.
#ifndef KILN_COMPILER_OPT_FACTOR_MOVES_H_
#define KILN_COMPILER_OPT_FACTOR_MOVES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/graph.h"
#include "compiler/rules/linear.h"
#include "compiler/structure/group_product.h"

namespace kiln::compiler {

// rest + row * step + i * step_k + JumpsTo(jumps, row, i)
struct FactorMoves {
  LinearForm rest;  // of nodes that depend on none of the loops
  int64_t step = 0, step_k = 0;
  std::vector<Jump> jumps;
};

// Of `number`, in which loops, of constant sizes, stand by themselves or as digits: divided by a number, and of that
// the remainder. None of any other.
std::optional<FactorMoves> MovesOf(const LinearForm& number, absl::Span<UOp* const> rows,
                                   absl::Span<UOp* const> reduced);

// least <= number <= greatest; the number's constant is 0.
struct Condition {
  LinearForm number;
  int64_t least, greatest;
};

// All of which hold where all `gates`, bools, are true, and only there. None if one asks for anything else, or if a
// number is too large for 32 bits.
std::optional<std::vector<Condition>> ConditionsOf(std::vector<UOp*> gates);

// Whether `place` is proved to be from 0 to size - 1 where the conditions hold.
bool StaysInside(LinearForm place, absl::Span<const Condition> conditions, int64_t size);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_FACTOR_MOVES_H_
