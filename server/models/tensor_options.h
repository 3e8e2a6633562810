// What a request of the open inference protocol says of a tensor beside its contents, by parameters.
#ifndef KILN_SERVER_MODELS_TENSOR_OPTIONS_H_
#define KILN_SERVER_MODELS_TENSOR_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/map.h"
#include "server/models/sequences/sequence_slots.h"

namespace inference {
class InferParameter;
}

namespace kiln::server {

using InferParameters = google::protobuf::Map<std::string, inference::InferParameter>;

// Bytes of a region that the caller has registered by name.
struct RegionSlice {
  std::string region;
  uint64_t offset = 0, bytes = 0;
};

// Whether the tensor's bytes are in a region, and come or go by no message.
bool IsInRegion(const InferParameters& parameters);

struct TensorOptions {
  std::optional<RegionSlice> region;
  // Of an input: how many bytes came, as its sender has counted them.
  std::optional<uint64_t> bytes;
  // Of an output: not its elements, but the so many greatest of them as text (classify.h); 0: its elements.
  uint32_t classes = 0;
};

enum class TensorKind { kInput, kOutput };

// BAD_ARGUMENT, whose field is the tensor's name, for a parameter of another form than it has or that does not go with
// another; NOT_IMPLEMENTED for one that is not served.
absl::StatusOr<TensorOptions> ReadTensorOptions(const InferParameters& parameters, TensorKind kind,
                                                const std::string& name);

// Of a request as a whole.
struct RequestOptions {
  // Of a model that keeps state: which one.
  std::optional<SequenceAsk> sequence;
  // From when it came until nobody wants its answer any more.
  absl::Duration timeout = absl::InfiniteDuration();
};

// Of a model that keeps no state there is no sequence, and of one that does there must be one: BAD_ARGUMENT, field
// "parameters.sequence_id", if it says none. The same, with its name, for each parameter of another form than it has.
// NOT_IMPLEMENTED for each other that would mean anything here.
absl::StatusOr<RequestOptions> ReadRequestParameters(const InferParameters& parameters, bool keeps_state);

// As an answer says it of an output.
void AddRegion(const RegionSlice& slice, InferParameters& parameters);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_TENSOR_OPTIONS_H_
