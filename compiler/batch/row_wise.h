// Whether a program works row by row: the proof on which running the requests of several callers as
// one rests. Whatever it does not prove it denies, for a wrong "yes" gives one caller's numbers to
// another.
//
// Let V be a variable, and call a buffer varying if its number of elements is V * s, where s, its
// stride, does not depend on V: V rows of s elements, one after the other. All other buffers are
// shared. A program is row-wise in V if there is one function f that depends neither on V nor on r with
//   row r of the varying results = f(row r of the varying parameters, shared parameters)   for 0 <= r < V,
// and if what its shared results hold is made of shared parameters alone. Then the program on the rows
// of several callers, one after the other, with V the sum of their rows, gives each the rows that it
// would have got alone.
//
// What is proved, on the list of kernels that "rangeify" leaves (schedule/rangeify.h):
//  1. No effect but results: no parameter is written, no kernel is of a client's own, all is on one device;
//     each buffer is written by one kernel, before any kernel reads it.
//  2. A kernel that stores a varying buffer has one loop over V * c, its outermost, of which iteration
//     b * c + e with 0 <= e < c belongs to row b. It stores, without a gate, each element once, in
//     ascending order: so row b of what it stores is what iterations of row b store, and all of it.
//  3. In what it stores, b occurs in the indices of varying buffers alone, each of which is s * b + rest for
//     that buffer's own stride s, with 0 <= rest < s by intervals (facts of the access's own gate
//     counted in), and with b in rest only within such indices again: it reads row b and no other. V occurs
//     nowhere: not in values, gates, indices, or how far a loop or a REDUCE goes.
//  4. A kernel that stores a shared buffer stores each element once, too, reads shared buffers alone, and V does not
//     occur in it.
// By induction over nodes, sources first, each value that a varying kernel computes in row b is a function
// of row b of the buffers that it reads, and of shared ones; by induction over the list of kernels the
// same holds of every buffer in terms of parameters, and by 2 of every element of the results. Equal
// indices are equal polynomials (ir/polynomial.h), of true values, with no wrapping.
//
// It is said of these kernels: where docs/ir.md reads a sum over a one-hot mask as a look-up, it is one.
//
// What the caller of the program owes: shared parameters, and all variables but V, are the same for all members
// of a batch; and V is within its bounds. Of compiled code, results are bit for bit those of each member alone
// as far as the instructions for a row do not depend on where the row lies.
#ifndef KILN_COMPILER_BATCH_ROW_WISE_H_
#define KILN_COMPILER_BATCH_ROW_WISE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/batch/kernel_rows.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/callify.h"

namespace kiln::compiler {

// A parameter or a result. Its leading size is `each` times V if it is varying.
struct RowPart {
  bool varying = false;
  Dim each = 0;
};

// The first thing that the proof met and could not allow.
struct RowObstacle {
  Forbids why;
  const UOp* node;   // of the function, or of a kernel
  std::string text;  // "kernel 1 (sum_8_over_n), REDUCE: a reduction runs over rows"
};

// Valid as long as the Graph.
struct RowWise {
  std::optional<RowObstacle> obstacle;  // none: the program is row-wise, and only then is what follows filled
  std::vector<RowPart> parameters;      // as Function::parameters
  std::vector<RowPart> results;         // as Function::results
};

// Nodes of kernels that are looked at for all of a program's variables together, at most: the proof makes new ones of
// them, and no pass is stopped in the middle.
inline constexpr size_t kMaxNodesLookedAt = 200'000;

// Of `calls`, what "rangeify" made of `function`, and one of the function's variables. The time is linear in the
// nodes of the CALLs' kernels, where equal kernels are looked at once. These are taken from `left`; what would be
// more is denied. `used`, if not null, gets every equation that the answer rests on, those of equal kernels again.
RowWise ProveRowWise(Graph& graph, const Function& function, UOp* calls, UOp* variable, size_t& left,
                     std::vector<RowEquation>* used = nullptr);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_BATCH_ROW_WISE_H_
