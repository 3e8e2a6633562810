#include "client/demo/model.h"

#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "client/cpp/ops.h"

namespace kiln::demo {

// NOLINTNEXTLINE: the builder's functions read best without a prefix.
using namespace kiln::client;

namespace {

constexpr int64_t kClasses = 10;
constexpr int64_t kSide = 8;
constexpr int64_t kChannels = 16;
constexpr int64_t kHidden = 128;
constexpr ConvOptions kSamePadding = {.padding = {1, 1}};

// (batch, classes) from (batch, 8, 8).
Tensor Logits(Architecture architecture, Tensor pixels, const std::vector<Tensor>& weight) {
  const Tensor image = Reshape(Cast(pixels, v1::FLOAT32) * (1.0 / 16), {pixels.dim(0), 1, kSide, kSide});
  Tensor hidden;
  switch (architecture) {
    case Architecture::kConv: hidden = Flatten(Conv2d(image, weight[0], weight[1], kSamePadding), 1); break;
    case Architecture::kMlp: hidden = Matmul(Flatten(image, 1), weight[0]) + weight[1]; break;
  }
  return Matmul(Relu(hidden), weight[2]) + weight[3];
}

std::vector<Tensor> WeightParams(Graph& graph, Architecture architecture) {
  std::vector<Tensor> params;
  const std::vector<uint32_t> slots = WeightSlots(architecture);
  for (size_t i = 0; i < slots.size(); ++i) {
    const Weight& weight = WeightsOf(architecture)[i];
    params.push_back(graph.Param(slots[i], v1::FLOAT32, weight.shape, weight.name));
  }
  return params;
}

// Two uniform numbers make a normal one (Box and Muller); the standard library's own
// distributions differ from one library to the next.
float Normal(std::mt19937_64& random) {
  const auto uniform = [&random] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return static_cast<float>(radius * std::cos(6.283185307179586 * uniform()));
}

}  // namespace

std::optional<Architecture> ArchitectureByName(absl::string_view name) {
  if (name == "conv") return Architecture::kConv;
  if (name == "mlp") return Architecture::kMlp;
  return std::nullopt;
}

const std::vector<Weight>& WeightsOf(Architecture architecture) {
  static const auto& conv = *new std::vector<Weight>{
      {"conv.weight", {kChannels, 1, 3, 3}, 9},
      {"conv.bias", {kChannels}, 0},
      {"dense.weight", {kChannels * kSide * kSide, kClasses}, kChannels * kSide * kSide},
      {"dense.bias", {kClasses}, 0},
  };
  static const auto& mlp = *new std::vector<Weight>{
      {"hidden.weight", {kSide * kSide, kHidden}, kSide * kSide},
      {"hidden.bias", {kHidden}, 0},
      {"dense.weight", {kHidden, kClasses}, kHidden},
      {"dense.bias", {kClasses}, 0},
  };
  return architecture == Architecture::kConv ? conv : mlp;
}

std::vector<HostTensor> InitialWeights(Architecture architecture, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<HostTensor> tensors;
  for (const Weight& weight : WeightsOf(architecture)) {
    std::vector<float> values(*ElementCount(weight.shape), 0.0f);
    if (weight.fan_in > 0) {
      const float scale = std::sqrt(2.0f / static_cast<float>(weight.fan_in));
      for (float& value : values) value = scale * Normal(random);
    }
    tensors.push_back(HostTensor::Of(weight.shape, values));
  }
  return tensors;
}

std::vector<uint32_t> WeightSlots(Architecture architecture) {
  std::vector<uint32_t> slots;
  for (uint32_t i = 0; i < WeightsOf(architecture).size(); ++i) slots.push_back(kFirstWeight + 2 * i);
  return slots;
}

absl::StatusOr<v1::Graph> Loss(Architecture architecture, const StepOptions& options) {
  Graph graph;
  const Tensor data = graph.Param(kImages, v1::UINT8, {options.images, kSide, kSide}, "images");
  const Tensor all_labels = graph.Param(kLabels, v1::UINT8, {options.images}, "labels");
  const Tensor rows = graph.Param(kRows, v1::INT32, {options.batch}, "rows");
  const Tensor labels = Cast(Index(all_labels, {rows}), v1::INT32);
  const Tensor logits = Logits(architecture, Index(data, {rows}), WeightParams(graph, architecture));
  graph.Output(CrossEntropy(logits, labels));
  graph.Output(Sum(ArgMax(logits, 1) == labels));
  return graph.Build();
}

absl::StatusOr<v1::Graph> TrainingStep(Architecture architecture, const StepOptions& options,
                                       const v1::GradientResponse& gradient) {
  Graph graph;
  const std::vector<Tensor> weights = WeightParams(graph, architecture);
  const std::vector<Tensor> values = graph.Append(gradient);
  if (values.size() != weights.size() + 2) return absl::InvalidArgumentError("not the gradient by every weight");
  const Tensor loss = values[0], right = values[1];
  const Tensor rate = graph.Param(kRate, v1::FLOAT32, {}, "rate");
  const Tensor stats = graph.Param(kStats, v1::FLOAT32, {2}, "stats");
  graph.Update(stats, stats + Stack({loss, Cast(right, v1::FLOAT32)}));
  for (size_t i = 0; i < weights.size(); ++i) {
    const Tensor weight = weights[i];
    const Tensor velocity = graph.Param(WeightSlots(architecture)[i] + 1, v1::FLOAT32, weight.shape(),
                                        absl::StrCat(WeightsOf(architecture)[i].name, ".velocity"));
    const Tensor next = options.momentum * velocity + values[i + 2] + options.weight_decay * weight;
    graph.Update(velocity, next);
    graph.Update(weight, weight - rate * next);
  }
  return graph.Build();
}

absl::StatusOr<v1::Graph> Prediction(Architecture architecture, int64_t images) {
  Graph graph;
  const Tensor pixels = graph.Param(kImages, v1::UINT8, {images, kSide, kSide}, "images");
  graph.Output(ArgMax(Logits(architecture, pixels, WeightParams(graph, architecture)), 1));
  return graph.Build();
}

}  // namespace kiln::demo
