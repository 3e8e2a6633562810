// Elements of tensors between JSON and bytes, by datatype. Tested by infer_json_test.
#ifndef KILN_SERVER_HTTP_ELEMENTS_H_
#define KILN_SERVER_HTTP_ELEMENTS_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln::server {

// A row of the table; rows live for ever.
struct JsonDatatype {
  absl::string_view name;   // "FP32"
  size_t bytes;             // of an element
  absl::string_view takes;  // what an element is in JSON
  // Appends the element, little-endian; false if `value` is none of this type. Null: JSON has no such elements, and
  // these tensors travel binary.
  bool (*read)(const nlohmann::json& value, std::string& bytes);
  // Appends the element at `bytes` as text. Null as above.
  void (*write)(const char* bytes, std::string& text);
};

// Null for a name that the protocol does not have, or whose tensors are not served (BYTES).
const JsonDatatype* JsonDatatypeOf(absl::string_view name);

// "BOOL, UINT8, …".
std::string JsonDatatypeNames();

}  // namespace kiln::server

#endif  // KILN_SERVER_HTTP_ELEMENTS_H_
