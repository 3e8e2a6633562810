// Collectives on handles.
#ifndef KILN_SERVER_ENGINE_COLLECTIVE_H_
#define KILN_SERVER_ENGINE_COLLECTIVE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/collective/collective.h"
#include "server/engine/executions/requests.h"
#include "server/engine/memory/buffer_table.h"
#include "server/engine/memory/session.h"

namespace kiln::server {

struct CollectiveRequest {
  runtime::collective::Kind kind = runtime::collective::Kind::kAllReduce;
  runtime::collective::ReduceOp op = runtime::collective::ReduceOp::kSum;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  // Elements of the whole tensor.
  uint64_t count = 0;
  uint32_t root = 0;
  bool deterministic_order = false;
  // By rank, or the root's alone; from each address on, as many bytes as are wanted.
  std::vector<BufferAddress> inputs;
  std::vector<BufferAddress> outputs;
  SessionPtr caller;
};

using CollectiveCallback = runtime::collective::ReportCallback;

// The buffers behind the handles, as the runtime wants them. UNKNOWN_HANDLE,
// OUT_OF_BOUNDS and BUFFER_DTYPE_MISMATCH (the buffer is said to hold something else)
// with the place, "input 2", in `field`; the errors of runtime/collective.
absl::StatusOr<runtime::collective::Request> Resolve(const CollectiveRequest& request, const BufferTable& table);

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_COLLECTIVE_H_
