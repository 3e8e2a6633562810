#include "tests/onnx/quantized_models.h"

#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

template <typename T>
std::string BytesAs(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) {
    const T narrow = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(T));
  }
  return bytes;
}

std::string BytesOf(const Whole& whole) {
  return whole.type == TensorProto::INT32 ? BytesAs<int32_t>(whole.values) : BytesAs<uint8_t>(whole.values);
}

bool IsView(v1::Op op) {
  static const std::set<v1::Op> kViews = {v1::RESHAPE, v1::PERMUTE, v1::EXPAND, v1::SHRINK, v1::PAD};
  return kViews.contains(op);
}

}  // namespace

Whole Drawn(TensorProto::DataType type, std::vector<int64_t> dims, uint32_t seed) {
  Whole drawn{type, std::move(dims), {}};
  int64_t count = 1;
  for (const int64_t dim : drawn.dims) count *= dim;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    drawn.values.push_back(static_cast<int64_t>(seed >> 24) - (type == TensorProto::INT8 ? 128 : 0));
  }
  return drawn;
}

QuantizedModel::QuantizedModel(int64_t opset) {
  proto_.add_opset_import()->set_version(opset);
  proto_.mutable_graph()->add_output()->set_name("y");
}

void QuantizedModel::Input(const std::string& name, const Whole& value) {
  auto* input = proto_.mutable_graph()->add_input();
  input->set_name(name);
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(value.type);
  type->mutable_shape();
  for (const int64_t dim : value.dims) type->mutable_shape()->add_dim()->set_dim_value(dim);
  inputs_.push_back(value);
}

void QuantizedModel::Constant(const std::string& name, const Whole& value) {
  TensorProto* tensor = proto_.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(value.type);
  for (const int64_t dim : value.dims) tensor->add_dims(dim);
  tensor->set_raw_data(BytesOf(value));
}

void QuantizedModel::Floats(const std::string& name, const std::vector<float>& values, bool scalar) {
  TensorProto* tensor = proto_.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(TensorProto::FLOAT);
  if (!scalar) tensor->add_dims(static_cast<int64_t>(values.size()));
  for (const float value : values) tensor->add_float_data(value);
}

void QuantizedModel::Node(const std::string& op, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
  auto* node = proto_.mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(op);
  for (const std::string& input : inputs) node->add_input(input);
  for (const std::string& output : outputs) node->add_output(output);
}

void QuantizedModel::Ints(const std::string& name, const std::vector<int64_t>& values) {
  auto& nodes = *proto_.mutable_graph()->mutable_node();
  auto* attribute = nodes[nodes.size() - 1].add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute->add_ints(value);
}

void QuantizedModel::Int(const std::string& name, int64_t value) {
  auto& nodes = *proto_.mutable_graph()->mutable_node();
  auto* attribute = nodes[nodes.size() - 1].add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::INT);
  attribute->set_i(value);
}

std::string QuantizedModel::RunBytes(const onnx::ImportOptions& options) {
  absl::StatusOr<onnx::Model> model = onnx::Import(proto_.SerializeAsString(), options);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return "";
  model_ = *std::move(model);
  compiler::HostTensors arguments;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const onnx::Model::Input& input = model_.inputs[i];
    if (!input.used) continue;
    arguments[input.slot] = {static_cast<compiler::DType>(input.dtype),
                             {inputs_[i].dims.begin(), inputs_[i].dims.end()},
                             BytesOf(inputs_[i])};
  }
  for (const onnx::Model::Constant& constant : model_.constants) {
    const auto& [dtype, shape, bytes] = constant.value;
    arguments[constant.slot] = {static_cast<compiler::DType>(dtype), {shape.begin(), shape.end()}, bytes};
  }
  const auto run = RunInterpreted(model_.graph, arguments);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() && !run->results.empty() ? run->results[0].bytes : "";
}

bool QuantizedModel::SumsBytes() const {
  const auto& nodes = model_.graph.nodes();
  const auto beneath_views = [&](uint32_t node) {
    while (IsView(nodes[static_cast<int>(node)].op())) node = nodes[static_cast<int>(node)].src(0);
    return node;
  };
  const auto is_byte = [&](uint32_t node) {
    const v1::UOp& cast = nodes[static_cast<int>(beneath_views(node))];
    if (cast.op() != v1::CAST || cast.cast_to() != v1::INT32) return false;
    const v1::UOp& source = nodes[static_cast<int>(beneath_views(cast.src(0)))];
    const v1::DType dtype = source.op() == v1::PARAM  ? source.buffer().dtype()
                            : source.op() == v1::CAST ? source.cast_to()
                                                      : v1::DTYPE_UNSPECIFIED;
    return dtype == v1::INT8 || dtype == v1::UINT8;
  };
  int sums = 0;
  for (const v1::UOp& uop : nodes) {
    if (uop.op() != v1::REDUCE || uop.reduce().op() != v1::ADD) continue;
    const v1::UOp& product = nodes[static_cast<int>(uop.src(0))];
    if (product.op() != v1::MUL) continue;
    if (!is_byte(product.src(0)) || !is_byte(product.src(1))) return false;
    ++sums;
  }
  return sums > 0;
}

}  // namespace kiln::testing
