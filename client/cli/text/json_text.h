// What programs read instead of tables.
#ifndef KILN_CLIENT_CLI_TEXT_JSON_TEXT_H_
#define KILN_CLIENT_CLI_TEXT_JSON_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "google/protobuf/message.h"

namespace kiln::cli {

// A message as JSON, with the names of the .proto file; fields that are 0 or empty are in it. Bytes are base64.
std::string MessageJson(const google::protobuf::Message& message);

// What is no message. Text that is not UTF-8 is shown as what is not; what is no number (NaN, infinity) is null.
std::string JsonText(const nlohmann::ordered_json& json);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_JSON_TEXT_H_
