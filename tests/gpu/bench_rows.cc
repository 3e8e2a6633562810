#include "tests/gpu/bench_rows.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "client/cpp/ops.h"
#include "compiler/interp/scalar.h"
#include "tests/bench/models.h"

namespace kiln::testing {

double ElementAt(const compiler::HostTensor& tensor, int64_t index) {
  const int64_t at = index * compiler::ItemSize(tensor.dtype);
  const uint64_t bits = compiler::LoadElement(tensor.dtype, tensor.bytes.data() + at);
  return compiler::IsFloat(tensor.dtype) ? compiler::FloatValue(tensor.dtype, bits)
                                         : static_cast<double>(static_cast<int64_t>(bits));
}

namespace {

using client::Shape;
using client::Tensor;
using compiler::HostTensors;
using Inputs = std::vector<Tensor>;

v1::Graph GraphOf(const std::vector<Shape>& shapes, v1::DType dtype, const std::function<Tensor(const Inputs&)>& made) {
  client::Graph graph;
  Inputs inputs;
  for (const Shape& shape : shapes) inputs.push_back(graph.Param(static_cast<uint32_t>(inputs.size()), dtype, shape));
  graph.Output(made(inputs));
  auto message = graph.Build();
  KILN_CHECK(message.ok());
  return *std::move(message);
}

// The sum of so many terms, and of their magnitudes.
struct Reduced {
  double sum = 0, magnitude = 0;
};
template <typename Term>
Reduced Reduce(int64_t count, Term term) {
  Reduced reduced;
  for (int64_t i = 0; i < count; ++i) {
    const double value = term(i);
    reduced.sum += value;
    reduced.magnitude += std::abs(value);
  }
  return reduced;
}

// A product rounds its result to `dtype`, and its sums to float32 at each step; with tf32 also its factors.
Row Product(v1::DType dtype, const char* type, const char* size, int64_t n, bool fast_math = false) {
  const auto product = [](const Inputs& in) { return client::Matmul(in[0], in[1]); };
  const double rounding = dtype == v1::BFLOAT16 ? 1.0 / 128 : dtype == v1::FLOAT16 ? 1.0 / 1024 : 1e-6;
  const double step = fast_math ? 1e-3 : 1e-4;
  return {.name = std::string(type) + " product " + size,
          .flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n),
          .graph = [=] { return GraphOf({{n, n}, {n, n}}, dtype, product); },
          .expected =
              [=](const HostTensors& in, int64_t index) {
                const Reduced reduced = Reduce(n, [&](int64_t i) {
                  return ElementAt(in.at(0), index / n * n + i) * ElementAt(in.at(1), i * n + index % n);
                });
                return Expected{reduced.sum, rounding * std::abs(reduced.sum) + step * reduced.magnitude};
              },
          .fast_math = fast_math};
}

// Of memory: `moved` times the elements of the first shape, in float32.
Row Moving(const std::string& name, double moved, std::vector<Shape> shapes, std::function<Tensor(const Inputs&)> made,
           std::function<Expected(const HostTensors&, int64_t)> expected) {
  double elements = 1;
  for (const int64_t size : shapes[0]) elements *= static_cast<double>(size);
  return {.name = name,
          .bytes = 4 * moved * elements,
          .graph = [=] { return GraphOf(shapes, v1::FLOAT32, made); },
          .expected = std::move(expected)};
}

// Of the matrix that is the first argument.
int64_t WidthOf(const HostTensors& in) { return in.at(0).shape[1]; }

Expected SumOfRow(const HostTensors& in, int64_t row) {
  const int64_t width = WidthOf(in);
  const Reduced reduced = Reduce(width, [&](int64_t i) { return ElementAt(in.at(0), row * width + i); });
  return {reduced.sum, 1e-5 * reduced.magnitude};
}

Expected SumOfColumn(const HostTensors& in, int64_t column) {
  const int64_t width = WidthOf(in);
  const Reduced reduced = Reduce(in.at(0).shape[0], [&](int64_t i) { return ElementAt(in.at(0), i * width + column); });
  return {reduced.sum, 1e-5 * reduced.magnitude};
}

Expected SumOfAll(const HostTensors& in, int64_t) {
  const auto* numbers = reinterpret_cast<const float*>(in.at(0).bytes.data());
  const auto count = static_cast<int64_t>(in.at(0).bytes.size() / sizeof(float));
  const Reduced reduced = Reduce(count, [&](int64_t i) { return static_cast<double>(numbers[i]); });
  return {reduced.sum, 1e-5 * reduced.magnitude};
}

Expected SoftmaxOfRow(const HostTensors& in, int64_t index) {
  const int64_t width = WidthOf(in), row = index / width * width;
  const double sum = Reduce(width, [&](int64_t i) { return std::exp(ElementAt(in.at(0), row + i)); }).sum;
  const double value = std::exp(ElementAt(in.at(0), index)) / sum;
  return {value, 1e-5 * value};
}

Expected NormOfRow(const HostTensors& in, int64_t index) {
  const int64_t width = WidthOf(in), row = index / width * width, column = index % width;
  const double mean =
      Reduce(width, [&](int64_t i) { return ElementAt(in.at(0), row + i); }).sum / static_cast<double>(width);
  const auto square = [&](int64_t i) { return std::pow(ElementAt(in.at(0), row + i) - mean, 2); };
  const double scale = 1 / std::sqrt(Reduce(width, square).sum / static_cast<double>(width) + 1e-5);
  const double value = (ElementAt(in.at(0), index) - mean) * scale * ElementAt(in.at(1), column);
  return {value + ElementAt(in.at(2), column), 1e-4 * (std::abs(value) + 0.05)};
}

Tensor Attention(const Inputs& in) {
  const Tensor scores = client::Matmul(in[0], client::Transpose(in[1]));
  const double scale = 1 / std::sqrt(static_cast<double>(in[0].dim(-1)));
  return client::Matmul(client::Softmax(scores * scale, -1), in[2]);
}

Expected AttentionOfToken(const HostTensors& in, int64_t index) {
  const int64_t tokens = in.at(0).shape[1], width = in.at(0).shape[2];
  const int64_t token = index / width * width, head = index / (tokens * width) * tokens * width;
  double sum = 0;
  const Reduced reduced = Reduce(tokens, [&](int64_t other) {
    const auto term = [&](int64_t i) {
      return ElementAt(in.at(0), token + i) * ElementAt(in.at(1), head + other * width + i);
    };
    const double weight = std::exp(Reduce(width, term).sum / std::sqrt(static_cast<double>(width)));
    sum += weight;
    return weight * ElementAt(in.at(2), head + other * width + index % width);
  });
  return {reduced.sum / sum, 1e-4 * reduced.magnitude / sum};
}

// So many tiny kernels one after the other: 1,024 numbers, and 1 more in each.
Row Replay(int kernels, int queued) {
  return {.name = "replay of " + std::to_string(kernels) + (kernels == 1 ? " kernel, " : " kernels, ") +
                  (queued == 1 ? "waited for" : "one of " + std::to_string(queued) + " queued"),
          .graph =
              [=] {
                return GraphOf({{1024}}, v1::FLOAT32, [=](const Inputs& in) {
                  Tensor x = in[0];
                  for (int i = 0; i < kernels; ++i) x = client::Contiguous(x + 1.0);
                  return x;
                });
              },
          .expected = [=](const HostTensors& in,
                          int64_t index) { return Expected{ElementAt(in.at(0), index) + kernels, 1e-5}; },
          .kernels = kernels,
          .queued = queued};
}

}  // namespace

std::vector<Row> BenchRows(bool small) {
  const int64_t by = small ? 64 : 1, side = 4096 / by, tokens = small ? 32 : 2048;
  const Shape square = {side, side}, large = {small ? 5000 : 256 << 20};
  std::vector<Row> rows = {
      Moving(
          "copy, 256M", 2, {large}, [](const Inputs& in) { return client::Contiguous(in[0]); },
          [](const HostTensors& in, int64_t i) { return Expected{ElementAt(in.at(0), i)}; }),
      Moving(
          "a*b+c, 256M", 4, {large, large, large}, [](const Inputs& in) { return in[0] * in[1] + in[2]; },
          [](const HostTensors& in, int64_t i) {
            const double product = ElementAt(in.at(0), i) * ElementAt(in.at(1), i), c = ElementAt(in.at(2), i);
            return Expected{product + c, 1e-6 * (std::abs(product) + std::abs(c))};
          }),
      Moving(
          "sum of all, 256M", 1, {large}, [](const Inputs& in) { return client::Sum(in[0]); }, SumOfAll),
      Moving(
          "sum of rows, 4096 x 4096", 1, {square}, [](const Inputs& in) { return client::Sum(in[0], 1); }, SumOfRow),
      Moving(
          "sum of columns, 4096 x 4096", 1, {square}, [](const Inputs& in) { return client::Sum(in[0], 0); },
          SumOfColumn),
      Moving(
          "softmax, 4096 x 4096", 2, {square}, [](const Inputs& in) { return client::Softmax(in[0], -1); },
          SoftmaxOfRow),
      Moving(
          "layer norm, 4096 x 4096", 2, {square, {side}, {side}},
          [](const Inputs& in) { return client::LayerNorm(in[0], in[1], in[2]); }, NormOfRow),
      Moving(
          "transpose, 4096 x 4096", 2, {square},
          [](const Inputs& in) { return client::Contiguous(client::Transpose(in[0])); },
          [](const HostTensors& in, int64_t i) {
            return Expected{ElementAt(in.at(0), i % WidthOf(in) * WidthOf(in) + i / WidthOf(in))};
          }),
      Product(v1::FLOAT32, "float32", "1024", 1024 / by),
      Product(v1::FLOAT32, "float32", "4096", 4096 / by),
      Product(v1::FLOAT32, "float32", "8192", 8192 / by),
      Product(v1::FLOAT32, "tf32", "4096", 4096 / by, true),
      Product(v1::FLOAT32, "tf32", "8192", 8192 / by, true),
      Product(v1::FLOAT16, "float16", "4096", 4096 / by),
      Product(v1::FLOAT16, "float16", "8192", 8192 / by),
      Product(v1::BFLOAT16, "bfloat16", "4096", 4096 / by),
      Product(v1::BFLOAT16, "bfloat16", "8192", 8192 / by),
      {.name = "attention, 12 x 2048 x 64",
       .flops = 4.0 * 12 * 2048 * 2048 * 64,
       .graph =
           [=] {
             const Shape heads = {12, tokens, 64};
             return GraphOf({heads, heads, heads}, v1::FLOAT32, Attention);
           },
       .expected = AttentionOfToken},
      Replay(1, 1),
      Replay(10, 1),
      Replay(1, 100),
      Replay(10, 100),
  };
  if (small) return rows;
  rows.push_back({.name = "ResNet-50, forward, batch 1", .graph = [] { return bench::ResNet50(); }});
  rows.push_back({.name = "GPT-2 small, forward, 64 tokens", .graph = [] { return bench::Gpt2(64); }});
  return rows;
}

}  // namespace kiln::testing
