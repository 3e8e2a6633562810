// A request for a run between HTTP and the protocol's message: JSON, perhaps with binary tensors behind it.
//
// The body is an object; with the header Inference-Header-Content-Length that is its first so many bytes, and behind it
// stand the tensors whose `parameters.binary_data_size` says how long each is, in the order of the inputs. An answer
// is made the same way: outputs that were asked for with `parameters.binary_data`, or all with the request's
// `parameters.binary_data_output`, stand behind its JSON.
#ifndef KILN_SERVER_HTTP_INFER_JSON_H_
#define KILN_SERVER_HTTP_INFER_JSON_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/http/message.h"

namespace inference {
class ModelInferRequest;
class ModelInferResponse;
}  // namespace inference

namespace kiln::server {

// Which outputs are to be binary.
struct BinaryOutputs {
  bool others = false;
  std::map<std::string, bool> named;
};

// Of answers by JSON, all tensors together, in bytes as they are in memory. Larger ones travel binary.
inline constexpr size_t kMaxJsonTensors = size_t{8} << 20;

// Fills all but the model's name and version. The name is there before, since a body that has one has the same
// (KServe's clients write it beside the path's). Tensors of JSON become raw ones. BAD_ARGUMENT, whose field says where
// in the body it is: no JSON, a member that is none, an element that its datatype does not have, sizes that do not add
// up.
absl::Status ReadInferRequest(absl::string_view body, absl::string_view json_bytes,
                              inference::ModelInferRequest& request, BinaryOutputs& binary);

// BAD_ARGUMENT for an output that is too large for JSON, or of a type that it does not have, and was not asked for as
// binary.
absl::StatusOr<HttpAnswer> WriteInferResponse(const inference::ModelInferResponse& response,
                                              const BinaryOutputs& binary);

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_INFER_JSON_H_
