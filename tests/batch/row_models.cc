// Tested by tests/batch/models_test.cc.
#include "tests/batch/row_models.h"

#include <gtest/gtest.h>

namespace kiln::testing {
namespace {

using client::Tensor;

Tensor Arange(RowMaker& m, int64_t count, v1::DType dtype = v1::INT32) { return m.graph.Arange(count, dtype); }

const RowModel kModels[] = {
    {"two layers",
     [](RowMaker& m) {
       const Tensor h = client::Relu(client::Linear(m.Param({m.batch, 16}), m.Param({32, 16}), m.Param({32})));
       m.Output(client::Linear(h, m.Param({10, 32}), m.Param({10})));
     }},
    {"wider layers",
     [](RowMaker& m) {
       const Tensor h = client::Gelu(client::Linear(m.Param({m.batch, 300}), m.Param({256, 300}), m.Param({256})));
       m.Output(client::Softmax(client::Linear(h, m.Param({70, 256}), m.Param({70})), -1));
     }},
    {"softmax of features", [](RowMaker& m) { m.Output(client::Softmax(m.Param({m.batch, 33}), -1)); }},
    {"the greatest feature", [](RowMaker& m) { m.Output(client::ArgMax(m.Param({m.batch, 33}), -1)); }},
    {"layer norm",
     [](RowMaker& m) { m.Output(client::LayerNorm(m.Param({m.batch, 48}), m.Param({48}), m.Param({48}))); }},
    {"convolution",
     [](RowMaker& m) {
       client::ConvOptions options;
       options.padding = {1, 1};
       options.stride = {2, 1};
       const Tensor y = client::Conv2d(m.Param({m.batch, 3, 9, 8}), m.Param({4, 3, 3, 3}), m.Param({4}), options);
       m.Output(client::MaxPool2d(client::Relu(y)));
     }},
    {"attention within a row",
     [](RowMaker& m) {
       const auto heads = [&](Tensor x) {
         return client::Permute(client::Reshape(x, {m.batch, 6, 2, 4}), {0, 2, 1, 3});
       };
       const Tensor x = m.Param({m.batch, 6, 8});
       const Tensor q = heads(client::Linear(x, m.Param({8, 8}))), k = heads(client::Linear(x, m.Param({8, 8})));
       const Tensor v = heads(client::Linear(x, m.Param({8, 8})));
       const Tensor mask = client::Reshape(Arange(m, 6), {6, 1}) >= client::Reshape(Arange(m, 6), {1, 6});
       const Tensor scores = client::Where(mask, client::Matmul(q, client::Transpose(k)) * 0.5, -1e9);
       const Tensor y = client::Matmul(client::Softmax(scores, -1), v);
       m.Output(client::Reshape(client::Permute(y, {0, 2, 1, 3}), {m.batch, 6, 8}));
     }},
    {"attention over tokens of another variable",
     [](RowMaker& m) {
       const Tensor x = m.Param({m.batch, m.tokens, 8});
       m.Output(client::Matmul(client::Softmax(client::Matmul(x, client::Transpose(x)), -1), x));
     }},
    {"rows and tokens in one axis",
     [](RowMaker& m) {
       const Tensor x = client::Reshape(m.Param({m.batch, 6, 8}), {m.batch * 6, 8});
       m.Output(client::Reshape(client::Gelu(client::Linear(x, m.Param({12, 8}))), {m.batch, 6, 12}));
     }},
    {"rows and tokens of a variable in one axis, with places",
     [](RowMaker& m) {
       const Tensor x = m.Param({m.batch, m.tokens, 8}) + m.Param({m.tokens, 8});
       m.Output(client::Linear(client::Reshape(x, {m.batch * m.tokens, 8}), m.Param({5, 8})));
     }},
    {"embedding",
     [](RowMaker& m) { m.Output(client::Embedding(m.Param({100, 8}), m.Param({m.batch, 7}, v1::INT32))); }},
    {"embedding by 64 bits",
     [](RowMaker& m) { m.Output(client::Embedding(m.Param({100, 8}), m.Param({m.batch}, v1::INT64))); }},
    {"gather within a row",
     [](RowMaker& m) { m.Output(client::Gather(m.Param({m.batch, 9}), 1, m.Param({m.batch, 3}, v1::INT32))); }},
    {"a mask by each row's length",
     [](RowMaker& m) {
       const Tensor lengths = client::Reshape(m.Param({m.batch}, v1::INT32), {m.batch, 1});
       m.Output(client::Softmax(client::Where(Arange(m, 12) < lengths, m.Param({m.batch, 12}), -1e9), -1));
     }},
    {"columns in another order",
     [](RowMaker& m) { m.Output(client::Permute(m.Param({m.batch, 3, 5}), {0, 2, 1}) + 0.0); }},
    {"columns backward and one on",
     [](RowMaker& m) {
       const Tensor x = client::Flip(m.Param({m.batch, 8}), {1});
       m.Output(client::Concat({client::Slice(x, 1, 1, 8), client::Slice(x, 1, 0, 1)}, 1));
     }},
    {"a running sum along a row", [](RowMaker& m) { m.Output(client::CumSum(m.Param({m.batch, 20}), 1)); }},
    {"a large reduction of a row", [](RowMaker& m) { m.Output(client::Sum(m.Param({m.batch, 40, 5000}), {1, 2})); }},
    {"bytes of a row", [](RowMaker& m) { m.Output(client::Bitcast(m.Param({m.batch, 3}), v1::UINT8)); }},
    {"another copy of weights",
     [](RowMaker& m) {
       m.Output(m.Param({m.batch, 2}) * 2.0);
       m.Output(m.Param({4}) * 2.0);
     }},
    {"two rows to one",
     [](RowMaker& m) { m.Output(client::Sum(client::Reshape(m.Param({m.batch * 2, 4}), {m.batch, 2, 4}), {1})); }},
};

}  // namespace

v1::Graph GraphOf(const RowModel& model) {
  RowMaker maker;
  model.make(maker);
  const auto graph = maker.graph.Build();
  EXPECT_TRUE(graph.ok()) << model.name << ": " << graph.status();
  return graph.ok() ? *graph : v1::Graph();
}

absl::Span<const RowModel> RowModels() { return kModels; }

}  // namespace kiln::testing
