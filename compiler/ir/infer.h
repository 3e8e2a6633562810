// Derives dtype, shape, bounds, addrspace, device and axis of a node from its
// op, sources and argument, and refuses a node that cannot have them. The rules
// are the table "Derived Properties" of tinyspec; each property has a file.
#ifndef KILN_COMPILER_IR_INFER_H_
#define KILN_COMPILER_IR_INFER_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/ir/polynomial.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

// Tensors of more elements than this are SIZE_OVERFLOW, whatever their dtype: so
// no pass that changes a dtype can make one that is too large.
inline constexpr int64_t kMaxElements = int64_t{1} << 55;
inline constexpr size_t kMaxRank = 32;

class Inference {
 public:
  // Fills the derived properties of `uop`, whose op, src and arg are set.
  static absl::Status Run(Graph& graph, UOp& uop);

 private:
  // Device and shard axis (infer_placement.cc).
  static absl::Status Place(Graph& graph, UOp& uop);
};

// One of `shares` equal shares of `size`; nothing if it has none for every value of its
// variables.
std::optional<Dim> ShareOf(Graph& graph, const Dim& size, int64_t shares);

absl::StatusOr<DType> InferDType(const UOp& uop);
absl::StatusOr<Shape> InferShape(Graph& graph, const UOp& uop);
Bounds InferBounds(const UOp& uop);
// Every value of an integer dtype, or of bool; unknown for floats.
Bounds BoundsOf(DType dtype);

// The sizes or offsets that a shape source spells: a STACK of integers, or one
// alone; each a CONST or an expression of variables. None may be negative for all
// values of the variables.
absl::StatusOr<Shape> ReadSizes(Graph& graph, UOp* source);

// The same of a source that spells numbers alone, as it does once variables are
// bound.
absl::StatusOr<Shape> ConstInts(const UOp* source);

// How far a PAD's or SHRINK's box leaves off before the end of the outer shape
// along each axis, as polynomials: it lies inside if none is negative. Inference
// has refused what is negative for all values; what is negative for some is a
// condition on each call.
std::vector<Polynomial> RoomInBox(Graph& graph, const UOp& uop);

// Right-aligned, each axis equal or 1.
absl::StatusOr<Shape> Broadcast(const Shape& a, const Shape& b);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_INFER_H_
