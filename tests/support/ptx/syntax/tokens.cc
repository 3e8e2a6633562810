#include "tests/support/ptx/syntax/tokens.h"

#include "absl/strings/ascii.h"

namespace kiln::testing::ptx {
namespace {

bool IsWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }

}  // namespace

std::vector<Token> Tokenize(absl::string_view source) {
  std::vector<Token> tokens;
  int line = 1;
  const auto at = [&](size_t i) { return i < source.size() ? source[i] : '\0'; };
  for (size_t i = 0; i < source.size();) {
    const char c = source[i];
    if (absl::ascii_isspace(static_cast<unsigned char>(c)) || c == '\0') {
      line += c == '\n' ? 1 : 0;
      ++i;
    } else if (c == '/' && at(i + 1) == '/') {
      while (i < source.size() && source[i] != '\n') ++i;
    } else if (c == '/' && at(i + 1) == '*') {
      for (i += 2; i < source.size() && !(source[i] == '*' && at(i + 1) == '/'); ++i) line += source[i] == '\n' ? 1 : 0;
      i += 2;
    } else {
      size_t end = i + 1;
      if (c == '"') {
        while (end < source.size() && source[end] != '"' && source[end] != '\n') ++end;
        end = std::min(end + 1, source.size());
      } else if (IsWord(c) || c == '.') {
        // "::" is part of a word ("shared::cta"), a single ':' ends a label.
        while (IsWord(at(end)) || at(end) == '.' || (at(end) == ':' && at(end + 1) == ':')) {
          end += at(end) == ':' ? 2 : 1;
        }
      }
      tokens.push_back({source.substr(i, end - i), line});
      i = end;
    }
  }
  tokens.push_back({{}, line});
  return tokens;
}

}  // namespace kiln::testing::ptx
