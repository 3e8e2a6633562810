// Models as clients build them, and whether requests of strangers may be run as one: what must be allowed,
// and what must be denied, with the reason.
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "client/cpp/ops.h"
#include "tests/batch/row_models.h"
#include "tests/batch/scheduled.h"

namespace kiln::testing {
namespace {

using client::Tensor;

compiler::Batching BatchingOf(const RowModel& model) { return Scheduled(GraphOf(model)).BatchingOf(kBatch); }

Tensor Arange(RowMaker& m, int64_t count, v1::DType dtype = v1::INT32) { return m.graph.Arange(count, dtype); }

constexpr char kReduces[] = "a reduction runs over rows";
constexpr char kShape[] = "a shape whose first size is not a multiple of the batch size, or another depends on it";
constexpr char kOther[] = "a row reads elements of another";
constexpr char kSize[] = "a value depends on the batch size";
constexpr char kLeaves[] = "an index may leave its row";
constexpr char kShared[] = "what all rows share is read at the row's number";
constexpr char kRow[] = "a value depends on the row's number";

const RowModel kDenied[] = {
    {"mean over rows", [](RowMaker& m) { m.Output(client::Sum(m.Param({m.batch, 4}), {0}) * 0.5); }, kReduces},
    {"greatest of all rows", [](RowMaker& m) { m.Output(client::Max(m.Param({m.batch, 4}), {0})); }, kReduces},
    {"sum of everything", [](RowMaker& m) { m.Output(client::Sum(m.Param({m.batch, 4}))); }, kReduces},
    {"sum over rows in one axis with tokens",
     [](RowMaker& m) { m.Output(client::Sum(client::Reshape(m.Param({m.batch, 6}), {m.batch * 6}))); }, kReduces},
    {"batch norm",
     [](RowMaker& m) {
       const Tensor x = m.Param({m.batch, 4});
       const Tensor centred = x - client::Sum(x, {0}, true) * 0.25;
       m.Output(centred * client::Rsqrt(client::Sum(client::Square(centred), {0}, true) + 1e-5));
     },
     kReduces},
    {"softmax over rows", [](RowMaker& m) { m.Output(client::Softmax(m.Param({m.batch, 4}), 0)); }, kReduces},
    {"a loss",
     [](RowMaker& m) {
       m.Output(client::Sum(client::LogSoftmax(m.Param({m.batch, 4}), -1) *
                            client::OneHot(m.Param({m.batch}, v1::INT32), 4, v1::FLOAT32)));
     },
     kReduces},
    {"rows not in front", [](RowMaker& m) { m.Output(client::Permute(m.Param({m.batch, 4}), {1, 0}) * 2.0); }, kShape},
    {"rows not in front, inside",
     [](RowMaker& m) {
       const Tensor t = client::Permute(m.Param({m.batch, 4}), {1, 0});
       m.Output(client::Reshape(client::Matmul(m.Param({4, 4}), t), {m.batch, 4}));
     },
     ""},
    {"backward", [](RowMaker& m) { m.Output(client::Flip(m.Param({m.batch, 4}), {0})); }, kOther},
    {"without the first", [](RowMaker& m) { m.Output(client::Slice(m.Param({m.batch, 4}), 0, 1, m.batch)); }, ""},
    {"the first two", [](RowMaker& m) { m.Output(client::Index(m.Param({m.batch, 4}), {Arange(m, 2)})); },
     "what has no rows is made of rows"},
    {"one on",
     [](RowMaker& m) {
       const Tensor x = client::Pad(m.Param({m.batch, 4}), {{1, 0}, {0, 0}});
       m.Output(client::Shrink(x, {{0, m.batch}, {0, 4}}));
     },
     kLeaves},
    {"one more", [](RowMaker& m) { m.Output(client::Pad(m.Param({m.batch, 4}), {{0, 1}, {0, 0}})); }, kShape},
    {"numbered",
     [](RowMaker& m) {
       m.Output(m.Param({m.batch, 4}) + client::Reshape(m.graph.Arange(m.batch, v1::FLOAT32), {m.batch, 1}));
     },
     kShared},
    {"random by place",
     [](RowMaker& m) {
       const Tensor places = client::Reshape(m.graph.Arange(m.batch * 4, v1::INT32), {m.batch, 4});
       m.Output(m.Param({m.batch, 4}) * client::Cast(places * 1664525 & 255, v1::FLOAT32));
     },
     kRow},
    {"a table by place",
     [](RowMaker& m) { m.Output(m.Param({m.batch, 4}) + client::Shrink(m.Param({64, 4}), {{0, m.batch}, {0, 4}})); },
     kShared},
    {"products of rows with rows",
     [](RowMaker& m) {
       const Tensor x = m.Param({m.batch, 4});
       m.Output(client::Matmul(x, client::Permute(x, {1, 0})));
     },
     kShape},
    {"attention over rows",
     [](RowMaker& m) {
       const Tensor x = m.Param({m.batch, 4});
       m.Output(client::Matmul(client::Matmul(x, client::Permute(x, {1, 0})), x));
     },
     kShape},
    {"products of columns",
     [](RowMaker& m) {
       const Tensor x = m.Param({m.batch, 4});
       m.Output(client::Matmul(client::Permute(x, {1, 0}), x));
     },
     kReduces},
    {"divided by how many", [](RowMaker& m) { m.Output(m.Param({m.batch, 4}) / m.graph.Number(m.batch, v1::FLOAT32)); },
     kSize},
    {"how many", [](RowMaker& m) { m.Output(m.graph.Number(m.batch, v1::FLOAT32)); }, kSize},
    {"an update in place",
     [](RowMaker& m) {
       const Tensor w = m.Param({4});
       m.Output(m.Param({m.batch, 4}) + w);
       m.graph.Update(w, w * 0.5);
     },
     "an update in place"},
    {"rows updated in place",
     [](RowMaker& m) {
       const Tensor x = m.Param({m.batch, 4});
       m.graph.Update(x, x * 0.5);
     },
     "an update in place"},
    {"rows by number",
     [](RowMaker& m) { m.Output(client::IndexSelect(m.Param({m.batch, 4}), 0, m.Param({m.batch}, v1::INT32))); },
     kOther},
    {"rows by number, flat",
     [](RowMaker& m) {
       const Tensor flat = client::Reshape(m.Param({m.batch, 4}), {m.batch * 4});
       m.Output(client::IndexSelect(flat, 0, m.Param({m.batch}, v1::INT32)));
     },
     kOther},
    {"sizes that mix",
     [](RowMaker& m) { m.Output(client::Reshape(m.Param({m.batch, m.tokens}), {m.tokens, m.batch}) * 2.0); }, kShape},
    {"sizes that mix inside",
     [](RowMaker& m) {
       const Tensor x = client::Reshape(m.Param({m.batch, m.tokens}), {m.tokens, m.batch});
       m.Output(client::Reshape(client::Softmax(x, 1), {m.batch, m.tokens}));
     },
     ""},
    {"a square of rows", [](RowMaker& m) { m.Output(m.Param({m.batch, m.batch}) * 2.0); }, kShape},
    {"rows plus tokens", [](RowMaker& m) { m.Output(m.Param({m.batch + m.tokens, 2}) * 2.0); }, kShape},
    {"the row before, flat",
     [](RowMaker& m) {
       const Tensor flat = client::Reshape(m.Param({m.batch, 4}), {m.batch * 4});
       const Tensor moved = client::Shrink(client::Pad(flat, {{0, 1}}), {{1, m.batch * 4 + 1}});
       m.Output(client::Reshape(moved, {m.batch, 4}));
     },
     kLeaves},
};

TEST(BatchedModels, WhatWorksRowByRowIsAllowed) {
  for (const RowModel& model : RowModels()) {
    const compiler::Batching batching = BatchingOf(model);
    EXPECT_EQ(batching.obstacle, "") << model.name;
    bool varies = false;
    for (const auto& parameter : batching.parameters) varies |= parameter.varying;
    EXPECT_TRUE(varies) << model.name;
  }
}

TEST(BatchedModels, WhatMixesRowsIsDenied) {
  for (const RowModel& model : kDenied) {
    const compiler::Batching batching = BatchingOf(model);
    EXPECT_NE(batching.obstacle, "") << model.name;
    EXPECT_TRUE(absl::EndsWith(batching.obstacle, model.reason)) << model.name << ": " << batching.obstacle;
    EXPECT_TRUE(batching.parameters.empty()) << model.name;
  }
}

TEST(BatchedModels, TheSummaryNamesWhatVaries) {
  const compiler::Batching batching = BatchingOf(RowModels()[0]);
  EXPECT_EQ(batching.slot, kBatch);
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
