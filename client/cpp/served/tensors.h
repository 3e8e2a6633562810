// Requests of the open inference protocol and their answers as messages, with tensors by name in between.
//
// A tensor's bytes travel as they are in memory, little-endian and row-major, in a list beside the message's other
// fields: they are moved there, and out of there, and not copied.
#ifndef KILN_CLIENT_CPP_SERVED_TENSORS_H_
#define KILN_CLIENT_CPP_SERVED_TENSORS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/arrays/host_tensor.h"
#include "client/cpp/transport/cancellation.h"

namespace inference {
class ModelInferRequest;
class ModelInferResponse;
class ModelStreamInferResponse;
}  // namespace inference

namespace kiln::client {

using NamedTensors = std::map<std::string, HostTensor>;

// Which request of a sequence one is, of a model that keeps state.
struct SequenceStep {
  // From 1 on.
  uint64_t id = 0;
  bool start = false;
  bool end = false;
};

struct InferOptions {
  // Those that are wanted; none: all.
  std::vector<std::string> outputs;
  std::optional<SequenceStep> sequence;
  // Comes back with the answer, and is in the server's logs.
  std::string id;
  // How long it may take, with all its attempts, where that is less than the client's call_timeout: DEADLINE_EXCEEDED.
  // Of a stream's request it counts from when the server begins with it, and is the server's to keep: the whole
  // stream's timeout (InferStream) is kept here.
  absl::Duration timeout = absl::InfiniteDuration();
  // By which another thread gives the call up: CANCELLED. Outlives the call; a stream's requests have none.
  Cancellation* cancellation = nullptr;
};

// The dtype that the protocol calls so; DTYPE_UNSPECIFIED where there is none like it.
v1::DType DTypeOfDatatype(absl::string_view datatype);

// Bytes of one request. gRPC counts a message's in 32 bits with a sign, and a process that writes more ends; what is
// left is for what is added to a request.
inline constexpr uint64_t kMaxRequestBytes = INT32_MAX - (1 << 20);
// GRAPH_TOO_LARGE, limit "request bytes", for more; `input` is its largest, with `input_bytes`.
absl::Status CheckRequestBytes(uint64_t bytes, absl::string_view input, uint64_t input_bytes);

// BAD_ARGUMENT for a tensor of a dtype that the protocol has not; the detail's field names the input. The errors of
// CheckRequestBytes.
absl::StatusOr<inference::ModelInferRequest> ToInferRequest(const std::string& model, const std::string& version,
                                                            NamedTensors inputs, const InferOptions& options);

// The outputs, whose bytes are taken. INTERNAL_FAULT for an answer that cannot be right: to another request than that
// of this id, without an output that was asked for, or with one that is not as long as its shape says.
absl::StatusOr<NamedTensors> FromInferResponse(inference::ModelInferResponse& answer,
                                               const std::vector<std::string>& outputs, const std::string& id);
// The same; UNKNOWN, with the server's text, where the request failed: the protocol has no more of it.
absl::StatusOr<NamedTensors> FromStreamResponse(inference::ModelStreamInferResponse& answer,
                                                const std::vector<std::string>& outputs, const std::string& id);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_SERVED_TENSORS_H_
