// Goes through a model's nodes in order, and keeps what names stand for.
//
// Inside the room only: model.h is what others see.
#ifndef KILN_MODELS_ONNX_IMPORTER_H_
#define KILN_MODELS_ONNX_IMPORTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/graph.h"
#include "models/onnx/known.h"
#include "models/onnx/model.h"
#include "models/onnx/node.h"
#include "models/onnx/tensor_proto.h"
#include "models/onnx/value.h"
#include "onnx/onnx.pb.h"

namespace kiln::onnx {

// The names of one graph or function body. A graph in a node sees those around it, a function's
// body does not.
struct Scope {
  const Scope* outer = nullptr;
  absl::flat_hash_map<std::string, Value> values = {};
  // Version by domain.
  std::map<std::string, int64_t> opsets = {};
  // A function's attributes as its caller gave them; null outside of functions.
  const absl::flat_hash_map<std::string, const ::onnx::AttributeProto*>* attributes = nullptr;

  const Value* Find(const std::string& name) const;
  // What an attribute is, if it stands for one of the function's; null if that was not given.
  const ::onnx::AttributeProto* Resolve(const ::onnx::AttributeProto& attribute) const;
};

class Importer {
 public:
  Importer(const ImportOptions& options, TensorSource source);

  absl::StatusOr<Model> Run(const ::onnx::ModelProto& model);

  // -- For Node
  client::Graph& graph() { return graph_; }
  KnownValues& known() { return known_; }
  TensorSource& source() { return source_; }
  // By the node that DequantizeLinear made. Equal nodes are one node and have one value, so any of them will do.
  absl::flat_hash_map<uint32_t, Dequantized>& dequantized() { return dequantized_; }
  const ImportOptions& options() const { return options_; }
  client::Tensor Make(client::HostTensor value, const std::string& name);
  const client::HostTensor* Held(client::Tensor tensor) const;
  bool MayAddUp(int64_t bytes, int64_t made);
  std::map<Node::SumKey, client::Tensor>& added() { return added_; }
  absl::StatusOr<std::vector<Value>> RunGraph(const ::onnx::GraphProto& graph, const Scope& outer,
                                              std::vector<Value> inputs);

 private:
  absl::Status AddInputs(const ::onnx::GraphProto& graph, Scope& scope);
  absl::StatusOr<client::Sizes> ShapeOf(const std::string& name, const ::onnx::TypeProto& type);
  absl::Status AddInitializers(const ::onnx::GraphProto& graph, Scope& scope);
  absl::Status RunNodes(const google::protobuf::RepeatedPtrField<::onnx::NodeProto>& nodes, Scope& scope);
  absl::Status RunNode(const ::onnx::NodeProto& proto, Scope& scope);
  absl::StatusOr<std::vector<Value>> RunOp(const ::onnx::NodeProto& proto, Scope& scope, int64_t opset,
                                           std::vector<Value> inputs);
  absl::StatusOr<std::vector<Value>> RunFunction(const ::onnx::FunctionProto& function, const ::onnx::NodeProto& node,
                                                 const Scope& caller, std::vector<Value> inputs);
  absl::StatusOr<Model> Finish(const ::onnx::GraphProto& graph, const Scope& scope);
  void AddOutput(const std::string& name, const Value& value);

  const ImportOptions& options_;
  TensorSource source_;
  client::Graph graph_;
  KnownValues known_;
  Model model_;
  // What Make has put into the program itself, by its node.
  absl::flat_hash_map<uint32_t, client::HostTensor> inline_;
  absl::flat_hash_map<uint32_t, Dequantized> dequantized_;
  size_t results_ = 0;  // of the graph, so far
  // Variables by the name of their dimension.
  std::map<std::string, client::Size> variables_;
  std::map<std::pair<std::string, std::string>, const ::onnx::FunctionProto*> functions_;
  std::map<Node::SumKey, client::Tensor> added_;
  int64_t added_up_ = 0, sums_made_ = 0;  // bytes
  int64_t nodes_ = 0;
  int64_t depth_ = 0;
  uint32_t next_slot_ = 0;
};

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_IMPORTER_H_
