// The networks that the demo trains, as UOp graphs.
//
// A model is written forwards alone, down to its loss; the server makes the gradient's
// graph of it. Round that comes the training step, again one graph: it picks its batch
// from the training data on the device, goes forward and back, and updates weights,
// momenta and statistics in place. What a step is told each time is a learning rate
// and which rows to take.
#ifndef KILN_CLIENT_DEMO_MODEL_H_
#define KILN_CLIENT_DEMO_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/arrays/dtype.h"
#include "client/cpp/arrays/host_tensor.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::demo {

using client::HostTensor;
using client::Shape;

// Slots of the training step. Weight i is in kFirstWeight + 2 * i, its momentum in
// the slot after it. The prediction has the weights in the same slots.
enum Slot : uint32_t {
  kImages = 0,  // (count, 8, 8) uint8, 0 to 16
  kLabels = 1,  // (count,) uint8, 0 to 9
  kRows = 2,    // (batch,) int32: the images of this batch
  kRate = 3,    // () float32
  kStats = 4,   // (2,) float32: loss and right guesses, added up over steps
  kFirstWeight = 5,
};

enum class Architecture {
  kConv,  // 3x3 convolution, 16 channels -> ReLU -> dense
  kMlp,   // dense, 128 -> ReLU -> dense
};

std::optional<Architecture> ArchitectureByName(absl::string_view name);

struct Weight {
  std::string name;
  Shape shape;
  // How many inputs each of its outputs sums: what its first values are scaled by.
  // 0 for a bias, which begins at 0.
  int64_t fan_in;
};

const std::vector<Weight>& WeightsOf(Architecture architecture);

// Random first values, normally distributed; the same for the same seed anywhere.
std::vector<HostTensor> InitialWeights(Architecture architecture, uint64_t seed);

struct StepOptions {
  int64_t images = 0;
  int64_t batch = 32;
  double momentum = 0.9;
  double weight_decay = 1e-3;
};

std::vector<uint32_t> WeightSlots(Architecture architecture);

// Results: the loss of one batch, and how many guesses are right.
absl::StatusOr<v1::Graph> Loss(Architecture architecture, const StepOptions& options);
// `gradient`: of Loss by all WeightSlots, with Loss's own results before (see
// client::GradientOptions). No results: all it does is in its updates.
absl::StatusOr<v1::Graph> TrainingStep(Architecture architecture, const StepOptions& options,
                                       const v1::GradientResponse& gradient);
// Result: the digit each of kImages shows, (images,) int32.
absl::StatusOr<v1::Graph> Prediction(Architecture architecture, int64_t images);

}  // namespace kiln::demo

#endif  // KILN_CLIENT_DEMO_MODEL_H_
