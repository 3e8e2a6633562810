// Tested by tests/e2e/serving/graph_models_test.cc and tests/e2e/serving/graph_models_test.py.
#include "server/models/graph_files.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "base/message_parts.h"
#include "models/kgraph/signature.h"
#include "server/engine/memory/tensor_type.h"
#include "server/files/data_folder.h"
#include "server/files/tensor_file.h"

namespace kiln::server {
namespace {

absl::Status Bad(const char* file, absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(file);
  return MakeError(std::move(detail), absl::StrCat(file, ": ", what));
}

std::string Quoted(absl::string_view name) { return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 100)), "\""); }

// `file` of the version. The folder of models is three names above the model's file, and nothing leads out of it.
absl::StatusOr<std::shared_ptr<const DataFile>> Open(const ModelFiles& files, const char* file, uint64_t max_bytes,
                                                     const char* limit = "model_limits.max_bytes") {
  const std::string below = absl::StrCat(files.name, "/", files.version, "/");
  const std::string root = files.path.substr(0, files.path.size() - below.size() - std::string(kGraphFile).size());
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<DataFolder> folder, DataFolder::Open(root));
  auto found = folder->Find(below + file);
  if (!found.ok()) return Bad(file, "is no file that can be read");
  if ((*found)->bytes() > max_bytes) {
    return TooLarge(limit, max_bytes, (*found)->bytes(),
                    absl::StrCat(file, ": has ", (*found)->bytes(), " bytes; at most ", max_bytes, " are taken"));
  }
  return found;
}

bool IsCode(v1::Op op) {
  return op == v1::CUSTOM || op == v1::CUSTOMI || op == v1::INS || op == v1::SOURCE || op == v1::CUSTOM_FUNCTION ||
         op == v1::PROGRAM;
}

bool NamesDevice(const v1::UOp& uop) {
  return uop.op() == v1::DEVICE || uop.buffer().device_size() > 0 || uop.load().device_size() > 0 ||
         uop.all_reduce().device_size() > 0;
}

absl::Status TooMany(const char* limit, uint64_t limit_value) {
  return TooLarge(limit, limit_value, limit_value + 1,  // as far as it was counted
                  absl::StrCat(kGraphFile, ": has more than ", limit_value, " ", limit, ", as many as are taken"));
}

// Slots that arguments may have, which count as in a client's request.
constexpr uint64_t kSlots = 1 << 16;

// As a client's graph is counted (server/services/requests/codec.h).
absl::Status CheckParts(absl::string_view graph, const compiler::Limits& limits) {
  const uint64_t max_parts = 4 * (limits.max_nodes + kSlots);
  uint64_t nodes = 0, parts = 0;
  const auto add = [&](FieldKind kind, const google::protobuf::Descriptor* type, uint64_t bytes) {
    parts += kind == FieldKind::kPacked ? bytes / kPackedInAPart : 1;
    if (type == v1::UOp::descriptor() && ++nodes > limits.max_nodes) return TooMany("nodes", limits.max_nodes);
    return parts > max_parts ? TooMany("message parts", max_parts) : absl::OkStatus();
  };
  const absl::Status counted = CountParts(graph, *v1::Graph::descriptor(), add);
  return absl::IsResourceExhausted(counted) || counted.ok() ? counted : Annotate(counted, kGraphFile);
}

absl::StatusOr<v1::Graph> ReadGraph(const ModelFiles& files, uint64_t max_bytes, const compiler::Limits& limits) {
  const bool is_less = limits.max_bytes < max_bytes;
  KILN_ASSIGN_OR_RETURN(const auto file, Open(files, kGraphFile, is_less ? limits.max_bytes : max_bytes,
                                              is_less ? "bytes" : "model_limits.max_bytes"));
  std::string bytes(file->bytes(), '\0');
  if (absl::Status read = file->Read(0, bytes.size(), bytes.data()); !read.ok()) return Annotate(read, kGraphFile);
  KILN_RETURN_IF_ERROR(CheckParts(bytes, limits));
  v1::Graph graph;
  if (!graph.ParseFromString(bytes))
    return MakeError(v1::MALFORMED_MESSAGE,
                     absl::StrCat(kGraphFile, ": no serialized kiln.v1.Graph: it ends too early, or is damaged"));
  for (int node = 0; node < graph.nodes_size(); ++node) {
    const v1::UOp& uop = graph.nodes(node);
    if (IsCode(uop.op()))
      return Bad(kGraphFile, absl::StrCat("node ", node, " (", v1::Op_Name(uop.op()),
                                          ") carries code, and a model's file is data"));
    if (NamesDevice(uop))
      return Bad(kGraphFile, absl::StrCat("node ", node, " names a device; models are on that of --models_device"));
  }
  if (graph.nodes_size() == 0 || graph.nodes(graph.nodes_size() - 1).op() != v1::TUPLE)
    return Bad(kGraphFile, "its root is no TUPLE of results");
  return graph;
}

// The tensors that the graph reads, by the slots with which their names begin.
absl::Status ReadConstants(const DataFile& file, const std::vector<StoredTensor>& tensors, onnx::Model& model) {
  std::set<uint32_t> read, taken;
  for (const v1::UOp& uop : model.graph.nodes()) {
    if (uop.op() == v1::PARAM) read.insert(uop.buffer().slot());
  }
  for (const onnx::Model::Input& input : model.inputs) taken.insert(input.slot);
  for (const client::SizeVariable& variable : model.variables) taken.insert(variable.slot);
  uint64_t end = 0;  // of what came before; they are in the order of their places
  for (const StoredTensor& tensor : tensors) {
    const std::string name = Quoted(tensor.name);
    uint32_t slot = 0;
    if (!absl::SimpleAtoi(tensor.name.substr(0, tensor.name.find('_')), &slot))
      return Bad(kConstantsFile, absl::StrCat(name, " begins with no slot, as \"3_weight\" does"));
    if (!taken.insert(slot).second) return Bad(kConstantsFile, absl::StrCat(name, ": slot ", slot, " is there twice"));
    // Else a small file could ask for any memory.
    if (tensor.bytes > 0 && tensor.offset < end)
      return Bad(kConstantsFile, absl::StrCat(name, " has bytes that are another's, too"));
    end = tensor.offset + tensor.bytes;
    if (!read.contains(slot)) continue;
    onnx::Model::Constant constant{tensor.name, slot, {tensor.dtype, tensor.shape, std::string(tensor.bytes, '\0')}};
    const absl::Status held = file.Read(tensor.offset, tensor.bytes, constant.value.bytes.data());
    if (!held.ok()) return Annotate(held, kConstantsFile);
    model.constants.push_back(std::move(constant));
  }
  return absl::OkStatus();
}

// What the signature says of a size against what the program has: a number, or the greatest and how it is computed.
bool IsSize(const client::Size& size, int64_t greatest, const v1::SizeExpr* computed, const v1::Signature& program) {
  if (const std::optional<int64_t> number = size.number()) return computed == nullptr && *number == greatest;
  if (computed == nullptr) return false;
  if (!size.valid()) return true;  // it follows from others, is all that is said
  if (computed->token_size() != 1 || computed->token(0).op() != v1::SizeExpr::VARIABLE) return false;
  const int64_t variable = computed->token(0).value();
  return variable >= 0 && variable < program.variables_size() &&
         program.variables(static_cast<int>(variable)).slot() == size.terms().begin()->first.front().slot;
}

// `row` is a parameter or a result of the program's.
template <typename Row>
bool IsLike(v1::DType dtype, const client::Sizes& shape, const Row& row, const v1::Signature& program) {
  if (row.dtype() != dtype || row.shape_size() != static_cast<int>(shape.size())) return false;
  std::map<uint32_t, const v1::SizeExpr*> computed;
  for (const auto& axis : row.symbolic()) computed[axis.axis()] = &axis.size();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto found = computed.find(static_cast<uint32_t>(axis));
    if (!IsSize(shape[axis], row.shape(static_cast<int>(axis)), found == computed.end() ? nullptr : found->second,
                program)) {
      return false;
    }
  }
  return true;
}

// "float32 [batch, 4]"; of a computed size, its greatest value.
template <typename Row>
std::string Said(const Row& row) {
  std::string text = TensorTypeName(row.dtype(), std::vector<int64_t>(row.shape().begin(), row.shape().end()));
  return row.symbolic_size() == 0 ? text : absl::StrCat("at most ", text);
}

absl::Status CheckParameter(const onnx::Model& model, const v1::Signature::Parameter& row,
                            const v1::Signature& program) {
  const auto with_slot = [&row](const auto& list) {
    return std::find_if(list.begin(), list.end(), [&row](const auto& each) { return each.slot == row.slot(); });
  };
  const auto input = with_slot(model.inputs);
  const auto constant = with_slot(model.constants);
  const bool is_input = input != model.inputs.end();
  if (!is_input && constant == model.constants.end())
    return Bad(kGraphFile, absl::StrCat("it reads slot ", row.slot(), ", which is neither an input nor a constant"));
  const std::string name = Quoted(is_input ? input->name : constant->name);
  if (row.written())
    return Bad(kGraphFile, absl::StrCat("it writes to ", name, "; a model changes nothing that it is given"));
  const v1::DType dtype = is_input ? input->dtype : constant->value.dtype;
  const client::Sizes shape = is_input ? input->shape : client::Sizes(constant->value.shape);
  if (IsLike(dtype, shape, row, program)) return absl::OkStatus();
  return Bad(kConstantsFile, absl::StrCat(is_input ? "input " : "constant ", name, " is ",
                                          client::TypeText(dtype, shape), "; the graph reads ", Said(row)));
}

}  // namespace

absl::StatusOr<onnx::Model> ReadGraphFiles(const ModelFiles& files, uint64_t max_bytes,
                                           const compiler::Limits& limits) {
  onnx::Model model;
  KILN_ASSIGN_OR_RETURN(model.graph, ReadGraph(files, max_bytes, limits));
  const absl::StatusOr<GraphHash> hash = HashGraph(model.graph);
  if (!hash.ok()) return Annotate(hash.status(), kGraphFile);
  KILN_ASSIGN_OR_RETURN(const auto file, Open(files, kConstantsFile, max_bytes));
  absl::StatusOr<NotedTensors> found = ListSafetensors(*file);
  if (!found.ok()) return Annotate(found.status(), kConstantsFile);
  const auto signature = found->metadata.find(kgraph::kSignatureKey);
  if (signature == found->metadata.end()) {
    return Bad(kConstantsFile, absl::StrCat("has no signature (__metadata__, \"", kgraph::kSignatureKey,
                                            "\"); kiln import and kiln.save_model write one"));
  }
  if (absl::Status read = kgraph::ReadSignature(signature->second, *hash, model); !read.ok())
    return Annotate(read, kConstantsFile);
  KILN_RETURN_IF_ERROR(ReadConstants(*file, found->tensors, model));
  const int results = model.graph.nodes(model.graph.nodes_size() - 1).src_size();
  if (results != static_cast<int>(model.outputs.size()))
    return Bad(kConstantsFile, absl::StrCat("there are ", model.outputs.size(), " outputs; the graph has ", results));
  return model;
}

absl::Status CheckProgram(const onnx::Model& model, const v1::Signature& program) {
  std::set<uint32_t> decided;  // sizes that requests' shapes say
  for (const onnx::Model::Input& input : model.inputs) {
    for (const client::Size& size : input.shape) {
      if (!size.number().has_value()) decided.insert(size.terms().begin()->first.front().slot);
    }
  }
  for (const v1::Signature::Variable& row : program.variables()) {
    const auto size = std::find_if(model.variables.begin(), model.variables.end(),
                                   [&row](const auto& each) { return each.slot == row.slot(); });
    if (size == model.variables.end() || !decided.contains(row.slot()))
      return Bad(kConstantsFile, absl::StrCat("the graph's size ", Quoted(row.name()), " in slot ", row.slot(),
                                              " is in no input's shape"));
    if (size->least != row.min_value() || size->greatest != row.max_value()) {
      return Bad(kConstantsFile, absl::StrCat("size ", Quoted(size->name), " is ", size->least, " to ", size->greatest,
                                              "; the graph's is ", row.min_value(), " to ", row.max_value()));
    }
  }
  for (const v1::Signature::Parameter& row : program.parameters())
    KILN_RETURN_IF_ERROR(CheckParameter(model, row, program));
  if (program.results_size() != static_cast<int>(model.outputs.size())) {
    return Bad(kConstantsFile,
               absl::StrCat("there are ", model.outputs.size(), " outputs; the program has ", program.results_size()));
  }
  for (size_t place = 0; place < model.outputs.size(); ++place) {
    const onnx::Model::Output& output = model.outputs[place];
    const v1::Signature::Result& row = program.results(static_cast<int>(place));
    if (IsLike(output.dtype, output.shape, row, program)) continue;
    return Bad(kConstantsFile, absl::StrCat("output ", Quoted(output.name),
                                            " is not as the signature says; the graph's is ", Said(row)));
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
