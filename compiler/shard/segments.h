// The cut: which part of the shares' graph runs when.
//
// Level 0 is all that needs no transfer; what needs a transfer of level k has level
// k + 1. What one tuple of devices computes at one level is a segment: one graph, to be
// compiled like any program for one device, and run by each of them. Its parameters
// are the program's, what transfers brought, and what earlier segments computed.
//
// Only computed values cross from segment to segment. Movement costs nothing, so a
// view is made again where it is read; and so is a value that may be Invalid, which no
// buffer can hold. A STORE comes no earlier than the last level that reads the state
// before it, so that in every segment a storage has the state that its reads want.
#ifndef KILN_COMPILER_SHARD_SEGMENTS_H_
#define KILN_COMPILER_SHARD_SEGMENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/graph.h"
#include "compiler/shard/levels.h"
#include "compiler/shard/shares.h"

namespace kiln::compiler {

struct Segment {
  struct Output {
    UOp* value;                    // as the shares' graph has it
    std::optional<size_t> result;  // of the program's; without one, for later steps
  };
  std::string devices;
  UOp* root;  // TUPLE(STOREs, outputs)
  std::vector<Output> outputs;
};

struct Cut {
  // In an order in which they may run; a number is that of a transfer of Shares.
  std::vector<std::variant<Segment, size_t>> steps;
  // What a parameter of a segment's is, by slot: a computed value, where it is none of
  // the shares' graph's own PARAMs.
  absl::flat_hash_map<uint32_t, UOp*> crossing;
};

// `levels` are of `shares`, and settled.
Cut CutSegments(Graph& graph, const Shares& shares, const Levels& levels);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SHARD_SEGMENTS_H_
