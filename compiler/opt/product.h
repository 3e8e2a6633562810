// What a product of tensors is to code that chooses its OptOps: its loops, how its two
// operands and its result move along each.
#ifndef KILN_COMPILER_OPT_PRODUCT_H_
#define KILN_COMPILER_OPT_PRODUCT_H_

#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

inline constexpr int64_t kMinTransposed = 4;  // neighbours that are worth a vector that is transposed
inline constexpr int64_t kLikelySize = 16;    // of a loop whose size each run decides

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// An axis of memory that loops walk together (walked_axes.h): their numbers and steps.
using Walk = std::vector<std::pair<size_t, int64_t>>;

// How one operand moves.
struct Operand {
  std::vector<bool> depends;                    // on each axis
  std::vector<std::optional<int64_t>> strides;  // of its LOAD along each axis; none if there are several
  bool gated = false;                           // more is to be done for an element than to load it
  bool constant = false;                        // from run to run: a copy of it is made once (hoist.h)
  bool terms_as_they_are = false;               // of a dot product, loaded and widened
  std::vector<Walk> walks;                      // outermost first
  int64_t last_stride = 0;                      // in memory, along the last of these
  double bytes = 0;                             // of the storage that it is loaded from
};

struct Product {
  std::vector<int64_t> sizes;  // of its loops, by number; kLikelySize, or as much as it can be, where it is no number
  std::vector<bool> varies;    // whether it is none, but a matter of variables: of loops of the output alone
  double most_varying = 1;     // iterations of these together, at most
  size_t outputs = 0;
  std::vector<Operand> operands;
  std::vector<std::optional<int64_t>> store;
  int64_t item = 4;    // bytes of an accumulator
  int64_t terms = 1;   // of its factors in a word, if the machine multiplies words of them, by either of these; else 1
  bool dots = false;   // dot products, in the lanes of vectors
  bool tiles = false;  // a matrix unit

  int64_t Size(size_t axis) const { return sizes[axis]; }
  bool AnyVaries() const;
  int64_t ReducedSize() const;
  // Iterations of all other loops of the output.
  double Batches(size_t row, size_t column) const;
  // Whether an operand moves along `axis` and not along `other`.
  bool Walks(size_t operand, size_t axis, size_t other) const;
  // Whether the elements of an operand that are reduced one after the other are neighbours, in runs that fill vectors.
  bool ReducesNeighbours(size_t operand) const;
};

// None if the kernel is none, terms of a sum are counted by a variable, or there may be no output.
std::optional<Product> ProductIn(UOp* sink, const v1::Target& target);

// `product` with output loop `axis` and the one inside it fused: the rows of an image end where they end, and
// vectors need not. Nothing if what is stored would not be contiguous, if only one of the two were read, under a
// gate, or if the size of one varies.
std::optional<Product> Fused(Product product, size_t axis);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_PRODUCT_H_
