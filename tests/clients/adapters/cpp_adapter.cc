// What travels between the suite and the adapter: tensors, graphs, errors; and the loop that reads requests.
#include "tests/clients/adapters/cpp_adapter.h"

#include <iostream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "base/error.h"

namespace kiln::adapter {

Json Bad(absl::string_view message) { return {{"error", {{"message", std::string(message)}}}}; }

std::string Encoded(absl::string_view bytes) { return absl::Base64Escape(bytes); }

std::string Decoded(const Json& ask, const char* name) {
  std::string bytes;
  absl::Base64Unescape(Text(ask, name), &bytes);
  return bytes;
}

std::string Text(const Json& ask, const char* name) {
  const auto found = ask.find(name);
  return found != ask.end() && found->is_string() ? found->get<std::string>() : "";
}

uint64_t Number(const Json& said) {
  uint64_t number = 0;
  if (said.is_string() && absl::SimpleAtoi(said.get<std::string>(), &number)) return number;
  return said.is_number() ? said.get<uint64_t>() : 0;
}

v1::Graph GraphOf(const Json& ask) {
  v1::Graph graph;
  graph.ParseFromString(Decoded(ask, "graph"));
  return graph;
}

HostTensor TensorOf(const Json& said) {
  const auto dtype = ParseDType(Text(said, "dtype"));
  return {dtype.value_or(v1::DTYPE_UNSPECIFIED), said.value("shape", client::Shape()), Decoded(said, "data")};
}

Json Told(const HostTensor& tensor) {
  return {{"dtype", std::string(DTypeName(tensor.dtype))}, {"shape", tensor.shape}, {"data", Encoded(tensor.bytes)}};
}

Json Told(const absl::Status& failure) {
  Json said = {{"status", absl::StatusCodeToString(failure.code())}, {"message", std::string(failure.message())}};
  const v1::ErrorDetail detail = DetailOf(failure).value_or(v1::ErrorDetail());
  if (detail.code() != v1::ERROR_CODE_UNSPECIFIED) {
    const std::string& name = v1::ErrorCode_Name(detail.code());
    said["code"] = name.empty() ? absl::StrCat(static_cast<int>(detail.code())) : name;
  }
  if (detail.has_node()) said["node"] = detail.node();
  if (detail.has_slot()) said["slot"] = detail.slot();
  for (const auto& [name, text] : {std::pair("op", detail.op()), std::pair("tag", detail.tag()),
                                   std::pair("field", detail.field()), std::pair("limit", detail.limit())}) {
    if (!text.empty()) said[name] = text;
  }
  if (!detail.limit().empty()) {
    said["limit_value"] = detail.limit_value();
    said["used"] = detail.used();
  }
  if (detail.retry_after_ms() > 0) said["retry_after_ms"] = detail.retry_after_ms();
  return said;
}

}  // namespace kiln::adapter

int main() {
  kiln::adapter::Adapter adapter;
  std::string line;
  while (std::getline(std::cin, line)) {
    const kiln::adapter::Json ask = kiln::adapter::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const kiln::adapter::Json answer = ask.is_object() ? adapter.Do(ask) : kiln::adapter::Bad("no JSON object");
    // What a server says need not be UTF-8.
    std::cout << answer.dump(-1, ' ', false, kiln::adapter::Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
