// What programs read instead of tables.
#ifndef KILN_CLIENT_CLI_TEXT_JSON_TEXT_H_
#define KILN_CLIENT_CLI_TEXT_JSON_TEXT_H_

#include <string>

#include "google/protobuf/message.h"

namespace kiln::cli {

// A message as JSON, with the names of the .proto file; fields that are 0 or empty are in it. Bytes are base64.
std::string MessageJson(const google::protobuf::Message& message);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_TEXT_JSON_TEXT_H_
