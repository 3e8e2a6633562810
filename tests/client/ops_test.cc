// Every function of the C++ graph builder, computed by a server and compared with
// NumPy (ops_reference.py).
#include "client/cpp/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/cli/text/tensor_text.h"
#include "client/cpp/client.h"
#include "tests/client/reference.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

using namespace client;  // NOLINT: the builder's functions read best without a prefix.

struct Inputs {
  Tensor x, w, wg, b, a, m, v, ids, i, u, g;
};

std::vector<std::pair<std::string, Tensor>> Cases(Graph& graph, const Inputs& in) {
  const auto& [x, w, wg, b, a, m, v, ids, i, u, g] = in;
  const Tensor z = Reshape(Slice(a, 0, 0, 1), {4, 5});
  return {
      {"conv", Conv2d(x, w, b)},
      {"conv_strided", Conv2d(x, w, b, {.stride = {2, 3}, .padding = {1, 2}, .dilation = {2, 1}})},
      {"conv_grouped", Conv2d(x, wg, Tensor(), {.stride = {3, 2}, .padding = {0, 1}, .groups = 3})},
      {"max_pool", MaxPool2d(x)},
      {"max_pool_padded", MaxPool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}})},
      {"avg_pool", AvgPool2d(x, {.kernel = {3, 2}})},
      {"windows_far_apart", SlidingWindow(x, 3, {.size = 2, .stride = 4})},
      {"matmul", Matmul(a, m)},
      {"matvec", Matmul(a, v)},
      {"vecmat", Matmul(v, m)},
      {"dot", Matmul(v, v)},
      {"batched", Matmul(a, Transpose(a))},
      {"linear", Linear(a, Transpose(m))},
      {"softmax", Softmax(a, 1)},
      {"log_softmax", LogSoftmax(a, -1)},
      {"cross_entropy", CrossEntropy(z, ids)},
      {"layer_norm", LayerNorm(a, v, v)},
      {"sum", Sum(a)},
      {"sum_keepdim", Sum(a, {0, -1}, true)},
      {"prod", Prod(a, 1)},
      {"max", Max(a, 0)},
      {"min", Min(a, 2)},
      {"min_signed", Min(i, 1)},
      {"min_unsigned", Min(u)},
      {"mean", Mean(a, 1)},
      {"var", Var(a, {1, 2})},
      {"argmax", ArgMax(a, 1)},
      {"argmin", ArgMin(i, 0)},
      {"argmax_unsigned", ArgMax(u, 0, true)},
      {"cumsum", CumSum(a, 1)},
      {"any", Any(i > 3, 1)},
      {"all", All(i > 3)},
      {"count", Sum(i > 3)},
      {"arange", graph.Arange(11)},
      {"arange_one", graph.Arange(1)},
      {"arange_double", graph.Arange(100, v1::FLOAT64)},
      {"arange_byte", graph.Arange(128, v1::INT8)},
      {"one_hot", OneHot(ids, 5, v1::FLOAT32)},
      {"embedding", Embedding(m, Reshape(ids, {2, 2}))},
      {"gather", Gather(a, 2, g)},
      {"index_select", IndexSelect(a, 2, ids)},
      {"index", Index(a, {graph.Constant(1, v1::INT32), graph.Constants({3, 0}, v1::INT32)})},
      {"concat", Concat({a, Slice(a, 1, 1, 3)}, 1)},
      {"stack", Stack({v, v * 2}, 1)},
      {"slice", Slice(a, 2, -4, 5, 2)},
      {"slice_uneven", Slice(a, 1, 0, 4, 3)},
      {"flip", Flip(a, {0, -1})},
      {"pad", Pad(z, {{1, 0}, {2, 3}}, -7)},
      {"repeat", Repeat(z, {2, 3})},
      {"permute", Permute(a, {2, 0, 1})},
      {"flatten", Flatten(a, 1)},
      {"broadcast", BroadcastTo(v, {3, 4, 5})},
      {"full", graph.Full({2, 2}, true, v1::BOOL)},
      {"exp", Exp(a)},
      {"log", Log(Abs(a))},
      {"cos", Cos(a)},
      {"sin", Sin(a)},
      {"rsqrt", Rsqrt(Abs(a))},
      {"tanh", Tanh(a)},
      {"erf", Erf(a)},
      {"sigmoid", Sigmoid(a)},
      {"gelu", Gelu(a)},
      {"relu", Relu(a)},
      {"abs", Abs(a)},
      {"sign", Sign(a)},
      {"sign_signed", Sign(i - 5)},
      {"sign_unsigned", Sign(u)},
      {"floor", Floor(a * 3)},
      {"ceil", Ceil(a * 3)},
      {"trunc", Trunc(a * 3)},
      {"clamp", Clamp(a, -0.5, 0.25)},
      {"clamp_signed", Clamp(i, 2, 7)},
      {"minimum", Minimum(a, v)},
      {"minimum_unsigned", Minimum(u, 3)},
      {"pow", Pow(Abs(a), 2.5)},
      {"mod", Mod(i - 5, 3)},
      {"floor_div", FloorDiv(i - 5, 3)},
      {"bits", ((i & 6) | 1) ^ 3},
      {"shifts", (i << 2) >> 1},
      {"logical_not", !(i > 3)},
      {"compare", a <= 0},
      {"compare_nan", (a - a) / (a - a) <= a},
      {"compare_with_nan", a >= (a - a) / (a - a)},
      {"compare_integers", i <= 3},
      {"where", Where(i > 3, i, 0)},
      {"bitcast", Bitcast(v, v1::UINT8)},
      {"rsub", 1 - a},
      {"rdiv", 1 / a},
      {"cast", Cast(a, v1::INT32)},
  };
}

// An input as the server gets it: float32, or integers of its dtype.
HostTensor AsHostTensor(const ReferenceTensor& tensor) {
  HostTensor host{tensor.dtype, tensor.shape, ""};
  for (const double value : tensor.values) {
    const float number = static_cast<float>(value);
    const int64_t integer = static_cast<int64_t>(value);
    const void* bytes = IsFloat(tensor.dtype) ? static_cast<const void*>(&number) : static_cast<const void*>(&integer);
    host.bytes.append(static_cast<const char*>(bytes), DTypeSize(tensor.dtype));
  }
  return host;
}

class OpsTest : public ServerTest {};

TEST_F(OpsTest, ComputeWhatNumpyComputes) {
  const Reference reference = ReadReference("tests/client/ops_reference.txt");
  Graph graph;
  Arguments arguments;
  std::map<std::string, Tensor> inputs;
  for (const auto& [name, tensor] : reference.inputs) {
    const uint32_t slot = static_cast<uint32_t>(inputs.size());
    inputs[name] = graph.Param(slot, tensor.dtype, tensor.shape, name);
    arguments.Set(slot, AsHostTensor(tensor));
  }
  const auto cases = Cases(graph, {inputs["x"], inputs["w"], inputs["wg"], inputs["b"], inputs["a"], inputs["m"],
                                   inputs["v"], inputs["ids"], inputs["i"], inputs["u"], inputs["g"]});
  EXPECT_EQ(cases.size(), reference.expect.size());
  for (const auto& [name, tensor] : cases) graph.Output(tensor);
  auto message = graph.Build();
  ASSERT_TRUE(message.ok()) << message.status();

  const auto client = Client::Connect(address());
  ASSERT_TRUE(client.ok()) << client.status();
  const auto program = (*client)->Compile(*std::move(message));
  ASSERT_TRUE(program.ok()) << program.status();
  const auto run = program->Run(arguments, {.results = v1::RESULT_INLINE});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->results.size(), cases.size());

  for (size_t c = 0; c < cases.size(); ++c) {
    const auto& [name, tensor] = cases[c];
    ASSERT_EQ(reference.expect.count(name), 1u) << name;
    const ReferenceTensor& expected = reference.expect.at(name);
    const HostTensor& actual = run->results[c].tensor;
    EXPECT_EQ(actual.shape, expected.shape) << name;
    EXPECT_EQ(actual.shape, tensor.shape()) << name;
    EXPECT_EQ(actual.dtype, tensor.dtype()) << name;
    const std::vector<double> values = cli::Elements(actual);
    ASSERT_EQ(values.size(), expected.values.size()) << name;
    for (size_t e = 0; e < values.size(); ++e) {
      EXPECT_NEAR(values[e], expected.values[e], 2e-6 + 2e-5 * std::abs(expected.values[e]))
          << name << " [" << e << "]";
    }
  }
}

}  // namespace
}  // namespace kiln::e2e
