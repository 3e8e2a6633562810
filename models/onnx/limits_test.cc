// What a few numbers of a file may make an op ask for: constants that it computes, and sizes of axes that are as long
// as they like because another axis is empty.
#include <limits>
#include <string>
#include <utility>
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

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();

void AddInput(ModelProto& model, const std::string& name, int type, const std::vector<int64_t>& dims) {
  auto* input = model.mutable_graph()->add_input();
  input->set_name(name);
  input->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  auto* shape = input->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const int64_t dim : dims) shape->add_dim()->set_dim_value(dim);
}

TensorProto* AddHeld(ModelProto& model, const std::string& name, int type, int64_t count) {
  TensorProto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  tensor->add_dims(count);
  return tensor;
}

// A node whose one result is a result of the model.
NodeProto* Add(ModelProto& model, const std::string& domain, const std::string& op,
               const std::vector<std::string>& inputs, const std::string& output = "y") {
  if (model.opset_import().empty()) {
    model.add_opset_import()->set_version(21);
    for (const auto& [name, version] : {std::pair("com.microsoft", 1), std::pair("ai.onnx.ml", 3)}) {
      model.add_opset_import()->set_domain(name);
      model.mutable_opset_import()->rbegin()->set_version(version);
    }
  }
  NodeProto* node = model.mutable_graph()->add_node();
  node->set_domain(domain);
  node->set_op_type(op);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
  model.mutable_graph()->add_output()->set_name(output);
  return node;
}

AttributeProto* Attribute(NodeProto* node, const std::string& name, AttributeProto::AttributeType type) {
  AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

void SetInt(NodeProto* node, const std::string& name, int64_t value) {
  Attribute(node, name, AttributeProto::INT)->set_i(value);
}

void SetInts(NodeProto* node, const std::string& name, const std::vector<int64_t>& values) {
  AttributeProto* attribute = Attribute(node, name, AttributeProto::INTS);
  for (const int64_t value : values) attribute->add_ints(value);
}

absl::StatusOr<Model> Imported(const ModelProto& model, int64_t constant_bytes = int64_t{1} << 34) {
  ImportOptions options;
  options.limits.constant_bytes = constant_bytes;
  return Import(model.SerializeAsString(), options);
}

void ExpectTooManyBytes(const absl::StatusOr<Model>& model) {
  ASSERT_FALSE(model.ok());
  ASSERT_TRUE(DetailOf(model.status()).has_value()) << model.status();
  EXPECT_EQ(DetailOf(model.status())->code(), v1::GRAPH_TOO_LARGE) << model.status();
  EXPECT_EQ(DetailOf(model.status())->limit(), "constant_bytes") << model.status();
}

void ExpectRefused(const absl::StatusOr<Model>& model, const std::string& words) {
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find(words), std::string::npos) << model.status() << " lacks " << words;
}

// So many windows of 4096 floats: 16384 bytes each, and 8 for the number.
ModelProto Windows(int count) {
  ModelProto model;
  AddHeld(model, "size", TensorProto::INT64, 1)->add_int64_data(4096);
  for (int i = 0; i < count; ++i) Add(model, "", "HannWindow", {"size"}, "y" + std::to_string(i));
  return model;
}

TEST(ConstantBytes, WhatAnOpMakesCountsAsWhatTheFileHas) {
  const auto one = Imported(Windows(1), 16384 + 8);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_EQ(one->constants.size(), 1);
  EXPECT_EQ(one->constants[0].value.bytes.size(), 16384);
  ExpectTooManyBytes(Imported(Windows(1), 16384 + 7));

  const auto three = Imported(Windows(3), 3 * 16384 + 8);
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_EQ(three->constants.size(), 3);
  const auto last = Imported(Windows(3), 3 * 16384 + 7);
  ExpectTooManyBytes(last);
  EXPECT_EQ(DetailOf(last.status())->node(), 2);
  EXPECT_EQ(DetailOf(last.status())->used(), 16384);
}

// One leaf, and 2^20 targets.
ModelProto Forest(int64_t target) {
  ModelProto model;
  AddInput(model, "x", TensorProto::FLOAT, {2, 3});
  NodeProto* node = Add(model, "ai.onnx.ml", "TreeEnsembleRegressor", {"x"});
  for (const char* name : {"treeids", "nodeids", "featureids", "truenodeids", "falsenodeids"})
    SetInts(node, std::string("nodes_") + name, {0});
  Attribute(node, "nodes_modes", AttributeProto::STRINGS)->add_strings("LEAF");
  Attribute(node, "nodes_values", AttributeProto::FLOATS)->add_floats(0);
  SetInt(node, "n_targets", kMiB);
  for (const char* name : {"treeids", "nodeids"}) SetInts(node, std::string("target_") + name, {0});
  SetInts(node, "target_ids", {target});
  Attribute(node, "target_weights", AttributeProto::FLOATS)->add_floats(1);
  return model;
}

TEST(ConstantBytes, AForestWithManyTargetsIsRefusedBeforeItsTableIsMade) {
  ExpectTooManyBytes(Imported(Forest(0), kMiB));
  // There is no target -1, which is seen as the table is filled: with too little memory left nothing is filled.
  ExpectRefused(Imported(Forest(-1), 5 * kMiB), "a weight for target -1 of 1048576");
  ExpectTooManyBytes(Imported(Forest(-1), kMiB));
  const auto made = Imported(Forest(0), 5 * kMiB);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->outputs[0].shape, client::Sizes({2, kMiB}));
}

// Two sequences of one word, which are numbers 2^20 - 1 and `second` of the result.
ModelProto Words(int64_t second) {
  ModelProto model;
  AddInput(model, "x", TensorProto::INT64, {2, 6});
  NodeProto* node = Add(model, "", "TfIdfVectorizer", {"x"});
  Attribute(node, "mode", AttributeProto::STRING)->set_s("TF");
  SetInts(node, "pool_int64s", {5, 7});
  SetInts(node, "ngram_counts", {0});
  SetInts(node, "ngram_indexes", {kMiB - 1, second});
  for (const char* name : {"min_gram_length", "max_gram_length"}) SetInt(node, name, 1);
  return model;
}

TEST(ConstantBytes, AGreatIndexOfASequenceIsRefusedBeforeItsPlacesAreMade) {
  ExpectTooManyBytes(Imported(Words(0), kMiB));
  ExpectRefused(Imported(Words(kMiB - 1), 9 * kMiB), "index 1048575 is there twice");
  ExpectTooManyBytes(Imported(Words(kMiB - 1), kMiB));
  const auto made = Imported(Words(0), 9 * kMiB);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->outputs[0].shape, client::Sizes({2, kMiB}));
}

TEST(ConstantBytes, BandsOfHearingCount) {
  ModelProto model;
  std::vector<std::string> inputs;
  for (const int64_t number : {1024, 2046, 8000}) {
    inputs.push_back("n" + std::to_string(number));
    AddHeld(model, inputs.back(), TensorProto::INT64, 1)->add_int64_data(number);
  }
  for (const float edge : {0.0F, 4000.0F}) {
    inputs.push_back("f" + std::to_string(edge));
    AddHeld(model, inputs.back(), TensorProto::FLOAT, 1)->add_float_data(edge);
  }
  Add(model, "", "MelWeightMatrix", inputs);
  ExpectTooManyBytes(Imported(model, kMiB));
  const auto made = Imported(model, 5 * kMiB);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->constants.size(), 1);
  EXPECT_EQ(made->constants[0].value.bytes.size(), 4 * kMiB);
}

// Each file ends in a field cut short: one that is parsed first is refused as malformed.
TEST(FileParts, AreCountedBeforeTheyAreMade) {
  ImportOptions options;
  options.limits.parts = 1000;
  const std::string cut("\x3a\x7f", 2);
  for (const std::string& part :
       {std::string("\x0a\x00", 2), std::string("\x5a\x00", 2), std::string("\xf8\x7f\x01")}) {
    std::string graph;
    for (int i = 0; i < 1000; ++i) graph += part;
    const std::string length = {static_cast<char>(graph.size() % 128 + 128), static_cast<char>(graph.size() / 128)};
    const absl::Status status = Import("\x3a" + length + graph + cut, options).status();
    const v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::GRAPH_TOO_LARGE) << status;
    EXPECT_EQ(detail.limit(), "parts");
    EXPECT_EQ(detail.limit_value(), 1000u);
  }
}

TEST(LongAxes, TwiceATransformsLengthDoesNotOverflow) {
  ModelProto model;
  AddInput(model, "x", TensorProto::FLOAT, {0, kLongest, 1});
  NodeProto* node = Add(model, "", "DFT", {"x"});
  SetInt(node, "inverse", 1);
  SetInt(node, "onesided", 1);
  ExpectRefused(Imported(model), "a transform of 9223372036854775807 points");
}

TEST(LongAxes, ABiasOfQueriesKeysAndValuesIsCountedWithoutOverflow) {
  ModelProto model;
  for (const char* name : {"q", "k"}) AddInput(model, name, TensorProto::FLOAT, {0, 1, kLongest});
  AddInput(model, "v", TensorProto::FLOAT, {0, 1, 5});
  // Twice the length and 5 are 3, modulo 2^64.
  TensorProto* bias = AddHeld(model, "bias", TensorProto::FLOAT, 3);
  for (int i = 0; i < 3; ++i) bias->add_float_data(1);
  SetInt(Add(model, "com.microsoft", "MultiHeadAttention", {"q", "k", "v", "bias"}), "num_heads", 1);
  ExpectRefused(Imported(model), "a bias of (3,); it is one number each of q, k and v");
}

}  // namespace
}  // namespace kiln::onnx
