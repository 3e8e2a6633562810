// Older tensor graphs, read as core ops (docs/ir.md, "Older spellings").
//
//   VIEW(T) views                       movement ops (views.h)
//   VALID(VIEW), VALID views            the views' mask, as bool
//   CONST(DEVICE), CONST(VIEW)          CONST, seen through the views
//   LOAD(buf, VIEW[, store])            the buffer seen through the views, after the store
//   STORE(buf, VIEW, value)             STORE into the buffer seen so
//   RESHAPE, EXPAND (T) axes=shape      the shape as a source
//   PAD, SHRINK (T) axes=pairs          (before, after) or (begin, end) for each axis
//   REDUCE_AXIS (T)                     REDUCE
//   BUFFER(shape, DEVICE, UNIQUE)       BUFFER: UNIQUE's number is its slot
//   BUFFER_VIEW(buf) axes=(size, offset)  so many elements from there on, in the
//                                       node's dtype
//   COPY(T, DEVICE)                     LOAD
//   EMPTY(shape?)                       zeros: what is not written yet reads 0
//   DEVICE, UNIQUE, VIEW(), VIEW(DEVICE)  no values: they tell others of these something
#ifndef KILN_COMPILER_IMPORT_LEGACY_LEGACY_TENSOR_H_
#define KILN_COMPILER_IMPORT_LEGACY_LEGACY_TENSOR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// Node `index`, whose sources came out as `src` and whose argument as `arg`, if it
// is one of the above; otherwise nullptr. What stands for a node without a value
// is a GROUP of nothing.
absl::StatusOr<UOp*> ReadLegacyTensor(Graph& graph, const v1::Graph& wire, uint32_t index, const std::vector<UOp*>& src,
                                      const Arg& arg);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_LEGACY_LEGACY_TENSOR_H_
