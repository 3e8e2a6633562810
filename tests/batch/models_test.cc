// Models as clients build them, and whether requests of strangers may be run as one: what must be allowed,
// and what must be denied, with the reason.
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/match.h"
#include "client/cpp/ops.h"
#include "tests/batch/scheduled.h"

namespace kiln::testing {
namespace {

using client::Size;
using client::Sizes;
using client::Tensor;

// A graph with the variable "batch", from 1 to 64.
struct Maker {
  client::Graph graph;
  Size batch = graph.Variable(20, 1, 64, "batch");
  Size tokens = graph.Variable(21, 1, 32, "tokens");
  uint32_t slot = 0;

  Tensor Param(const Sizes& shape, v1::DType dtype = v1::FLOAT32) { return graph.Param(slot++, dtype, shape); }
  void Output(Tensor x) { graph.Output(x); }
};

struct Model {
  const char* name;
  std::function<void(Maker&)> make;
  const char* reason = "";  // with which it is denied
};

compiler::Batching BatchingOf(const Model& model) {
  Maker maker;
  model.make(maker);
  const auto graph = maker.graph.Build();
  EXPECT_TRUE(graph.ok()) << model.name << ": " << graph.status();
  if (!graph.ok()) return {};
  return Scheduled(*graph).BatchingOf(20);
}

Tensor Arange(Maker& m, int64_t count, v1::DType dtype = v1::INT32) { return m.graph.Arange(count, dtype); }

const Model kAllowed[] = {
    {"two layers",
     [](Maker& m) {
       const Tensor h = client::Relu(client::Linear(m.Param({m.batch, 16}), m.Param({32, 16}), m.Param({32})));
       m.Output(client::Linear(h, m.Param({10, 32}), m.Param({10})));
     }},
    {"softmax of features", [](Maker& m) { m.Output(client::Softmax(m.Param({m.batch, 33}), -1)); }},
    {"the greatest feature", [](Maker& m) { m.Output(client::ArgMax(m.Param({m.batch, 33}), -1)); }},
    {"layer norm", [](Maker& m) { m.Output(client::LayerNorm(m.Param({m.batch, 48}), m.Param({48}), m.Param({48}))); }},
    {"convolution",
     [](Maker& m) {
       client::ConvOptions options;
       options.padding = {1, 1};
       options.stride = {2, 1};
       const Tensor y = client::Conv2d(m.Param({m.batch, 3, 9, 8}), m.Param({4, 3, 3, 3}), m.Param({4}), options);
       m.Output(client::MaxPool2d(client::Relu(y)));
     }},
    {"attention within a row",
     [](Maker& m) {
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
     [](Maker& m) {
       const Tensor x = m.Param({m.batch, m.tokens, 8});
       m.Output(client::Matmul(client::Softmax(client::Matmul(x, client::Transpose(x)), -1), x));
     }},
    {"rows and tokens in one axis",
     [](Maker& m) {
       const Tensor x = client::Reshape(m.Param({m.batch, 6, 8}), {m.batch * 6, 8});
       m.Output(client::Reshape(client::Gelu(client::Linear(x, m.Param({12, 8}))), {m.batch, 6, 12}));
     }},
    {"rows and tokens of a variable in one axis, with places",
     [](Maker& m) {
       const Tensor x = m.Param({m.batch, m.tokens, 8}) + m.Param({m.tokens, 8});
       m.Output(client::Linear(client::Reshape(x, {m.batch * m.tokens, 8}), m.Param({5, 8})));
     }},
    {"embedding", [](Maker& m) { m.Output(client::Embedding(m.Param({100, 8}), m.Param({m.batch, 7}, v1::INT32))); }},
    {"embedding by 64 bits",
     [](Maker& m) { m.Output(client::Embedding(m.Param({100, 8}), m.Param({m.batch}, v1::INT64))); }},
    {"gather within a row",
     [](Maker& m) { m.Output(client::Gather(m.Param({m.batch, 9}), 1, m.Param({m.batch, 3}, v1::INT32))); }},
    {"a mask by each row's length",
     [](Maker& m) {
       const Tensor lengths = client::Reshape(m.Param({m.batch}, v1::INT32), {m.batch, 1});
       m.Output(client::Softmax(client::Where(Arange(m, 12) < lengths, m.Param({m.batch, 12}), -1e9), -1));
     }},
    {"columns in another order",
     [](Maker& m) { m.Output(client::Permute(m.Param({m.batch, 3, 5}), {0, 2, 1}) + 0.0); }},
    {"columns backward and one on",
     [](Maker& m) {
       const Tensor x = client::Flip(m.Param({m.batch, 8}), {1});
       m.Output(client::Concat({client::Slice(x, 1, 1, 8), client::Slice(x, 1, 0, 1)}, 1));
     }},
    {"a running sum along a row", [](Maker& m) { m.Output(client::CumSum(m.Param({m.batch, 20}), 1)); }},
    {"a large reduction of a row", [](Maker& m) { m.Output(client::Sum(m.Param({m.batch, 40, 5000}), {1, 2})); }},
    {"bytes of a row", [](Maker& m) { m.Output(client::Bitcast(m.Param({m.batch, 3}), v1::UINT8)); }},
    {"another copy of weights",
     [](Maker& m) {
       m.Output(m.Param({m.batch, 2}) * 2.0);
       m.Output(m.Param({4}) * 2.0);
     }},
    {"two rows to one",
     [](Maker& m) { m.Output(client::Sum(client::Reshape(m.Param({m.batch * 2, 4}), {m.batch, 2, 4}), {1})); }},
};

constexpr char kReduces[] = "a reduction runs over rows";
constexpr char kShape[] = "a shape whose first size is not a multiple of the batch size, or another depends on it";
constexpr char kOther[] = "a row reads elements of another";
constexpr char kSize[] = "a value depends on the batch size";
constexpr char kLeaves[] = "an index may leave its row";
constexpr char kShared[] = "what all rows share is read at the row's number";
constexpr char kRow[] = "a value depends on the row's number";

const Model kDenied[] = {
    {"mean over rows", [](Maker& m) { m.Output(client::Sum(m.Param({m.batch, 4}), {0}) * 0.5); }, kReduces},
    {"greatest of all rows", [](Maker& m) { m.Output(client::Max(m.Param({m.batch, 4}), {0})); }, kReduces},
    {"sum of everything", [](Maker& m) { m.Output(client::Sum(m.Param({m.batch, 4}))); }, kReduces},
    {"sum over rows in one axis with tokens",
     [](Maker& m) { m.Output(client::Sum(client::Reshape(m.Param({m.batch, 6}), {m.batch * 6}))); }, kReduces},
    {"batch norm",
     [](Maker& m) {
       const Tensor x = m.Param({m.batch, 4});
       const Tensor centred = x - client::Sum(x, {0}, true) * 0.25;
       m.Output(centred * client::Rsqrt(client::Sum(client::Square(centred), {0}, true) + 1e-5));
     },
     kReduces},
    {"softmax over rows", [](Maker& m) { m.Output(client::Softmax(m.Param({m.batch, 4}), 0)); }, kReduces},
    {"a loss",
     [](Maker& m) {
       m.Output(client::Sum(client::LogSoftmax(m.Param({m.batch, 4}), -1) *
                            client::OneHot(m.Param({m.batch}, v1::INT32), 4, v1::FLOAT32)));
     },
     kReduces},
    {"rows not in front", [](Maker& m) { m.Output(client::Permute(m.Param({m.batch, 4}), {1, 0}) * 2.0); }, kShape},
    {"rows not in front, inside",
     [](Maker& m) {
       const Tensor t = client::Permute(m.Param({m.batch, 4}), {1, 0});
       m.Output(client::Reshape(client::Matmul(m.Param({4, 4}), t), {m.batch, 4}));
     },
     ""},
    {"backward", [](Maker& m) { m.Output(client::Flip(m.Param({m.batch, 4}), {0})); }, kOther},
    {"without the first", [](Maker& m) { m.Output(client::Slice(m.Param({m.batch, 4}), 0, 1, m.batch)); }, ""},
    {"the first two", [](Maker& m) { m.Output(client::Index(m.Param({m.batch, 4}), {Arange(m, 2)})); },
     "what has no rows is made of rows"},
    {"one on",
     [](Maker& m) {
       const Tensor x = client::Pad(m.Param({m.batch, 4}), {{1, 0}, {0, 0}});
       m.Output(client::Shrink(x, {{0, m.batch}, {0, 4}}));
     },
     kLeaves},
    {"one more", [](Maker& m) { m.Output(client::Pad(m.Param({m.batch, 4}), {{0, 1}, {0, 0}})); }, kShape},
    {"numbered",
     [](Maker& m) {
       m.Output(m.Param({m.batch, 4}) + client::Reshape(m.graph.Arange(m.batch, v1::FLOAT32), {m.batch, 1}));
     },
     kShared},
    {"random by place",
     [](Maker& m) {
       const Tensor places = client::Reshape(m.graph.Arange(m.batch * 4, v1::INT32), {m.batch, 4});
       m.Output(m.Param({m.batch, 4}) * client::Cast(places * 1664525 & 255, v1::FLOAT32));
     },
     kRow},
    {"a table by place",
     [](Maker& m) { m.Output(m.Param({m.batch, 4}) + client::Shrink(m.Param({64, 4}), {{0, m.batch}, {0, 4}})); },
     kShared},
    {"products of rows with rows",
     [](Maker& m) {
       const Tensor x = m.Param({m.batch, 4});
       m.Output(client::Matmul(x, client::Permute(x, {1, 0})));
     },
     kShape},
    {"attention over rows",
     [](Maker& m) {
       const Tensor x = m.Param({m.batch, 4});
       m.Output(client::Matmul(client::Matmul(x, client::Permute(x, {1, 0})), x));
     },
     kShape},
    {"products of columns",
     [](Maker& m) {
       const Tensor x = m.Param({m.batch, 4});
       m.Output(client::Matmul(client::Permute(x, {1, 0}), x));
     },
     kReduces},
    {"divided by how many", [](Maker& m) { m.Output(m.Param({m.batch, 4}) / m.graph.Number(m.batch, v1::FLOAT32)); },
     kSize},
    {"how many", [](Maker& m) { m.Output(m.graph.Number(m.batch, v1::FLOAT32)); }, kSize},
    {"an update in place",
     [](Maker& m) {
       const Tensor w = m.Param({4});
       m.Output(m.Param({m.batch, 4}) + w);
       m.graph.Update(w, w * 0.5);
     },
     "an update in place"},
    {"rows updated in place",
     [](Maker& m) {
       const Tensor x = m.Param({m.batch, 4});
       m.graph.Update(x, x * 0.5);
     },
     "an update in place"},
    {"rows by number",
     [](Maker& m) { m.Output(client::IndexSelect(m.Param({m.batch, 4}), 0, m.Param({m.batch}, v1::INT32))); }, kOther},
    {"rows by number, flat",
     [](Maker& m) {
       const Tensor flat = client::Reshape(m.Param({m.batch, 4}), {m.batch * 4});
       m.Output(client::IndexSelect(flat, 0, m.Param({m.batch}, v1::INT32)));
     },
     kOther},
    {"sizes that mix",
     [](Maker& m) { m.Output(client::Reshape(m.Param({m.batch, m.tokens}), {m.tokens, m.batch}) * 2.0); }, kShape},
    {"sizes that mix inside",
     [](Maker& m) {
       const Tensor x = client::Reshape(m.Param({m.batch, m.tokens}), {m.tokens, m.batch});
       m.Output(client::Reshape(client::Softmax(x, 1), {m.batch, m.tokens}));
     },
     ""},
    {"a square of rows", [](Maker& m) { m.Output(m.Param({m.batch, m.batch}) * 2.0); }, kShape},
    {"rows plus tokens", [](Maker& m) { m.Output(m.Param({m.batch + m.tokens, 2}) * 2.0); }, kShape},
    {"the row before, flat",
     [](Maker& m) {
       const Tensor flat = client::Reshape(m.Param({m.batch, 4}), {m.batch * 4});
       const Tensor moved = client::Shrink(client::Pad(flat, {{0, 1}}), {{1, m.batch * 4 + 1}});
       m.Output(client::Reshape(moved, {m.batch, 4}));
     },
     kLeaves},
};

TEST(BatchedModels, WhatWorksRowByRowIsAllowed) {
  for (const Model& model : kAllowed) {
    const compiler::Batching batching = BatchingOf(model);
    EXPECT_EQ(batching.obstacle, "") << model.name;
    bool varies = false;
    for (const auto& parameter : batching.parameters) varies |= parameter.varying;
    EXPECT_TRUE(varies) << model.name;
  }
}

TEST(BatchedModels, WhatMixesRowsIsDenied) {
  for (const Model& model : kDenied) {
    const compiler::Batching batching = BatchingOf(model);
    EXPECT_NE(batching.obstacle, "") << model.name;
    EXPECT_TRUE(absl::EndsWith(batching.obstacle, model.reason)) << model.name << ": " << batching.obstacle;
    EXPECT_TRUE(batching.parameters.empty()) << model.name;
  }
}

TEST(BatchedModels, TheSummaryNamesWhatVaries) {
  const compiler::Batching batching = BatchingOf(kAllowed[0]);
  EXPECT_EQ(batching.slot, 20u);
  ASSERT_EQ(batching.parameters.size(), 5u);
  EXPECT_TRUE(batching.parameters[0].varying);
  EXPECT_EQ(batching.parameters[0].rows, "batch");
  EXPECT_EQ(batching.parameters[1].name, "slot 1");
  EXPECT_FALSE(batching.parameters[1].varying);
  ASSERT_EQ(batching.results.size(), 1u);
  EXPECT_TRUE(batching.results[0].varying);
}

TEST(BatchedModels, NoVariableNoAnswer) {
  client::Graph graph;
  graph.Output(graph.Param(0, v1::FLOAT32, {4}) * 2.0);
  EXPECT_TRUE(Scheduled(*graph.Build()).lowering.batching.empty());
}

TEST(Batching, LooksAtSomeVariablesAndNotAtAny) {
  client::Graph graph;
  constexpr uint32_t kFirst = 100;
  for (uint32_t i = 0; i <= compiler::kMaxBatchVariables; ++i)
    graph.Output(graph.Param(i, v1::FLOAT32, {graph.Variable(kFirst + i, 1, 4), 3}) * 2);
  const auto built = graph.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  const Scheduled scheduled(*built);
  for (uint32_t i = 0; i < compiler::kMaxBatchVariables; ++i)
    EXPECT_EQ(scheduled.BatchingOf(kFirst + i).obstacle, "") << i;
  EXPECT_EQ(scheduled.BatchingOf(kFirst + compiler::kMaxBatchVariables).obstacle, "not looked at: 8 variables are");
}

}  // namespace
}  // namespace kiln::testing
