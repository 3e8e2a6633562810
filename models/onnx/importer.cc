// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/importer.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "models/onnx/op_table.h"

namespace kiln::onnx {

using client::Tensor;
using ::onnx::NodeProto;

namespace {

std::string DomainName(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::map<std::string, int64_t> Opsets(const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& imports) {
  std::map<std::string, int64_t> opsets;
  for (const auto& import : imports) opsets[DomainName(import.domain())] = import.version();
  return opsets;
}

// A name of a stranger's, as a message may have it.
std::string Quoted(const std::string& name) { return absl::StrCat("\"", Shown(name), "\""); }

// Counts while it lives.
class Deeper {
 public:
  explicit Deeper(int64_t& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }

 private:
  int64_t& depth_;
};

}  // namespace

const Value* Scope::Find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    const auto found = scope->values.find(name);
    if (found != scope->values.end()) return &found->second;
  }
  return nullptr;
}

const ::onnx::AttributeProto* Scope::Resolve(const ::onnx::AttributeProto& attribute) const {
  if (attribute.ref_attr_name().empty()) return &attribute;
  if (attributes == nullptr) return nullptr;
  const auto found = attributes->find(attribute.ref_attr_name());
  return found != attributes->end() ? found->second : nullptr;
}

absl::StatusOr<std::vector<Value>> Importer::RunGraph(const ::onnx::GraphProto& graph, const Scope& outer,
                                                      std::vector<Value> inputs) {
  const Deeper deeper(depth_);
  if (depth_ > options_.limits.depth) {
    return TooLarge("depth", static_cast<uint64_t>(options_.limits.depth), static_cast<uint64_t>(depth_),
                    "graphs in graphs");
  }
  if (static_cast<size_t>(graph.input_size()) != inputs.size()) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("its graph ", Quoted(graph.name()), " has ", graph.input_size(),
                                                    " inputs, not ", inputs.size()));
  }
  Scope scope{.outer = &outer, .opsets = outer.opsets, .attributes = outer.attributes};
  for (size_t i = 0; i < inputs.size(); ++i) {
    scope.values[graph.input(static_cast<int>(i)).name()] = std::move(inputs[i]);
  }
  KILN_RETURN_IF_ERROR(AddInitializers(graph, scope));
  KILN_RETURN_IF_ERROR(RunNodes(graph.node(), scope));
  std::vector<Value> outputs;
  for (const auto& output : graph.output()) {
    const Value* value = scope.Find(output.name());
    if (value == nullptr)
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat("nothing makes output ", Quoted(output.name())));
    if (value->narrow) {
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("output ", Quoted(output.name()), " of its graph ", Quoted(graph.name()),
                                    " has numbers of fewer bits than a byte"));
    }
    outputs.push_back(*value);
  }
  return outputs;
}

absl::Status Importer::RunNodes(const google::protobuf::RepeatedPtrField<NodeProto>& nodes, Scope& scope) {
  for (int i = 0; i < nodes.size(); ++i) {
    const NodeProto& node = nodes[i];
    absl::Status status = RunNode(node, scope);
    if (status.ok()) continue;
    const std::optional<v1::ErrorDetail> detail = DetailOf(status);
    if (detail && detail->has_node()) return status;  // of a graph inside: it has been named
    const auto opset = scope.opsets.find(DomainName(node.domain()));
    const std::string where =
        absl::StrCat("node ", i, " ", Quoted(node.name()), " (", node.domain().empty() ? "" : Shown(node.domain()),
                     node.domain().empty() ? "" : ".", Shown(node.op_type()), ", opset ",
                     opset != scope.opsets.end() ? absl::StrCat(opset->second) : "unknown", ")");
    return Annotate(WithNode(status, static_cast<uint32_t>(i), Shown(node.op_type()), Shown(node.name())), where);
  }
  return absl::OkStatus();
}

absl::Status Importer::RunNode(const NodeProto& proto, Scope& scope) {
  const Limits& limits = options_.limits;
  if (++nodes_ > limits.nodes) {
    return TooLarge("nodes", static_cast<uint64_t>(limits.nodes), static_cast<uint64_t>(nodes_),
                    "nodes, with each turn of a loop counted");
  }
  std::vector<Value> inputs;
  for (const std::string& name : proto.input()) {
    const Value* value = name.empty() ? nullptr : scope.Find(name);
    if (value == nullptr && !name.empty()) {
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat("nothing before it makes its input ", Quoted(name)));
    }
    inputs.push_back(value != nullptr ? *value : Value());
  }
  const std::string domain = DomainName(proto.domain());
  const auto function = functions_.find({domain, proto.op_type()});
  std::vector<Value> made;
  if (function != functions_.end()) {
    KILN_ASSIGN_OR_RETURN(made, RunFunction(*function->second, proto, scope, std::move(inputs)));
  } else {
    const auto opset = scope.opsets.find(domain);
    if (opset == scope.opsets.end()) {
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat("the model imports no opset of domain ", Quoted(domain)));
    }
    KILN_ASSIGN_OR_RETURN(made, RunOp(proto, scope, opset->second, std::move(inputs)));
  }
  KILN_RETURN_IF_ERROR(graph_.status());
  if (graph_.size() > limits.graph_nodes) {
    return TooLarge("graph_nodes", static_cast<uint64_t>(limits.graph_nodes), graph_.size(), "nodes of the UOp graph");
  }
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty()) continue;
    if (static_cast<size_t>(i) >= made.size() || !made[i].given()) {
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("its output ", i, " is not made here"));
    }
    if (made[i].tensor.rank() > limits.rank) {
      return TooLarge("rank", static_cast<uint64_t>(limits.rank), static_cast<uint64_t>(made[i].tensor.rank()), "axes");
    }
    scope.values[proto.output(i)] = std::move(made[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Value>> Importer::RunOp(const NodeProto& proto, Scope& scope, int64_t opset,
                                                   std::vector<Value> inputs) {
  KILN_ASSIGN_OR_RETURN(const OpRow* row, FindOp(DomainName(proto.domain()), proto.op_type(), opset));
  while (!inputs.empty() && !inputs.back().given()) inputs.pop_back();
  const auto count = static_cast<int>(std::min<size_t>(inputs.size(), kAny));
  if (count > row->most) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("it has ", count, " inputs; there are at most ", row->most));
  }
  for (int i = 0; i < row->least; ++i) {
    if (i >= count || !inputs[i].given()) return MakeError(v1::BAD_ARGUMENT, absl::StrCat("input ", i, " is missing"));
  }
  for (int i = 0; i < count && !row->sequences; ++i) {
    if (inputs[i].given() && !inputs[i].tensor.valid()) {
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("input ", i, " is a sequence or an optional, not a tensor"));
    }
  }
  for (int i = 0; i < count && !row->narrow; ++i) {
    if (inputs[i].narrow) {
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("input ", i, " has numbers of fewer bits than a byte; ",
                                                        "DequantizeLinear and Cast take them"));
    }
  }
  Node node(*this, scope, proto, opset, std::move(inputs));
  absl::StatusOr<Outputs> outputs = row->function(node);
  KILN_RETURN_IF_ERROR(node.attribute_status());
  KILN_RETURN_IF_ERROR(graph_.status());
  KILN_RETURN_IF_ERROR(outputs.status());
  return std::move(outputs->values);
}

absl::StatusOr<std::vector<Value>> Importer::RunFunction(const ::onnx::FunctionProto& function, const NodeProto& node,
                                                         const Scope& caller, std::vector<Value> inputs) {
  const Deeper deeper(depth_);
  if (depth_ > options_.limits.depth) {
    return TooLarge("depth", static_cast<uint64_t>(options_.limits.depth), static_cast<uint64_t>(depth_),
                    "functions in functions");
  }
  absl::flat_hash_map<std::string, const ::onnx::AttributeProto*> attributes;
  for (const auto& attribute : function.attribute_proto()) attributes[attribute.name()] = &attribute;
  for (const auto& attribute : node.attribute()) {
    if (const auto* meant = caller.Resolve(attribute)) attributes[attribute.name()] = meant;
  }
  Scope scope{.opsets = Opsets(function.opset_import()), .attributes = &attributes};
  if (inputs.size() > static_cast<size_t>(function.input_size())) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("the function has ", function.input_size(), " inputs"));
  }
  for (int i = 0; i < function.input_size(); ++i) {
    scope.values[function.input(i)] = static_cast<size_t>(i) < inputs.size() ? inputs[i] : Value();
  }
  KILN_RETURN_IF_ERROR(RunNodes(function.node(), scope));
  std::vector<Value> outputs;
  for (const std::string& name : function.output()) {
    const Value* value = scope.Find(name);
    outputs.push_back(value != nullptr ? *value : Value());
  }
  return outputs;
}

}  // namespace kiln::onnx
