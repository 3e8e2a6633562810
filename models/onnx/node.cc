// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/node.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "client/cpp/movement.h"
#include "models/onnx/importer.h"
#include "models/onnx/tensor_proto.h"
#include "onnx/onnx.pb.h"

namespace kiln::onnx {

using client::Tensor;
using ::onnx::AttributeProto;

Node::Node(Importer& importer, Scope& scope, const ::onnx::NodeProto& proto, int64_t opset, std::vector<Value> inputs)
    : importer_(importer), scope_(scope), proto_(proto), opset_(opset), inputs_(std::move(inputs)) {
  for (const AttributeProto& attribute : proto.attribute()) {
    if (const AttributeProto* meant = scope.Resolve(attribute)) attributes_[attribute.name()] = meant;
  }
}

client::Graph& Node::graph() const { return importer_.graph(); }

std::vector<Tensor> Node::Tensors(size_t first) const {
  std::vector<Tensor> tensors;
  for (size_t i = first; i < inputs_.size(); ++i) {
    if (inputs_[i].tensor.valid()) tensors.push_back(inputs_[i].tensor);
  }
  return tensors;
}

size_t Node::outputs() const { return static_cast<size_t>(proto_.output_size()); }

bool Node::Wants(size_t i) const { return i < outputs() && !proto_.output(static_cast<int>(i)).empty(); }

// Old files leave the type out: then what is there says it.
const AttributeProto* Node::Attribute(absl::string_view name, int type, absl::string_view type_name) {
  const auto found = attributes_.find(name);
  if (found == attributes_.end()) return nullptr;
  if (found->second->type() == type || !found->second->has_type()) return found->second;
  if (attribute_status_.ok()) attribute_status_ = Bad(absl::StrCat("attribute ", name, " is no ", type_name));
  return nullptr;
}

int64_t Node::Int(absl::string_view name, int64_t otherwise) {
  const AttributeProto* attribute = Attribute(name, AttributeProto::INT, "integer");
  return attribute != nullptr ? attribute->i() : otherwise;
}

double Node::Float(absl::string_view name, double otherwise) {
  const AttributeProto* attribute = Attribute(name, AttributeProto::FLOAT, "float");
  return attribute != nullptr ? attribute->f() : otherwise;
}

std::string Node::Text(absl::string_view name, absl::string_view otherwise) {
  const AttributeProto* attribute = Attribute(name, AttributeProto::STRING, "string");
  return attribute != nullptr ? attribute->s() : std::string(otherwise);
}

std::vector<int64_t> Node::Ints(absl::string_view name, std::vector<int64_t> otherwise) {
  const AttributeProto* attribute = Attribute(name, AttributeProto::INTS, "list of integers");
  return attribute != nullptr ? std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end()) : otherwise;
}

std::vector<double> Node::Floats(absl::string_view name, std::vector<double> otherwise) {
  const AttributeProto* attribute = Attribute(name, AttributeProto::FLOATS, "list of floats");
  return attribute != nullptr ? std::vector<double>(attribute->floats().begin(), attribute->floats().end()) : otherwise;
}

std::vector<std::string> Node::Texts(absl::string_view name) {
  const AttributeProto* attribute = Attribute(name, AttributeProto::STRINGS, "list of strings");
  if (attribute == nullptr) return {};
  return std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

absl::StatusOr<client::HostTensor> Node::TensorOf(absl::string_view name, bool* narrow) {
  const AttributeProto* attribute = Attribute(name, AttributeProto::TENSOR, "tensor");
  if (attribute == nullptr || !attribute->has_t()) return Bad(absl::StrCat("there is no tensor attribute ", name));
  return ReadTensor(attribute->t(), importer_.source(), narrow);
}

absl::StatusOr<const ::onnx::GraphProto*> Node::GraphOf(absl::string_view name) {
  const AttributeProto* attribute = Attribute(name, AttributeProto::GRAPH, "graph");
  if (attribute == nullptr || !attribute->has_g()) return Bad(absl::StrCat("there is no graph attribute ", name));
  return &attribute->g();
}

const Known* Node::Find(Tensor tensor) { return importer_.known().Find(tensor); }

const client::HostTensor* Node::Held(Tensor tensor) const { return importer_.Held(tensor); }

bool Node::MayAddUp(int64_t bytes, int64_t made) { return importer_.MayAddUp(bytes, made); }
client::Tensor& Node::AddedUp(const SumKey& key) { return importer_.added()[key]; }

const Dequantized* Node::DequantizedFrom(size_t input) const {
  const Tensor made = In(input);
  const auto found = importer_.dequantized().find(made.node());
  return made.valid() && found != importer_.dequantized().end() ? &found->second : nullptr;
}

void Node::RememberDequantized(Tensor made, Dequantized from) {
  if (made.valid()) importer_.dequantized().insert_or_assign(made.node(), from);
}

absl::StatusOr<std::vector<int64_t>> Node::Integers(size_t input) {
  const Known* known = Find(In(input));
  const auto numbers = known != nullptr ? known->Numbers() : std::nullopt;
  if (!numbers) return Refuse(absl::StrCat("input ", input, " must be known when the model is imported"));
  return *numbers;
}

absl::StatusOr<std::vector<double>> Node::Reals(size_t input) {
  const Known* known = Find(In(input));
  const auto numbers = known != nullptr ? known->Reals() : std::nullopt;
  if (!numbers) return Refuse(absl::StrCat("input ", input, " must be known when the model is imported"));
  return *numbers;
}

absl::StatusOr<int64_t> Node::Integer(size_t input) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, Integers(input));
  if (numbers.size() != 1) return Bad(absl::StrCat("input ", input, " has ", numbers.size(), " elements, not one"));
  return numbers[0];
}

absl::StatusOr<client::Sizes> Node::SizesIn(size_t input) {
  const Known* known = Find(In(input));
  if (known == nullptr || known->IsReal()) {
    return Refuse(absl::StrCat("input ", input, " must be known when the model is imported"));
  }
  return client::Sizes(known->integers.begin(), known->integers.end());
}

absl::StatusOr<int64_t> Node::Axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) return Bad(absl::StrCat("there is no axis ", axis, " among ", rank));
  return axis < 0 ? axis + rank : axis;
}

absl::StatusOr<std::vector<int64_t>> Node::Axes(std::vector<int64_t> axes, int64_t rank) const {
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t& axis : axes) {
    KILN_ASSIGN_OR_RETURN(axis, Axis(axis, rank));
    if (seen[axis]) return Bad(absl::StrCat("axis ", axis, " is there twice"));
    seen[axis] = true;
  }
  return axes;
}

absl::StatusOr<client::Shape> Node::Dims(Tensor tensor) const {
  if (tensor.sizes().IsConst()) return tensor.sizes().greatest();
  return Refuse(absl::StrCat("a tensor of ", client::ShapeText(tensor.sizes()), " must have numbers as sizes here"));
}

absl::StatusOr<int64_t> Node::Dim(Tensor tensor, int64_t axis) const {
  if (const auto number = tensor.size(axis).number()) return *number;
  return Refuse(absl::StrCat("axis ", axis, " of ", client::ShapeText(tensor.sizes()), " must be a number here"));
}

Tensor Node::Make(client::HostTensor value) { return importer_.Make(std::move(value), proto_.name()); }

absl::Status Node::MayMake(int64_t count, v1::DType dtype) const {
  const TensorSource& source = importer_.source();
  const std::optional<int64_t> bytes = client::ByteCount(dtype, {count});
  if (bytes && *bytes <= source.bytes_left) return absl::OkStatus();
  return TooLarge("constant_bytes", static_cast<uint64_t>(source.most_bytes),
                  static_cast<uint64_t>(bytes.value_or(std::numeric_limits<int64_t>::max())),
                  absl::StrCat("it makes a constant of ", client::TypeText(dtype, client::Shape{count})));
}

bool Node::TakeBytes(int64_t count, v1::DType dtype) {
  const absl::Status status = MayMake(count, dtype);
  if (!status.ok()) {
    graph().Fail(status);
    return false;
  }
  importer_.source().bytes_left -= count * client::DTypeSize(dtype);
  return true;
}

Tensor Node::Make(const std::vector<int64_t>& values, v1::DType dtype) {
  const auto count = static_cast<int64_t>(values.size());
  if (dtype != v1::INT64) return Make(std::vector<double>(values.begin(), values.end()), {count}, dtype);
  if (!TakeBytes(count, dtype)) return Tensor();
  return Make(client::HostTensor::Of({count}, values));
}

Tensor Node::Make(const std::vector<double>& values, client::Shape shape, v1::DType dtype) {
  if (!TakeBytes(static_cast<int64_t>(values.size()), dtype)) return Tensor();
  const auto size = static_cast<size_t>(client::DTypeSize(dtype));
  std::string bytes(values.size() * size, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = IsFloatDType(dtype) ? FloatToBits(dtype, values[i])
                          : values[i] < 0     ? static_cast<uint64_t>(static_cast<int64_t>(values[i]))
                                              : static_cast<uint64_t>(values[i]);
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return Make(client::HostTensor{dtype, std::move(shape), std::move(bytes)});
}

Tensor Node::Make(const client::Sizes& values) {
  if (values.IsConst()) return Make(values.greatest());
  std::vector<Tensor> elements;
  for (const client::Size& size : values) elements.push_back(graph().Number(size, v1::INT64));
  return client::Stack(elements);
}

absl::StatusOr<std::vector<Value>> Node::Run(const ::onnx::GraphProto& graph, std::vector<Value> inputs) {
  return importer_.RunGraph(graph, scope_, std::move(inputs));
}

absl::Status Node::CheckTurns(int64_t turns) const {
  const int64_t most = importer_.options().limits.turns;
  if (turns <= most) return absl::OkStatus();
  return TooLarge("turns", static_cast<uint64_t>(most), static_cast<uint64_t>(turns), "a loop is unrolled");
}

absl::Status Node::Refuse(absl::string_view reason) const { return MakeError(v1::UNSUPPORTED_OP, reason); }
absl::Status Node::Bad(absl::string_view reason) const { return MakeError(v1::BAD_ARGUMENT, reason); }

}  // namespace kiln::onnx
