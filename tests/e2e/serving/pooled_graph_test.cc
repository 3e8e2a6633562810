// Models with state as programs over pools: what is refused, and what the program reads and writes, by the interpreter.
#include "server/models/sequences/pooled_graph.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "client/cpp/elementwise.h"
#include "client/cpp/graph.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::e2e {
namespace {

using client::Size;
using client::Sizes;
using compiler::DType;

constexpr uint32_t kX = 0, kState = 1, kOld = 2, kBatch = 3;

// Of x and state [n, 2] and old [n]: y = x + state, which is the next state, too; and z = old, whose next is x's sign.
struct TheModel {
  client::Graph graph;
  Size n = graph.Variable(kBatch, 1, 4, "n");
  onnx::Model model;

  TheModel() {
    const client::Tensor x = graph.Param(kX, v1::FLOAT32, {n, 2}, "x");
    const client::Tensor state = graph.Param(kState, v1::FLOAT32, {n, 2}, "state");
    const client::Tensor old = graph.Param(kOld, v1::INT32, {n}, "old");
    const client::Tensor y = x + state;
    graph.Output(y);
    graph.Output(y);
    graph.Output(old);
    graph.Output(old + 1);
    model.graph = *graph.Build();
    model.inputs = {
        {"x", kX, v1::FLOAT32, {n, 2}}, {"state", kState, v1::FLOAT32, {n, 2}}, {"old", kOld, v1::INT32, {n}}};
    model.variables = {{kBatch, "n", 1, 4}};
    const auto output = [&](const char* name, v1::DType dtype, Sizes shape, size_t result) {
      model.outputs.push_back({name, dtype, std::move(shape), std::nullopt, 0, result});
    };
    output("y", v1::FLOAT32, {n, 2}, 0);
    output("next", v1::FLOAT32, {n, 2}, 1);
    output("z", v1::INT32, {n}, 2);
    output("older", v1::INT32, {n}, 3);
  }
};

server::SequenceConfig States(std::vector<server::SequenceConfig::State> states) {
  server::SequenceConfig config;
  config.states = std::move(states);
  return config;
}

template <typename T>
compiler::HostTensor Tensor(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  compiler::HostTensor made;
  made.dtype = dtype;
  made.shape.assign(shape.begin(), shape.end());
  made.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return made;
}
template <typename T>
std::vector<T> Values(const compiler::HostTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TEST(PooledGraphs, ReadAndWriteTheSlotsThatTheyAreTold) {
  TheModel the;
  const auto found = server::FindStates(the.model, States({{"old", "older"}, {"state", "next"}}));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->batch.slot, kBatch);
  EXPECT_EQ(found->states[0].row_bytes, 4u);
  EXPECT_EQ(found->states[1].row, (std::vector<int64_t>{2}));
  EXPECT_EQ(found->states[1].row_bytes, 8u);
  const auto pooled = server::PoolStates(the.model, *found, 4);
  ASSERT_TRUE(pooled.ok()) << pooled.status();
  compiler::HostTensors arguments;
  arguments[kX] = Tensor<float>(DType::kFloat32, {2, 2}, {1, 2, 3, 4});
  arguments[kState] = Tensor<float>(DType::kFloat32, {4, 2}, {10, 10, 20, 20, 30, 30, 40, 40});
  arguments[kOld] = Tensor<int32_t>(DType::kInt32, {4}, {5, 6, 7, 8});
  // Row 0 goes on from slot 2 and is written to 0; row 1 begins, in slot 3.
  arguments[pooled->from_slot] = Tensor<int32_t>(DType::kInt32, {2}, {2, -1});
  arguments[pooled->row_of_slot] = Tensor<int32_t>(DType::kInt32, {4}, {0, -1, -1, 1});
  const auto run = testing::RunInterpreted(pooled->graph, arguments, {{kBatch, 2}});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->results.size(), 2u);  // y and z
  EXPECT_EQ(Values<float>(run->results[0]), (std::vector<float>{31, 32, 3, 4}));
  EXPECT_EQ(Values<int32_t>(run->results[1]), (std::vector<int32_t>{7, 0}));
  EXPECT_EQ(Values<float>(run->written.at(kState)), (std::vector<float>{31, 32, 20, 20, 30, 30, 3, 4}));
  EXPECT_EQ(Values<int32_t>(run->written.at(kOld)), (std::vector<int32_t>{8, 6, 7, 1}));
}

TEST(PooledGraphs, AGraphThatCannotBeRewrittenIsRefused) {
  TheModel the;
  const auto found = server::FindStates(the.model, States({{"state", "next"}}));
  ASSERT_TRUE(found.ok()) << found.status();
  const auto refused = [&](const auto& spoil, const std::string& why) {
    onnx::Model model = the.model;
    spoil(model.graph);
    const absl::Status status = server::PoolStates(model, *found, 4).status();
    ASSERT_TRUE(DetailOf(status).has_value()) << why;
    EXPECT_EQ(DetailOf(status)->code(), v1::BAD_ARGUMENT);
    EXPECT_NE(status.message().find(why), absl::string_view::npos) << status;
  };
  refused([](v1::Graph& graph) { graph.set_dialect(v1::LEGACY_2025); }, "no PARAM of the model's graph");
  refused([](v1::Graph& graph) { graph.mutable_nodes(1)->set_op(v1::FUNCTION); }, "graph has functions");
  refused(
      [](v1::Graph& graph) {
        for (v1::UOp& uop : *graph.mutable_nodes()) {
          if (uop.buffer().slot() == kBatch) uop.set_op(v1::DEFINE_VAR);
        }
      },
      "no PARAM of the model's graph");
}

TEST(PooledGraphs, AModelWhoseResultsAreAllStateHasNone) {
  TheModel the;
  the.model.outputs.resize(2);
  const auto found = server::FindStates(the.model, States({{"state", "y"}}));
  ASSERT_TRUE(found.ok()) << found.status();
  const auto pooled = server::PoolStates(the.model, *found, 2);
  ASSERT_TRUE(pooled.ok()) << pooled.status();
  EXPECT_EQ(pooled->graph.nodes(pooled->graph.nodes_size() - 1).op(), v1::TUPLE);
}

TEST(PooledGraphs, WhatCannotBeStateIsNamed) {
  const auto refused = [](auto spoil, server::SequenceConfig config, const std::string& field,
                          const std::string& part) {
    TheModel the;
    spoil(the.model, the.n);
    const auto found = server::FindStates(the.model, config);
    const auto detail = DetailOf(found.status());
    ASSERT_TRUE(detail.has_value()) << part;
    EXPECT_EQ(detail->code(), v1::BAD_ARGUMENT);
    EXPECT_EQ(detail->field(), field) << found.status();
    EXPECT_NE(found.status().message().find(part), absl::string_view::npos) << found.status();
  };
  const auto as_it_is = [](onnx::Model&, const Size&) {};
  const server::SequenceConfig good = States({{"state", "next"}});
  refused(as_it_is, States({{"none", "next"}}), "none", "no input");
  refused(as_it_is, States({{"state", "none"}}), "none", "no output");
  refused(as_it_is, States({{"state", "z"}}), "z", "differs from the input");
  refused([](onnx::Model& model, const Size&) { model.inputs[1].used = false; }, good, "state", "does not read it");
  refused([](onnx::Model& model, const Size&) { model.outputs[1].result.reset(); }, good, "next", "no tensor");
  refused([](onnx::Model& model, const Size& n) { model.inputs[1].shape = model.outputs[1].shape = {n, n}; }, good,
          "state", "a size that each call decides");
  refused(
      [](onnx::Model& model, const Size& n) {
        model.inputs[1].shape = model.outputs[1].shape = {n, int64_t{1} << 40, int64_t{1} << 40};
      },
      good, "state", "more bytes than any memory");
  refused([](onnx::Model& model, const Size&) { model.inputs[1].shape = model.outputs[1].shape = {4, 2}; }, good,
          "state", "no first size that a call decides");
  refused(
      [](onnx::Model& model, const Size&) {
        const Size many({kBatch, "n", 2, 4});
        for (auto& input : model.inputs) input.shape[0] = many;
        for (auto& output : model.outputs) output.shape[0] = many;
      },
      good, "state", "\"n\", which is 2 or more");
  refused([](onnx::Model& model, const Size& n) { model.inputs[1].shape = model.outputs[1].shape = {n, 0}; }, good,
          "state", "without elements");
  refused([](onnx::Model& model, const Size&) { model.inputs[0].shape = {3}; }, good, "x", "does not begin with");
  refused([](onnx::Model& model, const Size&) { model.outputs[2].shape = {}; }, good, "z", "does not begin with");
  refused([](onnx::Model& model, const Size&) { model.inputs = {model.inputs[1]}; }, good, "state",
          "all other inputs are state");
  TheModel the;
  const auto found = server::FindStates(the.model, good);
  EXPECT_EQ(DetailOf(server::PoolStates(the.model, *found, int64_t{1} << 62).status())->code(), v1::SIZE_OVERFLOW);
}

}  // namespace
}  // namespace kiln::e2e
