// What an importer makes of models, good and hostile. The ops' values are compared by the
// standard's own tests (tests/onnx/README.md).
#include <cctype>
#include <string>
#include <vector>

#include "base/error.h"
#include "gtest/gtest.h"
#include "models/onnx/model.h"
#include "onnx/onnx.pb.h"

namespace kiln::onnx {
namespace {

using ::onnx::AttributeProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

// A model of opset 21 with one input x (float32) and one output y.
ModelProto Empty(const std::vector<std::string>& dims = {"2", "3"}) {
  ModelProto model;
  model.add_opset_import()->set_version(21);
  auto* x = model.mutable_graph()->add_input();
  x->set_name("x");
  x->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  auto* shape = x->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const std::string& dim : dims) {
    if (dim.empty()) {
      shape->add_dim();
    } else if (isdigit(dim[0]) || dim[0] == '-') {
      shape->add_dim()->set_dim_value(std::stoll(dim));
    } else {
      shape->add_dim()->set_dim_param(dim);
    }
  }
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

NodeProto* Add(::onnx::GraphProto& graph, const std::string& op, const std::vector<std::string>& inputs,
               const std::vector<std::string>& outputs = {"y"}) {
  NodeProto* node = graph.add_node();
  node->set_op_type(op);
  node->set_name("the " + op);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
  return node;
}

NodeProto* Add(ModelProto& model, const std::string& op, const std::vector<std::string>& inputs,
               const std::vector<std::string>& outputs = {"y"}) {
  return Add(*model.mutable_graph(), op, inputs, outputs);
}

void SetInt(NodeProto* node, const std::string& name, int64_t value) {
  AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(AttributeProto::INT);
  attribute->set_i(value);
}

TensorProto* AddInts(ModelProto& model, const std::string& name, const std::vector<int64_t>& values) {
  TensorProto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(TensorProto::INT64);
  tensor->add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor->add_int64_data(value);
  return tensor;
}

absl::StatusOr<Model> Imported(const ModelProto& model, const ImportOptions& options = {}) {
  return Import(model.SerializeAsString(), options);
}

// The error's code and that its text has all of `parts`.
void ExpectRefused(const absl::StatusOr<Model>& model, v1::ErrorCode code, const std::vector<std::string>& parts) {
  ASSERT_FALSE(model.ok());
  ASSERT_TRUE(DetailOf(model.status()).has_value()) << model.status();
  EXPECT_EQ(DetailOf(model.status())->code(), code) << model.status();
  for (const std::string& part : parts)
    EXPECT_NE(model.status().message().find(part), std::string::npos) << model.status() << " lacks " << part;
}

TEST(Import, ANodeBecomesAProgramWithASignature) {
  ModelProto model = Empty();
  Add(model, "Relu", {"x"});
  const auto made = Imported(model);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->inputs.size(), 1);
  EXPECT_EQ(made->inputs[0].name, "x");
  EXPECT_TRUE(made->inputs[0].used);
  ASSERT_EQ(made->outputs.size(), 1);
  EXPECT_EQ(made->outputs[0].dtype, v1::FLOAT32);
  EXPECT_EQ(made->outputs[0].shape, client::Sizes({2, 3}));
  EXPECT_EQ(made->graph.nodes(made->graph.nodes_size() - 1).op(), v1::TUPLE);
}

TEST(Import, ALargeInitialiserIsAConstantSlotAndAnUnusedOneIsNone) {
  ModelProto model = Empty({"2", "30"});
  for (const char* name : {"w", "unused"}) {
    TensorProto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(TensorProto::FLOAT);
    tensor->add_dims(30);
    tensor->set_raw_data(std::string(120, '\1'));
  }
  Add(model, "Mul", {"x", "w"});
  const auto made = Imported(model);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->constants.size(), 1);
  EXPECT_EQ(made->constants[0].name, "w");
  EXPECT_EQ(made->constants[0].value.bytes, std::string(120, '\1'));
}

TEST(Import, ShapeArithmeticIsGoneWhenItIsDone) {
  ModelProto model = Empty({"4", "6"});
  AddInts(model, "zero", {0});
  AddInts(model, "rest", {-1});
  Add(model, "Shape", {"x"}, {"shape"});
  Add(model, "Gather", {"shape", "zero"}, {"rows"});
  Add(model, "Concat", {"rows", "rest"}, {"target"});
  model.mutable_graph()->mutable_node(2)->add_attribute()->set_name("axis");
  model.mutable_graph()->mutable_node(2)->mutable_attribute(0)->set_i(0);
  Add(model, "Reshape", {"x", "target"});
  const auto made = Imported(model);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->outputs[0].shape, client::Sizes({4, 6}));
  for (const v1::UOp& uop : made->graph.nodes()) EXPECT_NE(uop.op(), v1::INDEX);
}

TEST(Import, ADimensionWithANameIsAVariableOfTheRangeGiven) {
  ModelProto model = Empty({"batch", "6"});
  AddInts(model, "shape", {-1, 2, 3});
  Add(model, "Reshape", {"x", "shape"});
  ExpectRefused(Imported(model), v1::UNSUPPORTED_OP, {"\"batch\"", "input \"x\""});
  const auto made = Imported(model, {.dimensions = {{"batch", {1, 8}}}});
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->variables.size(), 1);
  EXPECT_EQ(made->variables[0].name, "batch");
  EXPECT_EQ(made->variables[0].greatest, 8);
  EXPECT_EQ(made->outputs[0].shape, client::Sizes({client::Size(made->variables[0]), 2, 3}));
  const auto fixed = Imported(model, {.dimensions = {{"batch", {5, 5}}}});
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_TRUE(fixed->variables.empty());
  EXPECT_EQ(fixed->outputs[0].shape, client::Sizes({5, 2, 3}));
}

TEST(Import, AValueIsTakenOnlyWhereAShapeDependsOnIt) {
  ModelProto model = Empty();
  auto* shape = model.mutable_graph()->add_input();
  shape->set_name("shape");
  shape->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::INT64);
  shape->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(1);
  Add(model, "Reshape", {"x", "shape"});
  ExpectRefused(Imported(model), v1::UNSUPPORTED_OP,
                {"node 0 \"the Reshape\" (Reshape, opset 21)", "input 1 must be known"});
  ImportOptions options;
  options.values["shape"] = client::HostTensor::Of<int64_t>({1}, {6});
  options.values["x"] = client::HostTensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto made = Imported(model, options);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(made->inputs[0].fixed);
  EXPECT_TRUE(made->inputs[1].fixed);
  EXPECT_EQ(made->outputs[0].shape, client::Sizes{6});
}

TEST(Import, ALoopThatIsKnownIsUnrolledUpToTheLimit) {
  const auto loop = [](int64_t turns) {
    ModelProto model = Empty();
    AddInts(model, "turns", {turns});
    NodeProto* node = Add(model, "Loop", {"turns", "", "x"});
    AttributeProto* attribute = node->add_attribute();
    attribute->set_name("body");
    attribute->set_type(AttributeProto::GRAPH);
    ::onnx::GraphProto* body = attribute->mutable_g();
    for (const char* name : {"turn", "go", "in"}) body->add_input()->set_name(name);
    for (const char* name : {"go", "out"}) body->add_output()->set_name(name);
    Add(*body, "Neg", {"in"}, {"out"});
    return model;
  };
  const auto made = Imported(loop(3));
  ASSERT_TRUE(made.ok()) << made.status();
  int negations = 0;
  for (const v1::UOp& uop : made->graph.nodes()) negations += uop.op() == v1::NEG ? 1 : 0;
  EXPECT_EQ(negations, 3);
  ExpectRefused(Imported(loop(10'000)), v1::GRAPH_TOO_LARGE, {"Loop, opset 21"});
  ImportOptions few;
  few.limits.nodes = 20;
  ExpectRefused(Imported(loop(100), few), v1::GRAPH_TOO_LARGE, {"nodes"});
}

TEST(Import, RefusalsNameNodeOpOpsetAndReason) {
  ModelProto model = Empty();
  Add(model, "Hyperdrive", {"x"});
  ExpectRefused(Imported(model), v1::UNSUPPORTED_OP,
                {"node 0 \"the Hyperdrive\" (Hyperdrive, opset 21)", "this op is not taken"});
  EXPECT_EQ(DetailOf(Imported(model).status())->op(), "Hyperdrive");
  EXPECT_EQ(DetailOf(Imported(model).status())->tag(), "the Hyperdrive");
  EXPECT_EQ(DetailOf(Imported(model).status())->node(), 0);
  model = Empty();
  Add(model, "Swish", {"x"});
  ExpectRefused(Imported(model), v1::UNSUPPORTED_OP, {"from opset 24 on"});
  model = Empty();
  model.mutable_opset_import(0)->set_version(6);
  Add(model, "Relu", {"x"});
  ExpectRefused(Imported(model), v1::UNSUPPORTED_OP, {"opset 6"});
}

TEST(Import, WhatContradictsTheStandardIsNamed) {
  ModelProto model = Empty();
  Add(model, "Relu", {"z"});
  ExpectRefused(Imported(model), v1::BAD_ARGUMENT, {"\"z\""});  // also what a cycle is
  model = Empty();
  Add(model, "Add", {"x"});
  ExpectRefused(Imported(model), v1::BAD_ARGUMENT, {"input 1 is missing"});
  model = Empty();
  Add(model, "Relu", {"x", "x"});
  ExpectRefused(Imported(model), v1::BAD_ARGUMENT, {"at most 1"});
  model = Empty();
  NodeProto* node = Add(model, "Softmax", {"x"});
  SetInt(node, "axis", 7);
  ExpectRefused(Imported(model), v1::BAD_ARGUMENT, {"no axis 7"});
  node->mutable_attribute(0)->set_type(AttributeProto::FLOAT);
  ExpectRefused(Imported(model), v1::BAD_ARGUMENT, {"attribute axis is no integer"});
  model = Empty();
  ExpectRefused(Imported(model), v1::BAD_ARGUMENT, {"nothing makes output \"y\""});
  model = Empty({"-4", "3"});
  Add(model, "Relu", {"x"});
  EXPECT_FALSE(Imported(model).ok());
  model = Empty();
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::STRING);
  Add(model, "Identity", {"x"});
  ExpectRefused(Imported(model), v1::UNSUPPORTED_OP, {"string"});
}

TEST(Import, TruncatedFilesAreNoModels) {
  ModelProto model = Empty();
  Add(model, "Relu", {"x"});
  const std::string file = model.SerializeAsString();
  for (size_t length = 0; length < file.size(); ++length) {
    // Some beginnings are models of their own: of fewer nodes. None may be anything but an answer.
    static_cast<void>(Import(absl::string_view(file).substr(0, length)));
  }
  ExpectRefused(Import("no protobuf at all"), v1::MALFORMED_MESSAGE, {});
  ExpectRefused(Import(""), v1::MALFORMED_MESSAGE, {"no graph"});
  ImportOptions small;
  small.limits.file_bytes = 10;
  ExpectRefused(Import(file, small), v1::GRAPH_TOO_LARGE, {});
}

TEST(Import, NamesAreTextAndShownShort) {
  ModelProto model = Empty();
  Add(model, "Relu", {"x"})->set_name("a");
  std::string file = model.SerializeAsString();
  file[file.find("Relu")] = '\xC5';
  ExpectRefused(Import(file), v1::MALFORMED_MESSAGE, {});
  // Cut between characters, never in one.
  std::string name(99, 'n');
  Add(model, "Unheard", {"x"})->set_name(name + "\xC3\xA9");
  ExpectRefused(Imported(model), v1::UNSUPPORTED_OP, {"\"" + name + "\""});
}

TEST(Import, TensorsThatPromiseMoreThanTheyHaveAreRefusedBeforeMemoryIsTaken) {
  ModelProto model = Empty();
  TensorProto* tensor = AddInts(model, "huge", {});
  tensor->set_dims(0, int64_t{1} << 40);
  Add(model, "Relu", {"x"});
  ExpectRefused(Imported(model), v1::GRAPH_TOO_LARGE, {"huge"});
  tensor->set_dims(0, int64_t{1} << 20);
  ExpectRefused(Imported(model), v1::MALFORMED_MESSAGE, {"there are 0"});
  tensor->set_dims(0, -1);
  ExpectRefused(Imported(model), v1::MALFORMED_MESSAGE, {"shape"});
  for (int i = 0; i < 40; ++i) tensor->add_dims(1);
  ExpectRefused(Imported(model), v1::GRAPH_TOO_LARGE, {});
}

TEST(Import, ATensorThatIsMadeHugeIsNeverMade) {
  ModelProto model = Empty();
  AddInts(model, "shape", {int64_t{1} << 40, int64_t{1} << 40});
  Add(model, "ConstantOfShape", {"shape"});
  EXPECT_FALSE(Imported(model).ok());
  // One that could be is a node of the graph; what it is, is not computed here.
  model.mutable_graph()->clear_initializer();
  AddInts(model, "shape", {int64_t{1} << 30});
  Add(model, "NonZero", {"y"}, {"z"});
  model.mutable_graph()->mutable_output(0)->set_name("z");
  ExpectRefused(Imported(model), v1::UNSUPPORTED_OP, {"NonZero", "must be known"});
}

TEST(Import, GraphsInGraphsAndFunctionsInFunctionsHaveADepth) {
  ModelProto model = Empty();
  AddInts(model, "yes", {1});
  Add(model, "Cast", {"yes"}, {"condition"});
  SetInt(model.mutable_graph()->mutable_node(0), "to", TensorProto::BOOL);
  ::onnx::GraphProto* graph = model.mutable_graph();
  for (int depth = 0; depth < 30; ++depth) {
    NodeProto* node = Add(*graph, "If", {"condition"});
    for (const char* name : {"then_branch", "else_branch"}) {
      AttributeProto* attribute = node->add_attribute();
      attribute->set_name(name);
      attribute->set_type(AttributeProto::GRAPH);
      attribute->mutable_g()->add_output()->set_name("y");
    }
    graph = node->mutable_attribute(0)->mutable_g();
  }
  Add(*graph, "Relu", {"x"});
  ExpectRefused(Imported(model), v1::GRAPH_TOO_LARGE, {"graphs in graphs"});

  model = Empty();
  model.add_opset_import()->set_domain("mine");
  auto* function = model.add_functions();
  function->set_name("Again");
  function->set_domain("mine");
  function->add_input("a");
  function->add_output("b");
  NodeProto* again = function->add_node();
  again->set_op_type("Again");
  again->set_domain("mine");
  again->add_input("a");
  again->add_output("b");
  Add(model, "Again", {"x"})->set_domain("mine");
  ExpectRefused(Imported(model), v1::GRAPH_TOO_LARGE, {"functions in functions"});
}

TEST(Import, AFunctionOfTheModelHasItsOwnNamesAndItsCallersAttributes) {
  ModelProto model = Empty();
  model.add_opset_import()->set_domain("mine");
  auto* function = model.add_functions();
  function->set_name("Turned");
  function->set_domain("mine");
  function->add_input("a");
  function->add_output("b");
  function->add_opset_import()->set_version(21);
  NodeProto* inner = function->add_node();
  inner->set_op_type("Flatten");
  inner->add_input("a");
  inner->add_output("b");
  AttributeProto* axis = inner->add_attribute();
  axis->set_name("axis");
  axis->set_type(AttributeProto::INT);
  axis->set_ref_attr_name("where");
  NodeProto* node = Add(model, "Turned", {"x"});
  node->set_domain("mine");
  SetInt(node, "where", 0);
  const auto made = Imported(model);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->outputs[0].shape, client::Sizes({1, 6}));
}

}  // namespace
}  // namespace kiln::onnx
