// Chains of kernels, slice by slice.
//
// A kernel that fills a buffer far larger than the caches, and one that reads it back, wait for
// memory: attention's scores are such a buffer. Where slice i of it is made of slice i of what comes
// before, and is all that slice i of what follows needs, the two need not each run to their end. One
// kernel goes through the slices: in each iteration the makers fill local memory with theirs, which stays
// in the cache of the core, and the last one stores what it makes of it. The buffer is gone.
//
// A slice is one iteration of some of the last kernel's output loops, and of the innermost of these a block
// of rows. Nothing here knows what the kernels compute: what counts is how they index what they
// share (slices.h), and what is won by the caches against what each slice reads again.
#ifndef KILN_COMPILER_SCHEDULE_CHAIN_CHAIN_H_
#define KILN_COMPILER_SCHEDULE_CHAIN_CHAIN_H_

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/chain/slices.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// `linear`, the call list that Rangeify made, with chains of calls as one where that is faster on
// `target`. Buffers in `external` are results, whose memory is the caller's.
UOp* ChainKernels(Graph& graph, UOp* linear, const absl::flat_hash_set<UOp*>& external, const v1::Target& target);

// One kernel of a chain. The first of a list makes the chain's result; others what one before them reads.
struct ChainMember {
  size_t call = 0;  // which of the list it was
  PlainKernel kernel;
  std::vector<UOp*> shared;  // its RANGEs of the axes that slices are cut along, the one cut into rows last
  // Of a maker:
  UOp* buffer = nullptr;   // what it makes
  size_t reader = 0;       // the member that reads it
  uint32_t read_slot = 0;  // in that one's body
  SliceReads reads;
};

// How the rows are cut: into `blocks` of `rows`; the last may begin early, and do some again.
struct RowCut {
  int64_t rows = 1;
  int64_t blocks = 1;
};

// The call that does what `members`, of the list `linear`, do: its body is
//   SINK(END(END(STORE(result, ...), loops...), slices...))
// in which a maker is AFTER(BUFFER, END(STORE(...), loops...)) where its result is read, the BUFFER
// local memory that holds one slice.
UOp* MakeChainCall(Graph& graph, const UOp* linear, const std::vector<ChainMember>& members, const RowCut& cut);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_CHAIN_CHAIN_H_
