// What a product of tensors is to code that chooses its OptOps: its loops, how its two
// operands and its result move along each, and what the machine takes for that.
#ifndef KILN_COMPILER_OPT_PRODUCT_H_
#define KILN_COMPILER_OPT_PRODUCT_H_

#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// -- The machine, in cycles: what cores of the last ten years have in common.
inline constexpr double kFmasPerCycle = 2, kLoadsPerCycle = 1.5, kFmaLatency = 4;
inline constexpr double kLoadWeight = 0.04;       // of a load that the ports have room for: it may miss
inline constexpr double kCopyCycles = 4;          // of one vector into a local buffer
inline constexpr double kTransposeCycles = 6;     // of one vector of a square tile that is transposed on its way
inline constexpr double kPackedCycles = 3;        // of one vector of a copy that was made beforehand: it lies far away
inline constexpr double kGatedCycles = 8;         // of one vector into a local buffer, under a gate
inline constexpr double kApartCycles = 3;         // of one element that is copied by itself
inline constexpr double kFarBytesPerCycle = 12;   // of an operand that each panel reads anew from beyond the L2 cache
inline constexpr double kL2VectorCycles = 1;      // of a vector from the L2 cache, as far as that does not hide
inline constexpr double kPackCycles = 12;         // of one vector of words, for dot products
inline constexpr double kTileCycles = 16;         // of a product of two registers of a matrix unit
inline constexpr double kTileLoadCycles = 20;     // of such a register, from the L2 cache
inline constexpr double kTileStartCycles = 60;    // of a sum of them that begins, and is read
inline constexpr double kGatherCycles = 5;        // of one element that lies apart
inline constexpr double kMemoryStartFactor = 2;   // times the cost of a new tile, if accumulators come from memory
inline constexpr double kReduceCycles = 6;        // of the lanes of one accumulator onto each other
inline constexpr int64_t kMinTransposed = 4;      // neighbours that are worth a vector that is transposed
inline constexpr int64_t kRowsApart = 8;          // rows that one set of the L1 cache can hold at once
inline constexpr int64_t kMinBlock = 96;          // rows that are worth a copy of the other operand
inline constexpr int64_t kMinShare = 16;          // of which one of a core's own is better than none
inline constexpr int64_t kIterationsPerCore = 8;  // enough for an even share
inline constexpr int64_t kLikelySize = 16;        // of a loop whose size each run decides

struct Machine {
  explicit Machine(const v1::Target& target, int64_t item);
  int64_t lanes, registers, cores, l1_bytes, l2_bytes;
};

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
