// Multi-device ops of the frontends, read as COPY (LOAD) and movement.
//
//   MSTACK(s0, s1, ...)     one value for each device: stacked on a new axis 0, which is split
//   MULTI(T), UNSHARD(T) index=axis   the shards of a stack T, joined along an axis
//   MSELECT(T) index=i      what device i of T's holds, there
//   ALLREDUCE(T) op         the reduction of the shards of T, on every device
#ifndef KILN_COMPILER_IMPORT_LEGACY_LEGACY_DEVICES_H_
#define KILN_COMPILER_IMPORT_LEGACY_LEGACY_DEVICES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// The node, whose sources came out as `src`, if it is one of the above; otherwise
// nullptr.
absl::StatusOr<UOp*> ReadLegacyDevices(Graph& graph, const v1::UOp& node, const std::vector<UOp*>& src);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_LEGACY_LEGACY_DEVICES_H_
