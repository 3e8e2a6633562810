// What a value costs if a kernel computes it on the spot, from buffers and
// reductions, each time it is needed.
#ifndef KILN_COMPILER_SCHEDULE_FUSED_COST_H_
#define KILN_COMPILER_SCHEDULE_FUSED_COST_H_

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/store_order.h"

namespace kiln::compiler {

struct Fused {
  double cost = 0;   // of one element, in units of one simple instruction
  double nodes = 0;  // that computing it puts into a kernel, at most
};

struct Fusion {
  absl::flat_hash_map<UOp*, Fused> costs;
  // Values to realise: those given, and more where a kernel would grow too large.
  absl::flat_hash_set<UOp*> realized;
  // REDUCEs that leave no loop when they are lowered (collapse_reduce.h): an
  // arange, a gather. They are expressions of their sources at one place.
  absl::flat_hash_set<UOp*> collapsed;
  // What these need as expressions: a buffer in between would hide from them
  // what they compare.
  absl::flat_hash_set<UOp*> pinned;
};

// Of the nodes of a Callify'd SINK, in topological order, some of which are to be
// realised in any case. `likely` are others that will be, too: how large a kernel grows is counted from them on.
Fusion AnalyseFusion(Graph& graph, absl::Span<UOp* const> order, const StoreOrder& stores,
                     const absl::flat_hash_set<UOp*>& realized, const absl::flat_hash_set<UOp*>& likely = {});

inline constexpr double kLoadCost = 1;
inline constexpr double kStoreCost = 2;

// How many elements of its source one element of a BITCAST needs; 1 for others.
int Fanout(const UOp* uop);

// The data sources of a node, without shapes and offsets.
absl::Span<UOp* const> DataSources(const UOp* uop);

// Whether reads of such nodes are loads, whatever lies beneath.
bool EndsFusion(Op op);

// Whether the node is a value that may be given a buffer, though it needs none.
bool CanBeRealized(const UOp* uop);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_FUSED_COST_H_
