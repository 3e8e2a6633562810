#include "tests/bench/models.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "client/cpp/ops.h"

namespace kiln::bench {
namespace {

using client::Matmul;
using client::Relu;
using client::Reshape;
using client::Shape;
using client::Tensor;

class Model {
 public:
  Tensor Weight(const Shape& shape) { return graph_.Param(slots_++, v1::FLOAT32, shape); }
  Tensor Tokens(int64_t count) { return graph_.Param(slots_++, v1::INT32, {count}); }
  client::Graph& graph() { return graph_; }

  Tensor Convolution(Tensor x, int64_t channels, int64_t kernel, int64_t stride = 1) {
    const Tensor weight = Weight({channels, x.dim(1), kernel, kernel});
    return client::Conv2d(x, weight, Weight({channels}),
                          {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}});
  }
  Tensor Linear(Tensor x, int64_t leaving) {
    const Tensor weight = Weight({x.dim(-1), leaving});
    return Matmul(x, weight) + Weight({leaving});
  }
  Tensor Norm(Tensor x) {
    const Tensor weight = Weight({x.dim(-1)});
    return client::LayerNorm(x, weight, Weight({x.dim(-1)}));
  }
  v1::Graph Finish(Tensor result) {
    graph_.Output(result);
    auto message = graph_.Build();
    KILN_CHECK(message.ok());
    return *std::move(message);
  }

 private:
  client::Graph graph_;
  uint32_t slots_ = 0;
};

// Sees what is before it; `heads` at once.
Tensor Attention(Model& model, Tensor x, int64_t heads) {
  const int64_t length = x.dim(0), width = x.dim(1), each = width / heads;
  const Tensor parts =
      client::Permute(Reshape(model.Linear(model.Norm(x), 3 * width), {length, 3, heads, each}), {1, 2, 0, 3});
  const auto part = [&](int64_t n) {
    return Reshape(client::Shrink(parts, {{n, n + 1}, {0, heads}, {0, length}, {0, each}}), {heads, length, each});
  };
  const Tensor places = model.graph().Arange(length);
  const Tensor unseen = Reshape(places, {length, 1}) < Reshape(places, {1, length});
  const Tensor scores = Matmul(part(0), client::Transpose(part(1))) * (1 / std::sqrt(static_cast<double>(each)));
  const Tensor seen =
      Matmul(client::Softmax(client::Where(client::BroadcastTo(unseen, scores.shape()), -1e9, scores), -1), part(2));
  return model.Linear(Reshape(client::Permute(seen, {1, 0, 2}), {length, width}), width);
}

}  // namespace

v1::Graph ResNet50() {
  Model model;
  Tensor x = Relu(model.Convolution(model.Weight({1, 3, 224, 224}), 64, 7, 2));
  x = client::MaxPool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  constexpr int kBlocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const int64_t stride = block == 0 && stage > 0 ? 2 : 1;
      const Tensor around = block == 0 ? model.Convolution(x, 4 * width, 1, stride) : x;
      Tensor inner = Relu(model.Convolution(x, width, 1));
      inner = Relu(model.Convolution(inner, width, 3, stride));
      x = Relu(model.Convolution(inner, 4 * width, 1) + around);
    }
  }
  return model.Finish(model.Linear(client::Mean(x, {2, 3}), 1000));
}

v1::Graph Gpt2(int64_t tokens) {
  constexpr int64_t kWidth = 768, kHeads = 12, kLayers = 12, kVocabulary = 50257;
  Model model;
  const Tensor words = model.Weight({kVocabulary, kWidth});
  Tensor x = client::Embedding(words, model.Tokens(tokens)) + model.Weight({tokens, kWidth});
  for (int layer = 0; layer < kLayers; ++layer) {
    x = x + Attention(model, x, kHeads);
    x = x + model.Linear(client::Gelu(model.Linear(model.Norm(x), 4 * kWidth)), kWidth);
  }
  return model.Finish(client::Max(Matmul(model.Norm(x), client::Transpose(words)), 1));
}

std::vector<uint32_t> WeightSlots(const v1::Graph& graph) {
  std::vector<uint32_t> slots;
  for (const v1::UOp& node : graph.nodes()) {
    if (node.op() == v1::PARAM && node.buffer().slot() != 0) slots.push_back(node.buffer().slot());
  }
  std::sort(slots.begin(), slots.end());
  return slots;
}

}  // namespace kiln::bench
