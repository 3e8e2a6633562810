// Which slices of a buffer one kernel makes, and which of them another one's slices need.
#ifndef KILN_COMPILER_SCHEDULE_CHAIN_SLICES_H_
#define KILN_COMPILER_SCHEDULE_CHAIN_SLICES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// A kernel of one STORE in loops with constant bounds, which stores to every element of its
// result once, in a place that its loops alone say.
struct PlainKernel {
  struct Axis {
    UOp* range;
    int64_t size;
    int64_t stride;  // of the result
  };
  UOp* sink = nullptr;
  UOp* store = nullptr;
  uint32_t slot = 0;       // of the result
  std::vector<Axis> axes;  // by stride, the greatest first: the result is dense and row-major in them
};

// None if `call`'s body is no such kernel; or reads its result, has arguments that are no storage,
// comes with OptOps of its own, or is a scan.
std::optional<PlainKernel> PlainKernelOf(Graph& graph, const UOp* call);

// How a kernel reads a result of another's.
struct SliceReads {
  // For each RANGE of the reader that the place depends on, the number of the maker's axis that it walks.
  absl::flat_hash_map<UOp*, size_t> walked;
  // For each axis of the maker, the RANGE that walks it in every LOAD; null if several do, or none.
  std::vector<UOp*> walker;
  int64_t loads = 0;  // places that it is read at, in the kernel's text
};

// None unless each LOAD of PARAM `slot` by `reader` walks axes of `made` with one RANGE each.
std::optional<SliceReads> SliceReadsOf(const PlainKernel& reader, uint32_t slot, const PlainKernel& made);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_CHAIN_SLICES_H_
