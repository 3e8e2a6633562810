#include "server/http/infer_json.h"

#include <climits>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "inference/grpc_service.pb.h"
#include "server/http/elements.h"
#include "server/http/json_text.h"

namespace kiln::server {
namespace {

using nlohmann::json;
using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

constexpr char kBinaryOutput[] = "binary_data_output", kBinary[] = "binary_data", kBinarySize[] = "binary_data_size";
constexpr char kRegion[] = "shared_memory_region", kStrings[] = "BYTES";

// An object of the body, and where it stands there: "inputs[0]", or nothing for the body itself.
struct Place {
  const json& object;
  std::string path;

  std::string Of(absl::string_view name) const { return absl::StrCat(path, path.empty() ? "" : ".", name); }
  // Null if there is none.
  const json* Find(const char* name) const {
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }
  absl::Status Bad(absl::string_view name, absl::string_view what) const { return BadField(Of(name), what); }
};

absl::Status CheckMembers(const Place& place, std::initializer_list<absl::string_view> known) {
  if (!place.object.is_object()) return BadField(place.path, "is no object");
  for (const auto& [name, value] : place.object.items()) {
    if (!absl::c_linear_search(known, name))
      return BadField(place.path.empty() ? "body" : place.path,
                      absl::StrCat("has a member ", Shown(name), "; there are ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Text(const Place& place, const char* name, bool may_be_missing = false) {
  const json* const value = place.Find(name);
  if (value == nullptr && may_be_missing) return std::string();
  if (value == nullptr) return place.Bad(name, "is missing");
  if (!value->is_string()) return place.Bad(name, "is no string");
  return value->get<std::string>();
}

absl::Status ToParameter(const Place& place, const std::string& name, const json& value,
                         inference::InferParameter& parameter) {
  switch (value.type()) {
    case json::value_t::boolean: parameter.set_bool_param(value.get<bool>()); return absl::OkStatus();
    case json::value_t::number_integer: parameter.set_int64_param(value.get<int64_t>()); return absl::OkStatus();
    case json::value_t::number_unsigned:
      if (value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        parameter.set_uint64_param(value.get<uint64_t>());
      } else {
        parameter.set_int64_param(value.get<int64_t>());
      }
      return absl::OkStatus();
    case json::value_t::number_float: parameter.set_double_param(value.get<double>()); return absl::OkStatus();
    case json::value_t::string: parameter.set_string_param(value.get<std::string>()); return absl::OkStatus();
    default:
      return BadField(place.Of("parameters"),
                      absl::StrCat("has ", Shown(name), ", which is no string, number, true or false"));
  }
}

json ToJson(const Parameters& parameters) {
  json made = json::object();
  for (const auto& [name, value] : parameters) {
    switch (value.parameter_choice_case()) {
      case inference::InferParameter::kBoolParam: made[name] = value.bool_param(); break;
      case inference::InferParameter::kInt64Param: made[name] = value.int64_param(); break;
      case inference::InferParameter::kUint64Param: made[name] = value.uint64_param(); break;
      case inference::InferParameter::kDoubleParam: made[name] = value.double_param(); break;
      case inference::InferParameter::kStringParam: made[name] = value.string_param(); break;
      case inference::InferParameter::PARAMETER_CHOICE_NOT_SET: break;
    }
  }
  return made;
}

// Elements of BYTES, each with its length before it, as strings.
void WriteStrings(absl::string_view bytes, std::string& text) {
  for (bool is_first = true; bytes.size() >= 4; is_first = false) {
    uint32_t size = 0;
    for (int i = 0; i < 4; ++i) size |= uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    bytes.remove_prefix(4);
    const std::string element(bytes.substr(0, size));
    absl::StrAppend(&text, is_first ? "" : ",", json(element).dump(-1, ' ', false, json::error_handler_t::replace));
    bytes.remove_prefix(element.size());
  }
}

// All but the one called `own`, which is for us; that, or null.
absl::StatusOr<const json*> ReadParameters(const Place& place, absl::string_view own, Parameters& parameters) {
  const json* const given = place.Find("parameters");
  const json* found = nullptr;
  if (given == nullptr) return found;
  if (!given->is_object()) return place.Bad("parameters", "is no object");
  for (const auto& [name, value] : given->items()) {
    if (name == own) {
      found = &value;
    } else {
      KILN_RETURN_IF_ERROR(ToParameter(place, name, value, parameters[name]));
    }
  }
  return found;
}

absl::StatusOr<bool> Flag(const Place& place, absl::string_view name, const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  return place.Bad(absl::StrCat("parameters.", name), "is neither true nor false");
}

absl::Status ReadShape(const Place& place, google::protobuf::RepeatedField<int64_t>& shape) {
  const json* const given = place.Find("shape");
  if (given == nullptr) return place.Bad("shape", "is missing");
  const auto is_size = [](const json& size) {
    return size.is_number_unsigned() && size.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  };
  if (!given->is_array() || !absl::c_all_of(*given, is_size))
    return place.Bad("shape", "is no array of integers from 0 on");
  for (const json& size : *given) shape.Add(size.get<int64_t>());
  return absl::OkStatus();
}

// Elements of "data": one after the other, or in arrays that are nested as the shape says.
class DataReader {
 public:
  DataReader(const Place& place, const JsonDatatype& datatype, const google::protobuf::RepeatedField<int64_t>& shape,
             std::string& bytes)
      : place_(place), datatype_(datatype), shape_(shape), bytes_(bytes) {}

  absl::Status Read(const json& data) {
    if (!data.is_array()) return place_.Bad("data", "is no array");
    uint64_t wanted = 1;
    for (const int64_t size : shape_) {
      const auto factor = static_cast<uint64_t>(size);
      // More than can come in any case.
      wanted = factor != 0 && wanted > kMaxJsonBytes / factor ? kMaxJsonBytes + 1 : wanted * factor;
    }
    const bool is_flat = data.empty() || !data.front().is_array();
    if (is_flat) bytes_.reserve(data.size() * datatype_.bytes);
    KILN_RETURN_IF_ERROR(is_flat ? ReadElements(data) : ReadNested(data, 0));
    const uint64_t came = bytes_.size() / datatype_.bytes;
    if (came == wanted) return absl::OkStatus();
    return place_.Bad("data",
                      absl::StrCat("has ", came, " elements; the shape [", absl::StrJoin(shape_, ", "), "] has ",
                                   wanted > kMaxJsonBytes ? "more than JSON can hold" : absl::StrCat(wanted)));
  }

 private:
  absl::Status ReadElements(const json& data) {
    for (const json& element : data) {
      if (datatype_.read(element, bytes_)) continue;
      const std::string shown = element.is_structured() ? element.is_array() ? "an array" : "an object"
                                                        : element.dump(-1, ' ', true, json::error_handler_t::replace);
      return place_.Bad("data", absl::StrCat("element ", bytes_.size() / datatype_.bytes, " is ", shown.substr(0, 100),
                                             ", which is no ", datatype_.name, ": ", datatype_.takes));
    }
    return absl::OkStatus();
  }

  // No deeper than the parser has let in.
  absl::Status ReadNested(const json& data, int axis) {
    const bool is_last = axis + 1 == shape_.size();
    if (axis >= shape_.size() || data.size() != static_cast<uint64_t>(shape_.Get(axis)) ||
        !absl::c_all_of(data, [is_last](const json& each) { return each.is_array() != is_last; })) {
      return place_.Bad("data", absl::StrCat("is nested otherwise than the shape [", absl::StrJoin(shape_, ", "),
                                             "] says, at depth ", axis + 1, "; send it so, or flat"));
    }
    if (is_last) return ReadElements(data);
    for (const json& each : data) KILN_RETURN_IF_ERROR(ReadNested(each, axis + 1));
    return absl::OkStatus();
  }

  const Place& place_;
  const JsonDatatype& datatype_;
  const google::protobuf::RepeatedField<int64_t>& shape_;
  std::string& bytes_;
};

// Takes what stands first in `binary`, as much as `size` says.
absl::Status TakeBinary(const Place& place, const json& size, absl::string_view& binary, std::string& bytes) {
  const std::string name = absl::StrCat("parameters.", kBinarySize);
  if (!size.is_number_unsigned()) return place.Bad(name, "is no integer from 0 on");
  if (place.Find("data") != nullptr)
    return place.Bad("data", absl::StrCat("comes beside ", name, "; send one of the two"));
  const auto wanted = size.get<uint64_t>();
  if (wanted > binary.size()) {
    return place.Bad(name, absl::StrCat("is ", wanted, ", but of the bytes behind the JSON, which has as many as ",
                                        "Inference-Header-Content-Length says, ", binary.size(), " are left"));
  }
  bytes = std::string(binary.substr(0, wanted));
  binary.remove_prefix(wanted);
  return absl::OkStatus();
}

absl::Status ReadInput(const Place& place, absl::string_view& binary, inference::ModelInferRequest& request) {
  KILN_RETURN_IF_ERROR(CheckMembers(place, {"name", "datatype", "shape", "parameters", "data"}));
  auto& input = *request.add_inputs();
  KILN_ASSIGN_OR_RETURN(*input.mutable_name(), Text(place, "name"));
  KILN_ASSIGN_OR_RETURN(*input.mutable_datatype(), Text(place, "datatype"));
  KILN_RETURN_IF_ERROR(ReadShape(place, *input.mutable_shape()));
  KILN_ASSIGN_OR_RETURN(const json* const size, ReadParameters(place, kBinarySize, *input.mutable_parameters()));
  // One that is in shared memory has no bytes here.
  if (input.parameters().contains(kRegion)) {
    if (size == nullptr && place.Find("data") == nullptr) return absl::OkStatus();
    return place.Bad(absl::StrCat("parameters.", kRegion), "comes beside data; send one of the two");
  }
  std::string& bytes = *request.add_raw_input_contents();
  if (size != nullptr) return TakeBinary(place, *size, binary, bytes);
  const JsonDatatype* const datatype = JsonDatatypeOf(input.datatype());
  if (datatype == nullptr) {
    return place.Bad("datatype", absl::StrCat("is ", Shown(input.datatype()), ", which is not served; there are ",
                                              JsonDatatypeNames()));
  }
  if (datatype->read == nullptr) {
    return place.Bad("datatype",
                     absl::StrCat("is ", datatype->name, ", which JSON does not have; send it binary, with parameters.",
                                  kBinarySize));
  }
  const json* const data = place.Find("data");
  // The input may have parameters of another kind, which are refused where all are.
  if (data == nullptr && input.parameters().empty())
    return place.Bad("data", absl::StrCat("is missing, and so is parameters.", kBinarySize));
  if (data == nullptr) return absl::OkStatus();
  return DataReader(place, *datatype, input.shape(), bytes).Read(*data);
}

absl::Status ReadOutput(const Place& place, inference::ModelInferRequest& request, BinaryOutputs& binary) {
  KILN_RETURN_IF_ERROR(CheckMembers(place, {"name", "parameters"}));
  auto& output = *request.add_outputs();
  KILN_ASSIGN_OR_RETURN(*output.mutable_name(), Text(place, "name"));
  KILN_ASSIGN_OR_RETURN(const json* const wish, ReadParameters(place, kBinary, *output.mutable_parameters()));
  if (wish == nullptr) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(binary.named[output.name()], Flag(place, kBinary, *wish));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadInferRequest(absl::string_view body, absl::string_view json_bytes,
                              inference::ModelInferRequest& request, BinaryOutputs& binary) {
  size_t length = body.size();
  if (!json_bytes.empty() && (!absl::SimpleAtoi(json_bytes, &length) || length > body.size())) {
    return BadField("Inference-Header-Content-Length",
                    absl::StrCat("is ", Shown(json_bytes), "; the body has ", body.size(), " bytes"));
  }
  KILN_ASSIGN_OR_RETURN(const json object, ParseJson(body.substr(0, length)));
  absl::string_view rest = body.substr(length);
  const Place place = {object, ""};
  KILN_RETURN_IF_ERROR(CheckMembers(place, {"id", "model_name", "inputs", "outputs", "parameters"}));
  KILN_ASSIGN_OR_RETURN(const std::string model, Text(place, "model_name", /*may_be_missing=*/true));
  if (place.Find("model_name") != nullptr && model != request.model_name()) {
    return place.Bad("model_name",
                     absl::StrCat("is ", Shown(model), "; the path asks for ", Shown(request.model_name())));
  }
  KILN_ASSIGN_OR_RETURN(*request.mutable_id(), Text(place, "id", /*may_be_missing=*/true));
  KILN_ASSIGN_OR_RETURN(const json* const wish, ReadParameters(place, kBinaryOutput, *request.mutable_parameters()));
  if (wish != nullptr) {
    KILN_ASSIGN_OR_RETURN(binary.others, Flag(place, kBinaryOutput, *wish));
  }
  const json* const inputs = place.Find("inputs");
  if (inputs == nullptr || !inputs->is_array()) return BadField("inputs", "is no array of the model's inputs");
  for (size_t i = 0; i < inputs->size(); ++i)
    KILN_RETURN_IF_ERROR(ReadInput({(*inputs)[i], absl::StrCat("inputs[", i, "]")}, rest, request));
  if (!rest.empty()) {
    return BadField("body", absl::StrCat("has ", rest.size(), " bytes behind the JSON that no input's parameters.",
                                         kBinarySize, " speaks of"));
  }
  const json* const outputs = place.Find("outputs");
  if (outputs == nullptr) return absl::OkStatus();
  if (!outputs->is_array()) return BadField("outputs", "is no array");
  for (size_t i = 0; i < outputs->size(); ++i)
    KILN_RETURN_IF_ERROR(ReadOutput({(*outputs)[i], absl::StrCat("outputs[", i, "]")}, request, binary));
  return absl::OkStatus();
}

absl::StatusOr<HttpAnswer> WriteInferResponse(const inference::ModelInferResponse& response,
                                              const BinaryOutputs& binary) {
  const auto quoted = [](const std::string& text) {
    return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  HttpAnswer answer;
  std::string& text = answer.body;
  absl::StrAppend(&text, "{\"model_name\":", quoted(response.model_name()),
                  ",\"model_version\":", quoted(response.model_version()));
  if (!response.id().empty()) absl::StrAppend(&text, ",\"id\":", quoted(response.id()));
  absl::StrAppend(&text, ",\"outputs\":[");
  std::vector<const std::string*> behind;
  size_t in_json = 0;
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    const std::string& bytes = response.raw_output_contents(i);
    absl::StrAppend(&text, i == 0 ? "" : ",", "{\"name\":", quoted(output.name()), ",\"datatype\":\"",
                    output.datatype(), "\",\"shape\":[", absl::StrJoin(output.shape(), ","), "],");
    if (output.parameters().contains(kRegion)) {
      absl::StrAppend(&text, "\"parameters\":", ToJson(output.parameters()).dump(), "}");
      continue;
    }
    const auto named = binary.named.find(output.name());
    if (named == binary.named.end() ? binary.others : named->second) {
      absl::StrAppend(&text, "\"parameters\":{\"", kBinarySize, "\":", bytes.size(), "}}");
      behind.push_back(&bytes);
      continue;
    }
    const JsonDatatype* const datatype = JsonDatatypeOf(output.datatype());
    in_json += bytes.size();
    const bool is_text = output.datatype() == kStrings;
    const bool has_words = is_text || (datatype != nullptr && datatype->write != nullptr);
    if (!has_words || in_json > kMaxJsonTensors) {
      return BadField("outputs", absl::StrCat("the output ", Shown(output.name()), " is ", output.datatype(), " of ",
                                              bytes.size(), " bytes, which JSON ",
                                              has_words ? absl::StrCat("does not carry; it does ", kMaxJsonTensors)
                                                        : "does not have",
                                              "; ask for it with parameters.", kBinary, ", or for all with the ",
                                              "request's parameters.", kBinaryOutput));
    }
    absl::StrAppend(&text, "\"data\":[");
    if (is_text) WriteStrings(bytes, text);
    for (size_t at = 0; !is_text && at + datatype->bytes <= bytes.size(); at += datatype->bytes) {
      if (at != 0) text += ',';
      datatype->write(bytes.data() + at, text);
    }
    absl::StrAppend(&text, "]}");
  }
  absl::StrAppend(&text, "]}");
  if (behind.empty()) return answer;
  answer.json_bytes = text.size();
  answer.type = "application/octet-stream";
  size_t all = text.size();
  for (const std::string* bytes : behind) all += bytes->size();
  text.reserve(all);
  for (const std::string* bytes : behind) text += *bytes;
  return answer;
}

}  // namespace kiln::server
