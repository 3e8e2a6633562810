// One line of JSON, put together field by field: what a log of such lines has for each thing that happened.
//
// Values may be a stranger's bytes. Whatever they are, the line stays one line, and JSON: what is no character, or
// would end the string or the line, is written as an escape.
#ifndef KILN_SERVER_LOGS_JSON_LINE_H_
#define KILN_SERVER_LOGS_JSON_LINE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace kiln::server {

class JsonLine {
 public:
  // Its first field is "time", in UTC with microseconds.
  explicit JsonLine(absl::Time time);

  // `key` is a plain word.
  JsonLine& Add(absl::string_view key, absl::string_view value);
  JsonLine& Add(absl::string_view key, uint64_t value);
  // `value` is JSON itself.
  JsonLine& AddLiteral(absl::string_view key, absl::string_view value);
  // Nothing where there is nothing to say.
  JsonLine& AddIfAny(absl::string_view key, absl::string_view value) { return value.empty() ? *this : Add(key, value); }
  // Fields of an object of its own, until Close.
  JsonLine& Open(absl::string_view key);
  JsonLine& Close();

  // With its end of line. Nothing may be added after it.
  std::string Take();

 private:
  void Key(absl::string_view key);

  std::string text_;
};

// In quotation marks. What is longer than this is cut, and ends in "…".
inline constexpr size_t kMaxValueBytes = 512;
std::string JsonText(absl::string_view value);

}  // namespace kiln::server

#endif  // KILN_SERVER_LOGS_JSON_LINE_H_
