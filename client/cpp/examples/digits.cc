// Handwritten digits: a small network learns 1,437 of them on the server, and reads 360 that it has not seen.
//
//   ./dev run & bazel-bin/client/cpp/examples/digits localhost:7437 client/demo/data
//
// A step, from the batch to the new weights, is one program there. The server makes the gradient once, as a graph.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/error.h"
#include "client/cpp/arrays/npy.h"
#include "client/cpp/client.h"
#include "client/cpp/ops.h"

namespace kiln::client {

constexpr int64_t kImages = 1797, kPixels = 64, kClasses = 10;
constexpr int64_t kTrained = 1437, kBatch = 64, kHidden = 64, kEpochs = 15;
constexpr double kRate = 0.5;

// Of the weights, which have slots 0 to 3 in every graph. Images have slot 4; their digits, ten numbers each, slot 5.
const std::vector<Shape> kShapes = {{kPixels, kHidden}, {kHidden}, {kHidden, kClasses}, {kClasses}};

std::vector<Tensor> Weights(Graph& graph) {
  std::vector<Tensor> weights;
  for (const Shape& shape : kShapes) weights.push_back(graph.Param(weights.size(), v1::FLOAT32, shape));
  return weights;
}

Tensor Logits(Graph& graph, int64_t count) {
  const std::vector<Tensor> w = Weights(graph);
  const Tensor x = graph.Param(4, v1::FLOAT32, {count, kPixels}, "x");
  return Matmul(Relu(Matmul(x, w[0]) + w[1]), w[2]) + w[3];
}

// A program that lowers the loss: every weight goes against its gradient, in place.
absl::StatusOr<Program> Step(Client& client) {
  Graph loss;
  const Tensor digits = loss.Param(5, v1::FLOAT32, {kBatch, kClasses}, "digits");
  loss.Output(Sum(LogSoftmax(Logits(loss, kBatch), -1) * digits) * (-1.0 / kBatch));
  KILN_ASSIGN_OR_RETURN(v1::Graph built, loss.Build());
  KILN_ASSIGN_OR_RETURN(const auto grad, client.Gradient(built, {.wrt_slots = {0, 1, 2, 3}, .include_results = true}));
  Graph step;
  const std::vector<Tensor> weights = Weights(step), values = step.Append(grad);
  if (values.size() != 1 + weights.size()) return absl::InternalError("this is not the gradient by every weight");
  step.Output(values[0]);
  for (size_t i = 0; i < weights.size(); ++i) step.Update(weights[i], weights[i] - kRate * values[1 + i]);
  KILN_ASSIGN_OR_RETURN(built, step.Build());
  return client.Compile(built);
}

// The first weights: numbers by chance for matrices, zeros for the rest.
absl::StatusOr<std::vector<DeviceBuffer>> Begin(Client& client) {
  std::mt19937_64 random(2);
  std::vector<DeviceBuffer> weights;
  for (const Shape& shape : kShapes) {
    std::normal_distribution<float> chance(0, std::sqrt(2.0f / static_cast<float>(shape[0])));
    std::vector<float> values(shape[0] * (shape.size() > 1 ? shape[1] : 1), 0.0f);
    if (shape.size() > 1) std::generate(values.begin(), values.end(), [&] { return chance(random); });
    KILN_ASSIGN_OR_RETURN(weights.emplace_back(), client.Upload(HostTensor::Of(shape, values)));
  }
  return weights;
}

absl::Status Train(const std::string& address, const std::string& folder) {
  KILN_ASSIGN_OR_RETURN(const auto client, Client::Connect(address));
  KILN_ASSIGN_OR_RETURN(const HostTensor images, ReadNpy(folder + "/digits_images.npy"));
  KILN_ASSIGN_OR_RETURN(const HostTensor labels, ReadNpy(folder + "/digits_labels.npy"));
  std::vector<int64_t> order(kImages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  std::vector<float> x, digits(kImages * kClasses, 0.0f);
  for (int64_t i = 0; i < kImages; ++i) {
    for (int64_t at = 0; at < kPixels; ++at) x.push_back(images.bytes[order[i] * kPixels + at] / 16.0f);
    digits[i * kClasses + labels.bytes[order[i]]] = 1;
  }
  const auto rows = [](const std::vector<float>& from, int64_t first, int64_t count, int64_t width) {
    return HostTensor::Of({count, width}, std::vector(&from[first * width], &from[first * width] + count * width));
  };
  KILN_ASSIGN_OR_RETURN(const Program step, Step(*client));
  KILN_ASSIGN_OR_RETURN(const std::vector<DeviceBuffer> weights, Begin(*client));
  Arguments given;
  for (uint32_t slot = 0; slot < weights.size(); ++slot) given.Set(slot, weights[slot]);
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    double total = 0;
    for (int64_t at = 0; at + kBatch <= kTrained; at += kBatch) {
      const auto all = Arguments(given).Set(4, rows(x, at, kBatch, kPixels)).Set(5, rows(digits, at, kBatch, kClasses));
      KILN_ASSIGN_OR_RETURN(const RunResults run, step.Run(all, {.results = v1::RESULT_INLINE}));
      total += run.results[0].tensor.Values<float>()[0];
    }
    std::printf("epoch %2d   loss %.4f\n", epoch, total / static_cast<double>(kTrained / kBatch));
  }
  constexpr int kUnseen = kImages - kTrained;
  Graph graph;
  graph.Output(ArgMax(Logits(graph, kUnseen), -1));
  KILN_ASSIGN_OR_RETURN(const v1::Graph built, graph.Build());
  KILN_ASSIGN_OR_RETURN(const Program program, client->Compile(built));
  given.Set(4, rows(x, kTrained, kUnseen, kPixels));
  KILN_ASSIGN_OR_RETURN(const RunResults run, program.Run(given, {.results = v1::RESULT_INLINE}));
  const std::vector<int32_t> read = run.results[0].tensor.Values<int32_t>();
  int right = 0;
  for (int64_t i = 0; i < kUnseen; ++i) right += digits[(kTrained + i) * kClasses + read[i]] == 1;
  std::printf("read %d of %d: %.4f\n", right, kUnseen, static_cast<double>(right) / kUnseen);
  return absl::OkStatus();
}

}  // namespace kiln::client

int main(int count, char** words) {
  if (count != 3) return 2;
  const absl::Status status = kiln::client::Train(words[1], words[2]);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
