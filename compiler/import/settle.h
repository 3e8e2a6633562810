// Weak values in a graph that is being read: where they take the dtype of a
// strong partner, and where the dtype that they default to.
#ifndef KILN_COMPILER_IMPORT_SETTLE_H_
#define KILN_COMPILER_IMPORT_SETTLE_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// Lets weak operands take the dtype of a strong one among `src[from...]`.
absl::Status MeetSources(Graph& graph, std::vector<UOp*>& src, size_t from);

// A weak value is stored, returned, loaded, compared and used as an index in the
// dtype it defaults to: no op behind these sees a weak operand. `src` are the
// sources of a node `op` of the wire.
absl::Status SettleWeak(Graph& graph, v1::Op op, std::vector<UOp*>& src);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_SETTLE_H_
