// The beginning and the end of an import: from a file to inputs and initialisers, and from
// outputs to a program.
#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/message_parts.h"
#include "client/cpp/movement.h"
#include "models/onnx/importer.h"
#include "models/onnx/model.h"
#include "onnx/onnx.pb.h"

namespace kiln::onnx {
namespace {

using client::HostTensor;
using client::Size;
using client::Sizes;
using client::Tensor;

// Elements that stand in the program itself.
constexpr int64_t kInline = 16;
// Slots of a program, as docs/ir.md has them.
constexpr uint32_t kSlots = 65536;

absl::Status FieldError(v1::ErrorCode code, const std::string& field, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(Shown(field));
  return MakeError(detail, message);
}

// Packed numbers take but a few times the memory that they have in the file.
absl::Status CheckParts(absl::string_view file, const Limits& limits) {
  int64_t parts = 0;
  return CountParts(file, *::onnx::ModelProto::descriptor(),
                    [&](FieldKind kind, const google::protobuf::Descriptor*, uint64_t) {
                      if (kind == FieldKind::kPacked || ++parts <= limits.parts) return absl::OkStatus();
                      return TooLarge("parts", static_cast<uint64_t>(limits.parts), static_cast<uint64_t>(parts),
                                      "messages, texts and unknown fields of the model's file");
                    });
}

absl::StatusOr<::onnx::ModelProto> Parse(absl::string_view file, const Limits& limits) {
  if (static_cast<int64_t>(file.size()) > limits.file_bytes) {
    return TooLarge("file_bytes", static_cast<uint64_t>(limits.file_bytes), file.size(), "the model's file");
  }
  ::onnx::ModelProto model;
  const absl::Status counted = CheckParts(file, limits);
  if (absl::IsResourceExhausted(counted)) return counted;
  if (!counted.ok() || !model.ParseFromArray(file.data(), static_cast<int>(file.size()))) {
    return MakeError(v1::MALFORMED_MESSAGE,
                     "the file is no ONNX model: it ends too early, or its messages are damaged");
  }
  if (!model.has_graph()) return MakeError(v1::MALFORMED_MESSAGE, "the model has no graph");
  const ::onnx::GraphProto& graph = model.graph();
  const int64_t tensors = int64_t{graph.input_size()} + graph.output_size() + graph.initializer_size();
  if (tensors > limits.tensors) {
    return TooLarge("tensors", static_cast<uint64_t>(limits.tensors), static_cast<uint64_t>(tensors),
                    "inputs, outputs and initialisers");
  }
  return model;
}

absl::StatusOr<Model> ImportFrom(absl::string_view file, const ImportOptions& options, TensorSource source) {
  KILN_ASSIGN_OR_RETURN(const ::onnx::ModelProto model, Parse(file, options.limits));
  return Importer(options, std::move(source)).Run(model);
}

}  // namespace

Importer::Importer(const ImportOptions& options, TensorSource source)
    : options_(options),
      source_(std::move(source)),
      known_(
          &graph_, options.limits,
          [this](uint32_t slot) -> const HostTensor* {
            if (slot >= model_.inputs.size()) {
              for (const Model::Constant& constant : model_.constants) {
                if (constant.slot == slot) return &constant.value;
              }
              return nullptr;
            }
            const Model::Input& input = model_.inputs[slot];
            const auto offered = options_.values.find(input.name);
            const bool fits = offered != options_.values.end() && offered->second.dtype == input.dtype &&
                              Sizes(offered->second.shape) == input.shape;
            return fits ? &offered->second : nullptr;
          },
          [this](uint32_t slot) {
            if (slot < model_.inputs.size()) model_.inputs[slot].fixed = true;
          }) {
  source_.bytes_left = source_.most_bytes = options.limits.constant_bytes;
  source_.most_rank = options.limits.rank;
}

Tensor Importer::Make(HostTensor value, const std::string& name) {
  const int64_t count = client::ElementCount(value.shape).value_or(0);
  if (count > 0 && count <= kInline) {
    const std::optional<Known> known = FromHost(value);
    std::vector<Tensor> elements;
    for (int64_t i = 0; i < count; ++i) {
      const bool wide = value.dtype == v1::UINT64;
      const int64_t integer = known->IsReal() ? 0 : *known->integers[i].number();
      elements.push_back(known->IsReal() ? graph_.Constant(known->reals[i], value.dtype)
                         : wide          ? graph_.Constant(static_cast<uint64_t>(integer), value.dtype)
                                         : graph_.Constant(integer, value.dtype));
    }
    const Tensor made = value.shape.empty() ? elements[0] : client::Reshape(client::Stack(elements), value.shape);
    if (made.valid()) inline_.try_emplace(made.node(), std::move(value));
    return made;
  }
  if (count == 0) return graph_.Zeros(value.shape, value.dtype);
  if (next_slot_ >= kSlots)
    return graph_.Fail(TooLarge("slots", kSlots, next_slot_, "inputs, variables and constants"));
  const Tensor param = graph_.Param(next_slot_, value.dtype, value.shape, Shown(name));
  model_.constants.push_back({name, next_slot_++, std::move(value)});
  return param;
}

const HostTensor* Importer::Held(Tensor tensor) const {
  if (!tensor.valid()) return nullptr;
  const auto found = inline_.find(tensor.node());
  if (found != inline_.end()) return &found->second;
  const v1::UOp& uop = graph_.uop(tensor.node());
  if (uop.op() != v1::PARAM) return nullptr;
  const auto constant = std::ranges::lower_bound(model_.constants, uop.buffer().slot(), {}, &Model::Constant::slot);
  return constant != model_.constants.end() && constant->slot == uop.buffer().slot() ? &constant->value : nullptr;
}

// What the file itself holds keeps half of the slots, and its bytes: the program can add up by itself.
bool Importer::MayAddUp(int64_t bytes, int64_t made) {
  if (bytes > options_.limits.added_bytes - added_up_ || made > options_.limits.constant_bytes / 4 - sums_made_ ||
      next_slot_ >= kSlots / 2) {
    return false;
  }
  added_up_ += bytes;
  sums_made_ += made;
  return true;
}

absl::StatusOr<Sizes> Importer::ShapeOf(const std::string& name, const ::onnx::TypeProto& type) {
  const auto said = options_.shapes.find(name);
  if (said != options_.shapes.end()) return Sizes(said->second);
  const auto& tensor = type.tensor_type();
  if (!tensor.has_shape()) {
    return FieldError(v1::UNSUPPORTED_OP, name,
                      absl::StrCat("input \"", Shown(name), "\" has no shape in the file; give one"));
  }
  Sizes sizes;
  for (const auto& dim : tensor.shape().dim()) {
    if (dim.has_dim_value()) {
      sizes.push_back(dim.dim_value());
      continue;
    }
    const std::string& symbol = dim.dim_param();
    const auto named = options_.dimensions.find(symbol);
    const auto range = named == options_.dimensions.end() ? options_.any_dimension : named->second;
    if (symbol.empty() || !range.has_value()) {
      return FieldError(v1::UNSUPPORTED_OP, name,
                        absl::StrCat("axis ", sizes.size(), " of input \"", Shown(name), "\" is of ",
                                     symbol.empty() ? "no size; give the input's shape"
                                                    : absl::StrCat("size \"", Shown(symbol), "\"; give its range")));
    }
    const auto [least, greatest] = *range;
    if (least == greatest) {
      sizes.push_back(least);
      continue;
    }
    auto [variable, made] = variables_.try_emplace(symbol);
    if (made) {
      variable->second = graph_.Variable(next_slot_, least, greatest, Shown(symbol));
      model_.variables.push_back({next_slot_++, Shown(symbol), least, greatest});
    }
    sizes.push_back(variable->second);
  }
  return sizes;
}

absl::Status Importer::AddInputs(const ::onnx::GraphProto& graph, Scope& scope) {
  std::set<std::string> initialised;
  for (const auto& tensor : graph.initializer()) initialised.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) initialised.insert(tensor.values().name());
  std::vector<const ::onnx::ValueInfoProto*> inputs;
  for (const auto& input : graph.input()) {
    if (!initialised.contains(input.name())) inputs.push_back(&input);
  }
  next_slot_ = static_cast<uint32_t>(inputs.size());
  for (const ::onnx::ValueInfoProto* input : inputs) {
    if (!input->type().has_tensor_type()) {
      return FieldError(v1::UNSUPPORTED_OP, input->name(),
                        absl::StrCat("input \"", Shown(input->name()),
                                     "\" is no tensor: sequences, maps and optionals are no arguments of a program"));
    }
    absl::StatusOr<v1::DType> dtype = DTypeOf(input->type().tensor_type().elem_type());
    if (!dtype.ok()) return Annotate(dtype.status(), absl::StrCat("input \"", Shown(input->name()), "\""));
    KILN_ASSIGN_OR_RETURN(const Sizes shape, ShapeOf(input->name(), input->type()));
    if (static_cast<int64_t>(shape.size()) > options_.limits.rank) {
      return TooLarge("rank", static_cast<uint64_t>(options_.limits.rank), shape.size(), "axes of an input");
    }
    for (const Size& size : shape) {
      if (size.least() < 0) return FieldError(v1::BAD_ARGUMENT, input->name(), absl::StrCat("a size of ", size.Text()));
    }
    const auto slot = static_cast<uint32_t>(model_.inputs.size());
    const Tensor param = graph_.Param(slot, *dtype, shape, Shown(input->name()));
    KILN_RETURN_IF_ERROR(graph_.status());
    scope.values[input->name()] = param;
    model_.inputs.push_back({input->name(), slot, *dtype, shape});
  }
  return absl::OkStatus();
}

absl::Status Importer::AddInitializers(const ::onnx::GraphProto& graph, Scope& scope) {
  for (const auto& tensor : graph.initializer()) {
    bool narrow = false;
    KILN_ASSIGN_OR_RETURN(HostTensor read, ReadTensor(tensor, source_, &narrow));
    Value& value = scope.values[tensor.name()] = Make(std::move(read), tensor.name());
    value.narrow = narrow;
  }
  for (const auto& tensor : graph.sparse_initializer()) {
    KILN_ASSIGN_OR_RETURN(HostTensor value, ReadSparse(tensor, source_));
    scope.values[tensor.values().name()] = Make(std::move(value), tensor.values().name());
  }
  return graph_.status();
}

void Importer::AddOutput(const std::string& name, const Value& value) {
  const auto add = [&](Tensor tensor, std::optional<size_t> index, size_t length) {
    model_.outputs.push_back({name, tensor.dtype(), tensor.sizes(), index, length, results_++});
    graph_.Output(tensor);
  };
  if (value.sequence) {
    for (size_t i = 0; i < value.sequence->size(); ++i) add((*value.sequence)[i], i, value.sequence->size());
    if (value.sequence->empty()) model_.outputs.push_back({.name = name, .index = 0});
  } else if (value.empty_optional) {
    model_.outputs.push_back({.name = name});
  } else {
    add(value.tensor, std::nullopt, 0);
  }
}

absl::StatusOr<Model> Importer::Run(const ::onnx::ModelProto& model) {
  Scope scope;
  for (const auto& import : model.opset_import()) {
    const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    scope.opsets[domain] = import.version();
    if (domain.empty() && import.version() < 7) {
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("the model is of opset ", import.version(), "; 7 is the first that is taken"));
    }
  }
  for (const auto& function : model.functions()) {
    functions_[{function.domain() == "ai.onnx" ? "" : function.domain(), function.name()}] = &function;
  }
  KILN_RETURN_IF_ERROR(AddInputs(model.graph(), scope));
  KILN_RETURN_IF_ERROR(AddInitializers(model.graph(), scope));
  KILN_RETURN_IF_ERROR(RunNodes(model.graph().node(), scope));
  return Finish(model.graph(), scope);
}

absl::StatusOr<Model> Importer::Finish(const ::onnx::GraphProto& graph, const Scope& scope) {
  for (const auto& output : graph.output()) {
    const Value* value = scope.Find(output.name());
    if (value == nullptr) {
      return FieldError(v1::BAD_ARGUMENT, output.name(),
                        absl::StrCat("nothing makes output \"", Shown(output.name()), "\""));
    }
    if (value->narrow) {
      return FieldError(v1::UNSUPPORTED_OP, output.name(),
                        absl::StrCat("output \"", Shown(output.name()), "\" has numbers of fewer bits than a byte"));
    }
    AddOutput(output.name(), *value);
  }
  KILN_ASSIGN_OR_RETURN(model_.graph, graph_.Build());
  std::set<uint32_t> used;
  for (const v1::UOp& uop : model_.graph.nodes()) {
    if (uop.op() == v1::PARAM) used.insert(uop.buffer().slot());
  }
  for (Model::Input& input : model_.inputs) input.used = used.contains(input.slot);
  std::erase_if(model_.constants, [&](const Model::Constant& constant) { return !used.contains(constant.slot); });
  std::erase_if(model_.variables, [&](const client::SizeVariable& variable) { return !used.contains(variable.slot); });
  return std::move(model_);
}

absl::StatusOr<Model> Import(absl::string_view file, const ImportOptions& options) {
  return ImportFrom(file, options, {});
}

absl::StatusOr<Model> ImportFile(const std::string& path, const ImportOptions& options) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  const std::streamoff size = stream.tellg();
  if (size < 0 || size > options.limits.file_bytes) {
    return TooLarge("file_bytes", static_cast<uint64_t>(options.limits.file_bytes), static_cast<uint64_t>(size), path);
  }
  std::string file(static_cast<size_t>(size), '\0');
  stream.seekg(0);
  if (!stream.read(file.data(), size)) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  const size_t slash = path.rfind('/');
  return ImportFrom(file, options,
                    {.folder = slash == std::string::npos ? "." : path.substr(0, slash + 1), .has_folder = true});
}

}  // namespace kiln::onnx
