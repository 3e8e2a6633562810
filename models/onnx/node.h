// One node as the function that imports its op sees it: inputs, attributes, what is known.
//
//   absl::StatusOr<Outputs> Flatten(Node& node) {
//     KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", 1), node.In(0).rank() + 1));
//     ...
//     return Reshape(node.In(0), {rows, columns});
//   }
//
// Before the function runs, the table's least and most inputs are checked, so In(i) of a required
// one is valid. An attribute of another type than asked for is an error of the node, told
// once the function has returned; the function has worked with the default. So are errors
// that the graph keeps. Whatever a function reads of sizes may be any number that a stranger
// likes to write.
#ifndef KILN_MODELS_ONNX_NODE_H_
#define KILN_MODELS_ONNX_NODE_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/graph.h"
#include "models/onnx/known.h"
#include "models/onnx/value.h"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace kiln::onnx {

class Importer;
struct Scope;

class Node {
 public:
  Node(Importer& importer, Scope& scope, const ::onnx::NodeProto& proto, int64_t opset, std::vector<Value> inputs);

  client::Graph& graph() const;
  int64_t opset() const { return opset_; }

  // -- Inputs and outputs. One that is not there is invalid.
  size_t inputs() const { return inputs_.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i].given(); }
  client::Tensor In(size_t i) const { return i < inputs_.size() ? inputs_[i].tensor : client::Tensor(); }
  const Value& At(size_t i) const { return inputs_[i]; }
  // Inputs from `first` on that are tensors.
  std::vector<client::Tensor> Tensors(size_t first = 0) const;
  size_t outputs() const;
  bool Wants(size_t i) const;

  // -- Attributes
  bool HasAttribute(absl::string_view name) const { return attributes_.contains(name); }
  int64_t Int(absl::string_view name, int64_t otherwise = 0);
  double Float(absl::string_view name, double otherwise = 0);
  std::string Text(absl::string_view name, absl::string_view otherwise = "");
  std::vector<int64_t> Ints(absl::string_view name, std::vector<int64_t> otherwise = {});
  std::vector<double> Floats(absl::string_view name, std::vector<double> otherwise = {});
  std::vector<std::string> Texts(absl::string_view name);
  // BAD_ARGUMENT where it is not there, or no tensor that Kiln has.
  // `narrow` as ReadTensor has it.
  absl::StatusOr<client::HostTensor> TensorOf(absl::string_view name, bool* narrow = nullptr);
  absl::StatusOr<const ::onnx::GraphProto*> GraphOf(absl::string_view name);
  // The first attribute that was of another type than asked for.
  const absl::Status& attribute_status() const { return attribute_status_; }

  // -- What is known at import. Refused, by the input's number, where it is not.
  const Known* Find(client::Tensor tensor);
  absl::StatusOr<std::vector<int64_t>> Integers(size_t input);
  absl::StatusOr<std::vector<double>> Reals(size_t input);
  absl::StatusOr<int64_t> Integer(size_t input);
  // Integers that may depend on variables.
  absl::StatusOr<client::Sizes> SizesIn(size_t input);
  // The elements of a tensor that the file itself holds; null for all else, what callers offer (ImportOptions) too.
  // Until the next tensor is made.
  const client::HostTensor* Held(client::Tensor tensor) const;
  // Whether so many bytes that the file holds may be added up at import, to a tensor of so many; they are then counted.
  bool MayAddUp(int64_t bytes, int64_t made);
  // What that gave, by the weight's node, the first axis and how many after it, and the factor: of one weight in many
  // nodes it is one tensor. Invalid until it is set.
  using SumKey = std::tuple<uint32_t, int64_t, int64_t, uint32_t>;
  client::Tensor& AddedUp(const SumKey& key);
  // What an input was dequantized from; null for all else. Until RememberDequantized.
  const Dequantized* DequantizedFrom(size_t input) const;
  void RememberDequantized(client::Tensor made, Dequantized from);
  // An axis from 0, of so many.
  absl::StatusOr<int64_t> Axis(int64_t axis, int64_t rank) const;
  absl::StatusOr<std::vector<int64_t>> Axes(std::vector<int64_t> axes, int64_t rank) const;
  // A shape without variables.
  absl::StatusOr<client::Shape> Dims(client::Tensor tensor) const;
  absl::StatusOr<int64_t> Dim(client::Tensor tensor, int64_t axis) const;

  // -- Making
  // A tensor of known elements: constants in the program, or a constant slot where they are many. A list is what an op
  // has computed, out of a few numbers perhaps, so its bytes are taken from Limits::constant_bytes as the file's are;
  // if they are not left, the graph keeps GRAPH_TOO_LARGE. Of a HostTensor they are counted already: it is one of the
  // file (TensorOf), or MayAddUp allowed it.
  client::Tensor Make(client::HostTensor value);
  client::Tensor Make(const std::vector<int64_t>& values, v1::DType dtype = v1::INT64);
  client::Tensor Make(const std::vector<double>& values, client::Shape shape, v1::DType dtype);
  client::Tensor Make(const client::Sizes& values);
  // GRAPH_TOO_LARGE where a list of so many elements could not be made. To be asked before a long list takes memory;
  // nothing is counted yet.
  absl::Status MayMake(int64_t count, v1::DType dtype) const;
  // A graph that is an attribute, with these as its inputs.
  absl::StatusOr<std::vector<Value>> Run(const ::onnx::GraphProto& graph, std::vector<Value> inputs);
  // OK for so many turns of a loop.
  absl::Status CheckTurns(int64_t turns) const;

  // -- Failing
  // What the standard allows and Kiln does not take, with the reason.
  absl::Status Refuse(absl::string_view reason) const;
  // What the standard does not allow.
  absl::Status Bad(absl::string_view reason) const;

 private:
  // Takes the bytes of such a list. If they are not left, the graph keeps that as its error, and this is false.
  bool TakeBytes(int64_t count, v1::DType dtype);
  const ::onnx::AttributeProto* Attribute(absl::string_view name, int type, absl::string_view type_name);

  Importer& importer_;
  Scope& scope_;
  const ::onnx::NodeProto& proto_;
  const int64_t opset_;
  std::vector<Value> inputs_;
  absl::flat_hash_map<absl::string_view, const ::onnx::AttributeProto*> attributes_;
  absl::Status attribute_status_;
};

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_NODE_H_
