// Chooses the realisation points of a function: which values get a buffer, and
// so where one kernel ends and the next begins. Everything else is computed
// inside the kernels that use it.
#ifndef KILN_COMPILER_SCHEDULE_REALIZE_H_
#define KILN_COMPILER_SCHEDULE_REALIZE_H_

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/store_order.h"

namespace kiln::compiler {

// `sink` without the marks that the bodies of reused functions end at (AFTERs with
// no deps: import/functions.h); adds to `marked` what they stood on.
UOp* TakeMarks(Graph& graph, UOp* sink, absl::flat_hash_set<UOp*>& marked);

// The values of `sink` (a Callify'd SINK) to realise, besides its STOREs; all of
// `marked` that is computed is among them.
//
// A cost model decides: for each value, how often would the kernels that use it
// evaluate it, and what would storing and reading it cost instead? LOADs are
// always realised. REDUCEs are, unless exactly one kernel needs each of their
// elements at most once, outside any other reduction, or they collapse
// (fused_cost.h): then they are values like others.
absl::flat_hash_set<UOp*> ChooseRealized(Graph& graph, UOp* sink, const StoreOrder& stores,
                                         const absl::flat_hash_set<UOp*>& marked = {});

// `realized`, of `sink`, with what is widened in place of the wide numbers, where the narrow ones are of a dtype that
// `is_factor`: products take them as they are; without either, where the narrow ones are in memory anyway. What is
// stored stays, and so do values of `marked`.
absl::flat_hash_set<UOp*> KeepNarrow(UOp* sink, const absl::flat_hash_set<UOp*>& realized,
                                     absl::FunctionRef<bool(DType)> is_factor, const absl::flat_hash_set<UOp*>& marked);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_REALIZE_H_
