// Whole models: loss and gradients on both engines, against autograd's
// (autograd_reference.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/ops.h"
#include "compiler/gradient/gradient.h"
#include "tests/client/reference.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using namespace client;  // NOLINT: the builder's functions read best without a prefix.
using compiler::HostTensors;

// A model's inputs, by name.
class In {
 public:
  Tensor operator[](const std::string& name) const { return tensors_.at(name); }
  void Add(const std::string& name, Tensor tensor) { tensors_[name] = tensor; }

 private:
  std::map<std::string, Tensor> tensors_;
};

Tensor Mlp(const In& in) {
  const Tensor hidden = Relu(Matmul(in["x"], in["w1"]) + in["b1"]);
  return CrossEntropy(Matmul(hidden, in["w2"]) + in["b2"], in["labels"]);
}

Tensor BatchNorm(const In& in) {
  const Tensor mean = Mean(in["x"], 0);
  const Tensor variance = Mean(Square(in["x"] - mean), 0);
  return Sum(Tanh((in["x"] - mean) * Pow(variance + 1e-3, -0.5) * in["w"] + in["b"]));
}

Tensor Attention(const In& in) {
  const Tensor scores = Matmul(in["q"], Transpose(in["k"])) * (1 / std::sqrt(3.0));
  return Sum(Sin(Matmul(Softmax(scores, -1), in["v"])));
}

Tensor Activations(const In& in) {
  const Tensor x = in["x"];
  return Sum((Gelu(x) + x * Sigmoid(x) + Tanh(x) + Cos(x) + Log(Exp(x) + 1)) * in["w"]);
}

Tensor Recurrent(const In& in) {
  Tensor h = in["x"].graph()->Zeros({4}, v1::FLOAT64);
  for (int64_t step = 0; step < 5; ++step) {
    const Tensor x = Reshape(Slice(in["x"], 0, step, step + 1), {3});
    h = Tanh(Matmul(x, in["wx"]) + Matmul(h, in["wh"]) + in["b"]);
  }
  return Sum(Square(h));
}

Tensor Reductions(const In& in) {
  const Tensor x = in["x"];
  return Sum(Prod(x, 0)) + Sum(Max(x, 1) * Min(x, 1)) + Sum(Var(x, 0, false, 0)) + Sum(Square(CumSum(x, 1))) +
         Sum(Abs(x)) + Sum(Pow(Abs(x), 1.7));
}

// The gradient by w of a small net's loss, weighted with v: put into the model as a
// graph, and there differentiated again.
Tensor Curvature(const In& in) {
  Graph inner;
  const Tensor x = inner.Param(0, v1::FLOAT64, in["x"].shape(), "x");
  const Tensor w = inner.Param(1, v1::FLOAT64, in["w"].shape(), "w");
  inner.Output(Sum(Square(Tanh(Matmul(x, w)))));
  v1::GradientRequest request;
  *request.mutable_graph() = *inner.Build();
  request.add_wrt_slot(1);
  const auto gradient = compiler::Gradient(request, compiler::Limits());
  if (!gradient.ok()) return in["x"].graph()->Fail(gradient.status());
  return Sum(in["x"].graph()->Append(*gradient).at(0) * in["v"]);
}

using Model = Tensor (*)(const In&);
const std::pair<const char*, Model> kModels[] = {
    {"mlp", Mlp},
    {"layer_norm", [](const In& in) { return Sum(Sin(LayerNorm(in["x"], in["w"], in["b"]))); }},
    {"batch_norm", BatchNorm},
    {"convolution",
     [](const In& in) { return Sum(Tanh(Conv2d(in["x"], in["w"], in["b"], {.stride = {2, 1}, .padding = {1, 1}}))); }},
    {"max_pool", [](const In& in) { return Sum(Square(MaxPool2d(in["x"])) * in["w"]); }},
    {"attention", Attention},
    {"activations", Activations},
    {"embedding", [](const In& in) { return Sum(Tanh(Embedding(in["table"], in["ids"])) * in["w"]); }},
    {"recurrent", Recurrent},
    {"reductions", Reductions},
    {"gathered", [](const In& in) { return Sum(Pow(Flip(Index(in["x"], {in["ids"]}), {1}), 3) * in["w"]); }},
    {"curvature", Curvature},
};

compiler::HostTensor AsHostTensor(const e2e::ReferenceTensor& tensor) {
  compiler::HostTensor host{compiler::FromWire(tensor.dtype), {tensor.shape.begin(), tensor.shape.end()}, ""};
  for (const double value : tensor.values) {
    const auto integer = static_cast<int32_t>(value);
    const bool real = tensor.dtype == v1::FLOAT64;
    host.bytes.append(real ? reinterpret_cast<const char*>(&value) : reinterpret_cast<const char*>(&integer),
                      real ? 8 : 4);
  }
  return host;
}

void ExpectNear(const compiler::HostTensor& actual, const e2e::ReferenceTensor& expected, const std::string& what) {
  ASSERT_EQ(actual.bytes.size(), 8 * expected.values.size()) << what;
  EXPECT_EQ(Shape(actual.shape.begin(), actual.shape.end()), expected.shape) << what;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    double value;
    std::memcpy(&value, actual.bytes.data() + 8 * i, 8);
    EXPECT_NEAR(value, expected.values[i], 1e-11 * std::max(1.0, std::abs(expected.values[i])))
        << what << "[" << i << "]";
  }
}

class Autograd : public ::testing::TestWithParam<std::pair<const char*, Model>> {
 protected:
  // Makes the model's graph and takes its numbers.
  void SetUp() override {
    for (const auto& [name, tensor] : reference_.inputs) {
      if (!absl::StartsWith(name, Prefix())) continue;
      const std::string input = name.substr(Prefix().size());
      const auto slot = static_cast<uint32_t>(arguments_.size());
      in_.Add(input, graph_.Param(slot, tensor.dtype, tensor.shape, input));
      arguments_[slot] = AsHostTensor(tensor);
      if (tensor.dtype != v1::FLOAT64) continue;
      floats_.push_back(input);
      slots_.push_back(slot);
    }
    graph_.Output(GetParam().second(in_));
    const auto message = graph_.Build();
    ASSERT_TRUE(message.ok()) << message.status();
    *request_.mutable_graph() = *message;
  }

  std::string Prefix() const { return absl::StrCat(GetParam().first, "."); }

  // The results named, on both engines, as the reference has them.
  void Check(const v1::Graph& program, const std::vector<std::string>& names) {
    const auto interpreted = RunInterpreted(program, arguments_);
    ASSERT_TRUE(interpreted.ok()) << interpreted.status();
    const auto compiled = CpuEngine().Run(program, arguments_, compiler::Options());
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    ASSERT_EQ(interpreted->results.size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const e2e::ReferenceTensor& expected = reference_.expect.at(Prefix() + names[i]);
      ExpectNear(interpreted->results[i], expected, names[i]);
      ExpectNear(compiled->results[i], expected, "compiled " + names[i]);
    }
  }

  const e2e::Reference reference_ = e2e::ReadReference("tests/gradient/autograd_reference.txt");
  Graph graph_;
  In in_;
  HostTensors arguments_;
  std::vector<std::string> floats_;
  std::vector<uint32_t> slots_;
  v1::GradientRequest request_;
};

TEST_P(Autograd, AgreesWithTheGradient) {
  request_.mutable_wrt_slot()->Add(slots_.begin(), slots_.end());
  request_.set_include_results(true);
  const auto gradient = compiler::Gradient(request_, compiler::Limits());
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  std::vector<std::string> names = {"loss"};
  names.insert(names.end(), floats_.begin(), floats_.end());
  Check(gradient->graph(), names);
}

INSTANTIATE_TEST_SUITE_P(Models, Autograd, ::testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace kiln::testing
