// JSON of strangers: how large it may be, and JSON of our messages. Tested by json_text_test.
#ifndef KILN_SERVER_HTTP_JSON_TEXT_H_
#define KILN_SERVER_HTTP_JSON_TEXT_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class Message;
}

namespace kiln::server {

// Larger tensors travel binary.
inline constexpr size_t kMaxJsonBytes = size_t{8} << 20;
// A parsed array or object takes a hundred bytes, whatever is in it.
inline constexpr size_t kMaxJsonDepth = 32, kMaxJsonParts = size_t{128} << 10;

// BAD_ARGUMENT: `field` names what was wrong, `message` says what would be right.
absl::Status BadField(absl::string_view field, absl::string_view message);

// A name of a stranger's, in quotes, on one line and not long.
std::string Shown(absl::string_view name);

// An object; of an empty text an empty one. Outside of strings NaN, Infinity and -Infinity are taken, as strings of
// these words. BAD_ARGUMENT with the field "body": no JSON, numbers that fit no type, or more than the limits above.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text);

// Fields by their names in the .proto, also those that have their default; numbers as numbers, enums by name. Of a
// field that is a message only if it is set.
nlohmann::json ToJson(const google::protobuf::Message& message);

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_JSON_TEXT_H_
