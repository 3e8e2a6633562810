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

// The forward pass with what the gradients need of it.
struct Forward {
  Tensor image;     // (batch, 1, 8, 8), 0 to 1
  Tensor hidden;    // before the ReLU: (batch, features)
  Tensor features;  // after it
  Tensor logits;    // (batch, classes)
};

Forward Run(Architecture architecture, Tensor pixels, const std::vector<Tensor>& weight) {
  Forward f;
  f.image = Reshape(Cast(pixels, v1::FLOAT32) * (1.0 / 16), {pixels.dim(0), 1, kSide, kSide});
  switch (architecture) {
    case Architecture::kConv: f.hidden = Flatten(Conv2d(f.image, weight[0], weight[1], kSamePadding), 1); break;
    case Architecture::kMlp: f.hidden = Matmul(Flatten(f.image, 1), weight[0]) + weight[1]; break;
  }
  f.features = Relu(f.hidden);
  f.logits = Matmul(f.features, weight[2]) + weight[3];
  return f;
}

std::vector<Tensor> WeightParams(Graph& graph, Architecture architecture) {
  std::vector<Tensor> params;
  for (const Weight& weight : WeightsOf(architecture)) {
    const uint32_t slot = kFirstWeight + 2 * static_cast<uint32_t>(params.size());
    params.push_back(graph.Param(slot, v1::FLOAT32, weight.shape, weight.name));
  }
  return params;
}

struct Batch {
  std::vector<Tensor> weights;
  Tensor loss;
  Tensor right;  // how many guesses are
  std::vector<Tensor> gradients;
};

// Back-propagation, from the loss to each weight. For the mean cross-entropy over
// n images, d loss / d logits = (softmax - truth) / n. Through y = x w + b:
// d w = x^T dy, d b = the sum of dy's rows, d x = dy w^T. Through a ReLU: dy where the
// input was positive, else 0. A convolution is x w + b with x the image's patches as
// rows.
Batch ForwardAndBackward(Graph& graph, Architecture architecture, const StepOptions& options) {
  const Tensor data = graph.Param(kImages, v1::UINT8, {options.images, kSide, kSide}, "images");
  const Tensor labels = graph.Param(kLabels, v1::UINT8, {options.images}, "labels");
  const Tensor rows = graph.Param(kRows, v1::INT32, {options.batch}, "rows");

  Batch batch;
  batch.weights = WeightParams(graph, architecture);
  const Forward f = Run(architecture, Index(data, {rows}), batch.weights);
  const Tensor truth = OneHot(Index(labels, {rows}), kClasses, v1::FLOAT32);
  const Tensor log_probability = LogSoftmax(f.logits, 1);
  batch.loss = -Sum(log_probability * truth) * (1.0 / static_cast<double>(options.batch));
  const Tensor guess = ArgMax(f.logits, 1);
  batch.right = Sum(guess == Cast(Index(labels, {rows}), v1::INT32));

  const Tensor d_logits = (Exp(log_probability) - truth) * (1.0 / static_cast<double>(options.batch));
  const Tensor d_features = Matmul(d_logits, Transpose(batch.weights[2]));
  const Tensor d_hidden = Where(f.hidden > 0, d_features, 0);
  switch (architecture) {
    case Architecture::kConv: {
      const int64_t places = options.batch * kSide * kSide;
      const Tensor patches = Reshape(Patches(f.image, {3, 3}, kSamePadding), {places, 9});
      const Tensor by_channel = Permute(Reshape(d_hidden, {options.batch, kChannels, kSide * kSide}), {1, 0, 2});
      const Tensor d_conv = Reshape(by_channel, {kChannels, places});
      batch.gradients = {Reshape(Matmul(d_conv, patches), {kChannels, 1, 3, 3}), Sum(d_conv, 1)};
      break;
    }
    case Architecture::kMlp:
      batch.gradients = {Matmul(Transpose(Flatten(f.image, 1)), d_hidden), Sum(d_hidden, 0)};
      break;
  }
  batch.gradients.push_back(Matmul(Transpose(f.features), d_logits));
  batch.gradients.push_back(Sum(d_logits, 0));
  return batch;
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

absl::StatusOr<v1::Graph> TrainingStep(Architecture architecture, const StepOptions& options) {
  Graph graph;
  const Batch batch = ForwardAndBackward(graph, architecture, options);
  const Tensor rate = graph.Param(kRate, v1::FLOAT32, {}, "rate");
  const Tensor stats = graph.Param(kStats, v1::FLOAT32, {2}, "stats");
  graph.Update(stats, stats + Stack({batch.loss, Cast(batch.right, v1::FLOAT32)}));
  for (size_t i = 0; i < batch.weights.size(); ++i) {
    const Tensor weight = batch.weights[i];
    const uint32_t slot = kFirstWeight + 2 * static_cast<uint32_t>(i) + 1;
    const Tensor velocity =
        graph.Param(slot, v1::FLOAT32, weight.shape(), absl::StrCat(WeightsOf(architecture)[i].name, ".velocity"));
    const Tensor next = options.momentum * velocity + batch.gradients[i] + options.weight_decay * weight;
    graph.Update(velocity, next);
    graph.Update(weight, weight - rate * next);
  }
  return graph.Build();
}

absl::StatusOr<v1::Graph> Gradients(Architecture architecture, const StepOptions& options) {
  Graph graph;
  const Batch batch = ForwardAndBackward(graph, architecture, options);
  graph.Output(batch.loss);
  for (const Tensor& gradient : batch.gradients) graph.Output(gradient);
  return graph.Build();
}

absl::StatusOr<v1::Graph> Prediction(Architecture architecture, int64_t images) {
  Graph graph;
  const Tensor pixels = graph.Param(kImages, v1::UINT8, {images, kSide, kSide}, "images");
  graph.Output(ArgMax(Run(architecture, pixels, WeightParams(graph, architecture)).logits, 1));
  return graph.Build();
}

}  // namespace kiln::demo
