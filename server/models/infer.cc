#include "server/models/infer.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"
#include "server/models/classify.h"

namespace kiln::server {
namespace {

using InputTensor = inference::ModelInferRequest::InferInputTensor;

// Names of the model's own are as long as they are; those of a request are cut.
std::string Shown(absl::string_view name) { return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)), "\""); }

absl::Status Bad(absl::string_view name, absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(std::string(name));
  return MakeError(detail, what);
}

absl::Status BadInput(absl::string_view name, absl::string_view what) {
  return Bad(name, absl::StrCat("input ", Shown(name), " ", what));
}

// No longer than a message may be, whatever came.
std::string ShapeText(absl::Span<const int64_t> shape) {
  constexpr size_t kMaxShown = 16;
  return absl::StrCat("[", absl::StrJoin(shape.subspan(0, kMaxShown), ","), shape.size() > kMaxShown ? ",...]" : "]");
}

// As the model has it: "[batch,3]".
std::string ShapeText(const ServedModel& model, const ServedModel::Input& input) {
  return absl::StrCat("[",
                      absl::StrJoin(input.shape, ",",
                                    [&](std::string* text, const ModelDimension& size) {
                                      if (size.variable == ModelDimension::kNumber) {
                                        absl::StrAppend(text, size.size);
                                      } else {
                                        absl::StrAppend(text, model.variables[size.variable].name);
                                      }
                                    }),
                      "]");
}

// The values of variables, by the first input that has each.
struct Binding {
  std::vector<std::optional<int64_t>> values;
  std::vector<const ServedModel::Input*> by;
};

absl::Status BindShape(const ServedModel& model, const ServedModel::Input& input, absl::Span<const int64_t> shape,
                       Binding& binding) {
  const auto refuse = [&](absl::string_view why) {
    return BadInput(input.name,
                    absl::StrCat("has shape ", ShapeText(shape), "; the model takes ", ShapeText(model, input), why));
  };
  if (shape.size() != input.shape.size()) return refuse("");
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const ModelDimension& wanted = input.shape[axis];
    if (wanted.variable == ModelDimension::kNumber) {
      if (shape[axis] != wanted.size) return refuse("");
      continue;
    }
    const ServedModel::Variable& variable = model.variables[wanted.variable];
    if (shape[axis] < variable.least || shape[axis] > variable.greatest) {
      return refuse(absl::StrCat(", with ", variable.name, " from ", variable.least, " to ", variable.greatest));
    }
    std::optional<int64_t>& value = binding.values[wanted.variable];
    if (!value.has_value()) {
      value = shape[axis];
      binding.by[wanted.variable] = &input;
    } else if (*value != shape[axis]) {
      return refuse(absl::StrCat(", and ", variable.name, " is ", *value, " by input ",
                                 Shown(binding.by[wanted.variable]->name)));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::string_view Bytes(const google::protobuf::RepeatedField<T>& field) {
  return {reinterpret_cast<const char*>(field.data()), static_cast<size_t>(field.size()) * sizeof(T)};
}

// Elements that came in a wider type.
template <typename Narrow, typename Wide>
absl::StatusOr<absl::string_view> Narrowed(const InputTensor& input, const google::protobuf::RepeatedField<Wide>& field,
                                           std::deque<std::string>& narrowed) {
  std::string& bytes = narrowed.emplace_back();
  bytes.reserve(static_cast<size_t>(field.size()) * sizeof(Narrow));
  for (const Wide value : field) {
    const auto narrow = static_cast<Narrow>(value);
    if (narrow != value)
      return BadInput(input.name(), absl::StrCat("has the element ", value, ", which is no ", input.datatype()));
    bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
  }
  return absl::string_view(bytes);
}

// How many of its fields have elements.
int FilledFields(const inference::InferTensorContents& contents) {
  return (contents.bool_contents_size() > 0) + (contents.int_contents_size() > 0) +
         (contents.int64_contents_size() > 0) + (contents.uint_contents_size() > 0) +
         (contents.uint64_contents_size() > 0) + (contents.fp32_contents_size() > 0) +
         (contents.fp64_contents_size() > 0) + (contents.bytes_contents_size() > 0);
}

absl::StatusOr<absl::string_view> TypedBytes(const InputTensor& input, const Datatype& datatype,
                                             std::deque<std::string>& narrowed) {
  if (datatype.typed.empty()) {
    return BadInput(input.name(),
                    absl::StrCat("is ", datatype.name, ", which has no typed contents; send it in raw_input_contents"));
  }
  const inference::InferTensorContents& contents = input.contents();
  const auto bytes = [&]() -> absl::StatusOr<absl::string_view> {
    switch (datatype.dtype) {
      case v1::BOOL: return Bytes(contents.bool_contents());
      case v1::INT8: return Narrowed<int8_t>(input, contents.int_contents(), narrowed);
      case v1::INT16: return Narrowed<int16_t>(input, contents.int_contents(), narrowed);
      case v1::INT32: return Bytes(contents.int_contents());
      case v1::INT64: return Bytes(contents.int64_contents());
      case v1::UINT8: return Narrowed<uint8_t>(input, contents.uint_contents(), narrowed);
      case v1::UINT16: return Narrowed<uint16_t>(input, contents.uint_contents(), narrowed);
      case v1::UINT32: return Bytes(contents.uint_contents());
      case v1::UINT64: return Bytes(contents.uint64_contents());
      case v1::FLOAT32: return Bytes(contents.fp32_contents());
      case v1::FLOAT64: return Bytes(contents.fp64_contents());
      default: return absl::string_view();
    }
  }();
  if (bytes.ok() && FilledFields(contents) > (bytes->empty() ? 0 : 1)) {
    return BadInput(input.name(),
                    absl::StrCat("is ", datatype.name, ", whose elements are ", datatype.typed, " alone"));
  }
  return bytes;
}

// How many bytes the tensor has, of a shape within the model's sizes.
absl::StatusOr<uint64_t> SizeOf(const InputTensor& input, const Datatype& datatype) {
  uint64_t bytes = datatype.bytes;
  for (const int64_t size : input.shape()) {
    const auto factor = static_cast<uint64_t>(size);
    if (factor != 0 && bytes > std::numeric_limits<uint64_t>::max() / factor)
      return BadInput(input.name(), "has more bytes than any memory");
    bytes *= factor;
  }
  return bytes;
}

absl::Status CheckSize(const InputTensor& input, const Datatype& datatype, uint64_t came) {
  KILN_ASSIGN_OR_RETURN(const uint64_t wanted, SizeOf(input, datatype));
  if (came == wanted) return absl::OkStatus();
  return BadInput(input.name(), absl::StrCat("of shape ", ShapeText(input.shape()), " and ", datatype.name, " has ",
                                             wanted, " bytes; ", came, " came"));
}

// The tensor's bytes, as many as its shape says.
absl::StatusOr<absl::string_view> BytesOf(const InputTensor& input, const std::string* raw, const Datatype& datatype,
                                          std::deque<std::string>& narrowed) {
  if (raw != nullptr && input.has_contents())
    return BadInput(input.name(), "has contents beside raw_input_contents; send one of the two");
  absl::string_view bytes;
  if (raw != nullptr) {
    bytes = *raw;
  } else {
    KILN_ASSIGN_OR_RETURN(bytes, TypedBytes(input, datatype, narrowed));
  }
  KILN_RETURN_IF_ERROR(CheckSize(input, datatype, bytes.size()));
  return bytes;
}

// The raw contents, one after the other, for the inputs that are in no region.
class RawContents {
 public:
  static absl::StatusOr<RawContents> Of(const inference::ModelInferRequest& message) {
    int in_message = 0;
    for (const InputTensor& input : message.inputs()) in_message += IsInRegion(input.parameters()) ? 0 : 1;
    const int raw = message.raw_input_contents_size();
    if (raw == 0 || raw == in_message) return RawContents(message);
    return Bad("raw_input_contents", absl::StrCat("there are ", raw, " of them for ", in_message, " inputs",
                                                  in_message == message.inputs_size() ? "" : " that are in no region",
                                                  "; send one for each, or none"));
  }

  // Null where there are none.
  const std::string* Next() {
    return next_ < message_.raw_input_contents_size() ? &message_.raw_input_contents(next_++) : nullptr;
  }

 private:
  explicit RawContents(const inference::ModelInferRequest& message) : message_(message) {}

  const inference::ModelInferRequest& message_;
  int next_ = 0;
};

absl::Status AddTensor(const ServedModel::Input& input, const InputTensor& sent, RawContents& raw, InferRun& run) {
  KILN_ASSIGN_OR_RETURN(TensorOptions options, ReadTensorOptions(sent.parameters(), TensorKind::kInput, sent.name()));
  absl::string_view bytes;
  if (options.region.has_value()) {
    if (sent.has_contents()) return BadInput(sent.name(), "has contents beside a region; send one of the two");
    KILN_RETURN_IF_ERROR(CheckSize(sent, *input.datatype, options.region->bytes));
    const auto argument = input.used ? std::make_optional(run.request.arguments.size()) : std::nullopt;
    run.in_regions.push_back({sent.name(), argument, *std::move(options.region)});
  } else {
    KILN_ASSIGN_OR_RETURN(bytes, BytesOf(sent, raw.Next(), *input.datatype, run.narrowed));
    if (options.bytes.value_or(bytes.size()) != bytes.size())
      return BadInput(sent.name(),
                      absl::StrCat("says that it has ", *options.bytes, " bytes; ", bytes.size(), " came"));
  }
  if (input.used) run.request.arguments.push_back({input.slot, TensorView{input.datatype->dtype, sent.shape(), bytes}});
  return absl::OkStatus();
}

absl::Status AddInputs(const ServedModel& model, const inference::ModelInferRequest& message, InferRun& run) {
  KILN_ASSIGN_OR_RETURN(RawContents raw, RawContents::Of(message));
  Binding binding{std::vector<std::optional<int64_t>>(model.variables.size()),
                  std::vector<const ServedModel::Input*>(model.variables.size())};
  std::vector<bool> given(model.inputs.size());
  for (const InputTensor& sent : message.inputs()) {
    const auto found = std::find_if(model.inputs.begin(), model.inputs.end(),
                                    [&](const ServedModel::Input& each) { return each.name == sent.name(); });
    if (found == model.inputs.end()) return BadInput(sent.name(), "is none of the model's");
    const auto place = static_cast<size_t>(found - model.inputs.begin());
    if (given[place]) return BadInput(sent.name(), "comes twice");
    given[place] = true;
    if (sent.datatype() != found->datatype->name) {
      return BadInput(sent.name(),
                      absl::StrCat("is ", Shown(sent.datatype()), "; the model takes ", found->datatype->name));
    }
    KILN_RETURN_IF_ERROR(BindShape(model, *found, sent.shape(), binding));
    KILN_RETURN_IF_ERROR(AddTensor(*found, sent, raw, run));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) return BadInput(model.inputs[i].name, "is missing");
  }
  if (model.sequences.has_value() && *binding.values[model.sequences->rows] != 1) {
    const size_t rows = model.sequences->rows;
    return BadInput(binding.by[rows]->name,
                    absl::StrCat("has ", model.variables[rows].name, " = ", *binding.values[rows],
                                 "; a request is of one sequence, and has "
                                 "1: the server runs those together that come together"));
  }
  // Each is a size of some input.
  for (size_t i = 0; i < model.variables.size(); ++i) {
    if (model.variables[i].used) run.request.arguments.push_back({model.variables[i].slot, *binding.values[i]});
  }
  return absl::OkStatus();
}

absl::Status AddOutputs(const ServedModel& model, const inference::ModelInferRequest& message, InferRun& run) {
  for (const auto& wanted : message.outputs()) {
    const auto found = std::find_if(model.outputs.begin(), model.outputs.end(),
                                    [&](const ServedModel::Output& each) { return each.name == wanted.name(); });
    if (found == model.outputs.end())
      return Bad(wanted.name(), absl::StrCat("output ", Shown(wanted.name()), " is none of the model's"));
    KILN_ASSIGN_OR_RETURN(TensorOptions options,
                          ReadTensorOptions(wanted.parameters(), TensorKind::kOutput, wanted.name()));
    const auto place = static_cast<size_t>(found - model.outputs.begin());
    if (std::find(run.outputs.begin(), run.outputs.end(), place) != run.outputs.end())
      return Bad(wanted.name(), absl::StrCat("output ", Shown(wanted.name()), " is asked for twice"));
    run.outputs.push_back(place);
    run.output_options.push_back(std::move(options));
  }
  for (size_t i = 0; message.outputs().empty() && i < model.outputs.size(); ++i) run.outputs.push_back(i);
  run.output_options.resize(run.outputs.size());
  return absl::OkStatus();
}

}  // namespace

absl::Status ToRun(const ServedModel& model, const inference::ModelInferRequest& message, InferRun& run) {
  KILN_ASSIGN_OR_RETURN(RequestOptions options,
                        ReadRequestParameters(message.parameters(), model.sequences.has_value()));
  run.sequence = std::move(options.sequence);
  run.timeout = options.timeout;
  KILN_RETURN_IF_ERROR(AddInputs(model, message, run));
  KILN_RETURN_IF_ERROR(AddOutputs(model, message, run));
  for (const ServedModel::Weight& weight : model.weights) run.request.arguments.push_back({weight.slot, weight.memory});
  run.request.program = model.program;
  run.request.results_inline = true;
  return absl::OkStatus();
}

absl::Status FillInferResponse(const ServedModel& model, const inference::ModelInferRequest& message,
                               const InferRun& run, ExecuteResult& result, inference::ModelInferResponse& answer) {
  answer.set_model_name(model.name);
  answer.set_model_version(absl::StrCat(model.version));
  answer.set_id(message.id());
  for (size_t i = 0; i < run.outputs.size(); ++i) {
    const ServedModel::Output& made = model.outputs[run.outputs[i]];
    const TensorOptions& options = run.output_options[i];
    ResultValue& value = result.results[run.outputs[i]];
    auto& output = *answer.add_outputs();
    output.set_name(made.name);
    if (options.classes != 0) {
      // What each call decides the number of are rows, of which each has its classes.
      const bool has_rows = made.shape.size() > 1 && made.shape[0] < 0;
      std::optional<size_t> rows;
      if (has_rows) rows = static_cast<size_t>(value.shape[0]);
      KILN_ASSIGN_OR_RETURN(Classes classes, GreatestOf(*made.datatype, value.data, rows, options.classes));
      output.set_datatype(std::string(kBytesDatatype));
      output.mutable_shape()->Add(classes.shape.begin(), classes.shape.end());
      answer.add_raw_output_contents(std::move(classes.bytes));
      continue;
    }
    output.set_datatype(std::string(made.datatype->name));
    output.mutable_shape()->Add(value.shape.begin(), value.shape.end());
    if (options.region.has_value()) {
      AddRegion({options.region->region, options.region->offset, value.data.size()}, *output.mutable_parameters());
      value.data.clear();
    }
    // Also for what is in a region: as many as there are outputs.
    answer.add_raw_output_contents(std::move(value.data));
  }
  return absl::OkStatus();
}

}  // namespace kiln::server
