#include "models/kgraph/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cpp/graph.h"
#include "client/cpp/movement.h"

namespace kiln::kgraph {
namespace {

using testing::HasSubstr;

// y = x of float32 [batch, 2] as a list; `unread` is read by nobody.
onnx::Model Flat() {
  client::Graph graph;
  onnx::Model model;
  const client::Size batch = graph.Variable(2, 1, 8, "batch");
  const client::Tensor x = graph.Param(0, v1::FLOAT32, {batch, 2}, "x");
  const client::Tensor y = client::Reshape(x, {-1});
  graph.Output(y);
  graph.Output(x);
  model.inputs = {{"x", 0, v1::FLOAT32, {batch, 2}}, {"unread", 1, v1::INT64, {3}, false, false}};
  model.variables = {{2, "batch", 1, 8}};
  model.outputs = {{"y", v1::FLOAT32, y.sizes(), std::nullopt, 0, 0},
                   {"same", v1::FLOAT32, x.sizes(), std::nullopt, 0, 1}};
  model.graph = *graph.Build();
  return model;
}

TEST(Signature, WhatIsWrittenIsRead) {
  const onnx::Model wrote = Flat();
  onnx::Model read;
  read.graph = wrote.graph;
  const absl::Status status = ReadSignature(WriteSignature(wrote), *HashGraph(read.graph), read);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(read.inputs.size(), 2u);
  EXPECT_EQ(read.inputs[0].name, "x");
  EXPECT_EQ(read.inputs[0].slot, 0u);
  EXPECT_EQ(read.inputs[0].shape, wrote.inputs[0].shape);
  EXPECT_TRUE(read.inputs[0].used);
  EXPECT_EQ(read.inputs[1].dtype, v1::INT64);
  EXPECT_EQ(read.inputs[1].shape, client::Sizes(client::Shape{3}));
  EXPECT_FALSE(read.inputs[1].used);
  EXPECT_EQ(read.variables, wrote.variables);
  ASSERT_EQ(read.outputs.size(), 2u);
  EXPECT_EQ(read.outputs[0].name, "y");
  EXPECT_FALSE(read.outputs[0].shape[0].valid());  // "2*batch" is no name
  EXPECT_FALSE(read.outputs[0].shape[0].number().has_value());
  EXPECT_EQ(read.outputs[1].result, 1u);
  EXPECT_EQ(read.outputs[1].shape, wrote.outputs[1].shape);
}

TEST(Signature, IsOfOneGraph) {
  const std::string text = WriteSignature(Flat());
  onnx::Model other;
  other.graph = Flat().graph;
  other.graph.mutable_nodes(other.graph.nodes_size() - 1)->mutable_src()->RemoveLast();
  EXPECT_THAT(std::string(ReadSignature(text, *HashGraph(other.graph), other).message()),
              HasSubstr("written for another graph"));
}

TEST(Signature, WhatIsNoneIsRefused) {
  const std::string good_input = R"({"name": "x", "slot": 0, "dtype": "float32", "shape": []})";
  const auto inputs = [](const std::string& rows) { return R"({"outputs": [], "inputs": [)" + rows + "]}"; };
  const auto outputs = [](const std::string& rows) { return R"({"inputs": [], "outputs": [)" + rows + "]}"; };
  const auto sizes = [](const std::string& rows) {
    return R"({"inputs": [], "outputs": [], "sizes": [)" + rows + "]}";
  };
  const struct {
    std::string text, why;
  } cases[] = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {R"({"inputs": []})", "no list of outputs"},
      {R"({"inputs": {}, "outputs": []})", "no list of inputs"},
      {R"({"inputs": [], "outputs": [], "graph": 1})", "\"graph\" is no text"},
      {R"({"inputs": [], "outputs": [], "graph": "00"})", "written for another graph"},
      {inputs("3"), "inputs: one has no name"},
      {inputs(R"({"name": ""})"), "inputs: one has an empty name"},
      {inputs(R"({"name": "x\n"})"), "inputs: \"x\\n\" has no slot below 65536"},
      {inputs(R"({"name": "x", "slot": -1})"), "has no slot below 65536"},
      {inputs(R"({"name": "x", "slot": 65536})"), "has no slot below 65536"},
      {inputs(R"({"name": "x", "slot": 0, "dtype": "text"})"), "has no dtype"},
      {inputs(R"({"name": "x", "slot": 0, "dtype": "int8"})"), "has no shape"},
      {inputs(R"({"name": "x", "slot": 0, "dtype": "int8", "shape": [-1]})"), "neither a number nor a name"},
      {inputs(R"({"name": "x", "slot": 0, "dtype": "int8", "shape": ["n"]})"), "none of the sizes"},
      {inputs(good_input + "," + good_input), "inputs: \"x\" is there twice"},
      {inputs(good_input + R"(,{"name": "z", "slot": 0, "dtype": "int8", "shape": []})"), "slot 0, which another has"},
      {sizes(R"({"name": "n", "slot": 0})"), "sizes: \"n\" has no min"},
      {sizes(R"({"name": "n", "slot": 0, "min": 3, "max": 2})"), "sizes: \"n\" has no min"},
      {sizes(R"({"name": "n", "slot": 0, "min": 1, "max": 4294967296})"), "sizes: \"n\" has no min"},
      {outputs(R"({"name": "y"})"), "outputs: \"y\" has no dtype"},
      {outputs(R"({"name": "y", "dtype": "int8", "shape": [], "result": 1})"), "is not result 0"},
      {outputs(R"({"name": "y", "dtype": "int8", "shape": [], "result": null})"), "is not result 0"},
  };
  for (const auto& row : cases) {
    onnx::Model model;
    model.graph = Flat().graph;
    const absl::Status status = ReadSignature(row.text, *HashGraph(model.graph), model);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.why)) << row.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("kiln.signature: ")) << row.text;
  }
}

}  // namespace
}  // namespace kiln::kgraph
