// Reads one line of text token by token.
//
// The first thing that does not fit is remembered, with its column and what was
// expected; from then on every call does nothing and gives an empty value. So a
// parser reads straight on and asks ok() once at the end.
#ifndef KILN_BASE_GRAPH_TEXT_SCANNER_H_
#define KILN_BASE_GRAPH_TEXT_SCANNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

class TextScanner {
 public:
  // `line` must outlive the scanner.
  explicit TextScanner(absl::string_view line) : line_(line) {}

  // Skips blanks; true at the end of the line or at a '#' comment.
  bool AtEnd();
  // Whether `c` is next after blanks.
  bool PeekIs(char c);

  // Takes `literal` if it is next, and says whether it was. Of a word, the
  // whole word must match: Take("to") leaves "total" alone.
  bool Take(absl::string_view literal);
  // The same, but its absence is an error.
  void Expect(absl::string_view literal);

  // What is next, without taking it: a run of letters, digits and any of "_.+-".
  absl::string_view PeekWord();
  // `what` names the thing expected, for the error.
  absl::string_view Word(absl::string_view what);

  int64_t Signed(absl::string_view what);
  uint32_t Unsigned32(absl::string_view what);
  // "0x" and 1 to 16 hexadecimal digits.
  uint64_t Hex64(absl::string_view what);
  // A string in double quotes with C escapes, on one line: UTF-8 once unescaped,
  // as protobuf's string fields must be; or any bytes.
  std::string Quoted(absl::string_view what);
  std::string QuotedBytes(absl::string_view what);

  // open item , item … close: `item` is called at each.
  void List(absl::string_view open, absl::string_view close, const std::function<void()>& item);

  void Fail(absl::string_view expected);
  bool ok() const { return error_.empty(); }
  // "column 7: expected a dtype, found \"flot32\"".
  const std::string& error() const { return error_; }

 private:
  void SkipBlanks();

  absl::string_view line_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace kiln

#endif  // KILN_BASE_GRAPH_TEXT_SCANNER_H_
