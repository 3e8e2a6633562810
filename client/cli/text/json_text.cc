#include "client/cli/text/json_text.h"

#include <nlohmann/json.hpp>

#include "google/protobuf/util/json_util.h"

namespace kiln::cli {

std::string MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // It fails for what is no message alone.
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json;
}

std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kiln::cli
