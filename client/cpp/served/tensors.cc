#include "client/cpp/served/tensors.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "base/error.h"
#include "client/cpp/arrays/dtype.h"
#include "inference/grpc_service.pb.h"

namespace kiln::client {
namespace {

struct Datatype {
  v1::DType dtype;
  absl::string_view name;
};

constexpr Datatype kDatatypes[] = {
    {v1::BOOL, "BOOL"},     {v1::INT8, "INT8"},    {v1::INT16, "INT16"},   {v1::INT32, "INT32"},
    {v1::INT64, "INT64"},   {v1::UINT8, "UINT8"},  {v1::UINT16, "UINT16"}, {v1::UINT32, "UINT32"},
    {v1::UINT64, "UINT64"}, {v1::FLOAT16, "FP16"}, {v1::FLOAT32, "FP32"},  {v1::FLOAT64, "FP64"},
    {v1::BFLOAT16, "BF16"},
};

absl::Status Lie(absl::string_view what) { return MakeError(v1::INTERNAL_FAULT, absl::StrCat("the server ", what)); }

void SetNumber(uint64_t value, inference::InferParameter& parameter) {
  if (value <= std::numeric_limits<int64_t>::max()) {
    parameter.set_int64_param(static_cast<int64_t>(value));
  } else {
    parameter.set_uint64_param(value);
  }
}

absl::StatusOr<HostTensor> TakeTensor(const inference::ModelInferResponse::InferOutputTensor& output,
                                      std::string& bytes) {
  const v1::DType dtype = DTypeOfDatatype(output.datatype());
  if (dtype == v1::DTYPE_UNSPECIFIED) {
    return Lie(absl::StrCat("gave output \"", output.name(), "\" as ", output.datatype(),
                            ", which this client does not know"));
  }
  Shape shape(output.shape().begin(), output.shape().end());
  const auto size = ByteCount(dtype, shape);
  if (!size.has_value() || static_cast<uint64_t>(*size) != bytes.size()) {
    return Lie(absl::StrCat("gave output \"", output.name(), "\", ", TypeText(dtype, shape), ", with ", bytes.size(),
                            " bytes"));
  }
  return HostTensor{dtype, std::move(shape), std::move(bytes)};
}

}  // namespace

v1::DType DTypeOfDatatype(absl::string_view datatype) {
  const auto* const row = std::find_if(std::begin(kDatatypes), std::end(kDatatypes),
                                       [datatype](const Datatype& each) { return each.name == datatype; });
  return row == std::end(kDatatypes) ? v1::DTYPE_UNSPECIFIED : row->dtype;
}

absl::Status CheckRequestBytes(uint64_t bytes, absl::string_view input, uint64_t input_bytes) {
  if (bytes <= kMaxRequestBytes) return absl::OkStatus();
  v1::ErrorDetail detail;
  detail.set_code(v1::GRAPH_TOO_LARGE);
  detail.set_field(std::string(input));
  detail.set_limit("request bytes");
  detail.set_limit_value(kMaxRequestBytes);
  detail.set_used(bytes);
  return MakeError(std::move(detail), absl::StrCat("the request has ", bytes, " bytes, ", input_bytes, " of input \"",
                                                   input, "\"; one request has at most ", kMaxRequestBytes));
}

absl::StatusOr<inference::ModelInferRequest> ToInferRequest(const std::string& model, const std::string& version,
                                                            NamedTensors inputs, const InferOptions& options) {
  inference::ModelInferRequest request;
  request.set_model_name(model);
  request.set_model_version(version);
  request.set_id(options.id);
  if (options.sequence.has_value()) {
    auto& parameters = *request.mutable_parameters();
    SetNumber(options.sequence->id, parameters["sequence_id"]);
    if (options.sequence->start) parameters["sequence_start"].set_bool_param(true);
    if (options.sequence->end) parameters["sequence_end"].set_bool_param(true);
  }
  std::pair<absl::string_view, uint64_t> largest;
  for (auto& [name, tensor] : inputs) {
    if (tensor.bytes.size() >= largest.second) largest = {name, tensor.bytes.size()};
    const auto* const row = std::find_if(std::begin(kDatatypes), std::end(kDatatypes),
                                         [&](const Datatype& each) { return each.dtype == tensor.dtype; });
    if (row == std::end(kDatatypes)) {
      v1::ErrorDetail detail;
      detail.set_code(v1::BAD_ARGUMENT);
      detail.set_field(name);
      return MakeError(std::move(detail), absl::StrCat("input \"", name, "\" is ", DTypeName(tensor.dtype),
                                                       ", which models do not take; cast it"));
    }
    auto& input = *request.add_inputs();
    input.set_name(name);
    input.set_datatype(std::string(row->name));
    input.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    request.add_raw_input_contents(std::move(tensor.bytes));
  }
  for (const std::string& name : options.outputs) request.add_outputs()->set_name(name);
  KILN_RETURN_IF_ERROR(CheckRequestBytes(request.ByteSizeLong(), largest.first, largest.second));
  return request;
}

absl::StatusOr<NamedTensors> FromInferResponse(inference::ModelInferResponse& answer,
                                               const std::vector<std::string>& outputs, const std::string& id) {
  if (answer.id() != id) return Lie(absl::StrCat("answered request \"", answer.id(), "\", not \"", id, "\""));
  const int count = answer.outputs_size();
  if (count == 0 || count != answer.raw_output_contents_size()) {
    return Lie(absl::StrCat("gave ", count, " outputs, and the contents of ", answer.raw_output_contents_size()));
  }
  NamedTensors found;
  for (int i = 0; i < count; ++i) {
    const auto& output = answer.outputs(i);
    KILN_ASSIGN_OR_RETURN(HostTensor tensor, TakeTensor(output, *answer.mutable_raw_output_contents(i)));
    if (!found.emplace(output.name(), std::move(tensor)).second) {
      return Lie(absl::StrCat("gave output \"", output.name(), "\" twice"));
    }
  }
  for (const std::string& name : outputs) {
    if (found.find(name) == found.end()) return Lie(absl::StrCat("gave no output \"", name, "\""));
  }
  return found;
}

absl::StatusOr<NamedTensors> FromStreamResponse(inference::ModelStreamInferResponse& answer,
                                                const std::vector<std::string>& outputs, const std::string& id) {
  if (!answer.error_message().empty()) return absl::UnknownError(answer.error_message());
  return FromInferResponse(*answer.mutable_infer_response(), outputs, id);
}

}  // namespace kiln::client
