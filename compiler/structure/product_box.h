// A side of a product by a work group as a tensor that a copy engine brings boxes of: what the engine of NVIDIA's
// GPUs, from sm_90 on, takes (v1.TensorMap).
//
// Its innermost axis has neighbours: depth, or rows, whichever step is 1. The other of the two lies multiples of 16
// bytes apart. A third axis is of matrices, one of which a group multiplies.
#ifndef KILN_COMPILER_STRUCTURE_PRODUCT_BOX_H_
#define KILN_COMPILER_STRUCTURE_PRODUCT_BOX_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/structure/group_product.h"

namespace kiln::compiler {

// A number that is a constant and multiples of other nodes.
struct PlaceForm {
  int64_t constant = 0;
  std::vector<std::pair<const UOp*, int64_t>> terms;  // no node twice, no factor 0

  void Add(const UOp* uop, int64_t factor);
  void Add(const PlaceForm& other, int64_t factor);
};
PlaceForm PlaceFormOf(const UOp* uop);

// All in elements of 16 bits.
struct ProductBox {
  int64_t begin = 0;                       // before the first matrix
  int64_t matrices = 1, matrix_step = 0;   // from one to the next
  bool rows_beside_each_other = false;     // their step is 1, not that of the depth
  int64_t inner = 0, outer = 0, step = 0;  // sizes of the two axes, and from one to the next of the outer
};

// `place`: of the element in row 0 at depth 0 of the group's matrix. None if the engine cannot take it, or if more than
// one node says which matrix it is.
std::optional<ProductBox> BoxOf(const PlaceForm& place, int64_t size, int64_t step, int64_t step_k, int64_t reduced);
std::optional<ProductBox> BoxOf(const GroupProduct::Side& side, int64_t reduced);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_PRODUCT_BOX_H_
