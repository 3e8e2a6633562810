#include "base/graph/text_scanner.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr size_t kMaxShown = 24;  // of what was found, in an error

bool IsWordChar(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '+' || c == '-'; }

// Shortest forms only, no surrogates, nothing beyond U+10FFFF.
bool IsUtf8(absl::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[at + k]); };
    const size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xC2 ? 0 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
    if (length == 0 || byte(0) > 0xF4 || at + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((byte(k) & 0xC0) != 0x80) return false;
    }
    if ((byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F)) return false;
    if ((byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F)) return false;
    at += length;
  }
  return true;
}

}  // namespace

void TextScanner::SkipBlanks() {
  while (at_ < line_.size() && absl::ascii_isspace(line_[at_])) ++at_;
}

bool TextScanner::AtEnd() {
  SkipBlanks();
  return at_ == line_.size() || line_[at_] == '#';
}

bool TextScanner::PeekIs(char c) {
  SkipBlanks();
  return at_ < line_.size() && line_[at_] == c;
}

bool TextScanner::Take(absl::string_view literal) {
  if (!ok()) return false;
  SkipBlanks();
  if (!absl::StartsWith(line_.substr(at_), literal)) return false;
  const size_t end = at_ + literal.size();
  if (IsWordChar(literal.back()) && end < line_.size() && IsWordChar(line_[end])) return false;
  at_ = end;
  return true;
}

void TextScanner::Expect(absl::string_view literal) {
  if (!Take(literal)) Fail(absl::StrCat("'", literal, "'"));
}

absl::string_view TextScanner::PeekWord() {
  SkipBlanks();
  size_t end = at_;
  while (end < line_.size() && IsWordChar(line_[end])) ++end;
  return line_.substr(at_, end - at_);
}

absl::string_view TextScanner::Word(absl::string_view what) {
  if (!ok()) return absl::string_view();
  const absl::string_view word = PeekWord();
  if (word.empty()) Fail(what);
  at_ += word.size();
  return word;
}

int64_t TextScanner::Signed(absl::string_view what) {
  int64_t value = 0;
  if (!ok()) return value;
  const absl::string_view word = PeekWord();
  if (!absl::SimpleAtoi(word, &value)) {
    Fail(what);
    return 0;
  }
  at_ += word.size();
  return value;
}

uint32_t TextScanner::Unsigned32(absl::string_view what) {
  uint32_t value = 0;
  if (!ok()) return value;
  const absl::string_view word = PeekWord();
  if (!absl::SimpleAtoi(word, &value)) {
    Fail(what);
    return 0;
  }
  at_ += word.size();
  return value;
}

uint64_t TextScanner::Hex64(absl::string_view what) {
  uint64_t value = 0;
  if (!ok()) return value;
  const absl::string_view word = PeekWord();
  if (!absl::StartsWith(word, "0x") || !absl::SimpleHexAtoi(word, &value)) {
    Fail(what);
    return 0;
  }
  at_ += word.size();
  return value;
}

std::string TextScanner::Quoted(absl::string_view what) {
  const size_t start = at_;
  std::string text = QuotedBytes(what);
  if (!ok() || IsUtf8(text)) return text;
  at_ = start;
  Fail(absl::StrCat(what, ", in UTF-8"));
  return "";
}

std::string TextScanner::QuotedBytes(absl::string_view what) {
  std::string text;
  if (!ok()) return text;
  SkipBlanks();
  if (at_ == line_.size() || line_[at_] != '"') {
    Fail(what);
    return text;
  }
  size_t end = at_ + 1;
  while (end < line_.size() && line_[end] != '"') end += line_[end] == '\\' ? 2 : 1;
  std::string error;
  if (end >= line_.size()) {
    Fail(absl::StrCat(what, ", closed by '\"'"));
  } else if (!absl::CUnescape(line_.substr(at_ + 1, end - at_ - 1), &text, &error)) {
    Fail(absl::StrCat(what, ": ", error));
  } else {
    at_ = end + 1;
  }
  return text;
}

void TextScanner::List(absl::string_view open, absl::string_view close, const std::function<void()>& item) {
  Expect(open);
  if (Take(close)) return;
  while (ok()) {
    item();
    if (Take(close)) return;
    if (!Take(",")) Fail(absl::StrCat("',' or '", close, "'"));
  }
}

void TextScanner::Fail(absl::string_view expected) {
  if (!ok()) return;
  SkipBlanks();
  const absl::string_view rest = line_.substr(at_);
  const std::string found = rest.empty() ? std::string("the end of the line")
                                         : absl::StrCat("\"", absl::CHexEscape(rest.substr(0, kMaxShown)), "\"");
  error_ = absl::StrCat("column ", at_ + 1, ": expected ", expected, ", found ", found);
}

}  // namespace kiln
