// A request of the open inference protocol as a run, and its results as the answer.
#ifndef KILN_SERVER_MODELS_INFER_H_
#define KILN_SERVER_MODELS_INFER_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/executions/requests.h"
#include "server/models/sequences/sequence_slots.h"
#include "server/models/served_model.h"
#include "server/models/tensor_options.h"

namespace inference {
class ModelInferRequest;
class ModelInferResponse;
}  // namespace inference

namespace kiln::server {

// What a request becomes, and must live until its run has been answered.
struct InferRun {
  ExecuteRequest request;
  // Of a model that keeps state: whose. Then it is run by the model's sequencer.
  std::optional<SequenceAsk> sequence;
  // From when the request came until nobody wants its answer any more: beside the call's own deadline.
  absl::Duration timeout = absl::InfiniteDuration();
  // Of typed contents that are narrower than the field they came in.
  std::deque<std::string> narrowed;
  // What was read from regions.
  std::vector<std::unique_ptr<char[]>> read;
  // Which of the model's outputs are wanted, in the order asked.
  std::vector<size_t> outputs;
  // As many: what is to become of each.
  std::vector<TensorOptions> output_options;
  // Inputs whose bytes are in a region. Who runs the request puts them into `read`, and into the argument.
  struct InRegion {
    std::string input;               // its name
    std::optional<size_t> argument;  // of `request`; none for one that the program does not read
    RegionSlice slice;               // as long as the tensor
  };
  std::vector<InRegion> in_regions;
};

// Results by value; `caller` and what belongs to a call are for the caller to set. `model` and `message` live as long
// as `run`: tensors are not copied, and regions not looked at. BAD_ARGUMENT whose field is the name of the input or
// output at fault, and NOT_IMPLEMENTED for a parameter: see docs/serving.md.
absl::Status ToRun(const ServedModel& model, const inference::ModelInferRequest& message, InferRun& run);

// Takes the bytes of the results, but for those that have gone to a region.
absl::Status FillInferResponse(const ServedModel& model, const inference::ModelInferRequest& message,
                               const InferRun& run, ExecuteResult& result, inference::ModelInferResponse& answer);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_INFER_H_
