// PTX's text, cut into tokens.
#ifndef KILN_TESTS_SUPPORT_PTX_SYNTAX_TOKENS_H_
#define KILN_TESTS_SUPPORT_PTX_SYNTAX_TOKENS_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace kiln::testing::ptx {

// A word (instructions, directives and names keep their dots: "ld.global.v2.b32", "%tid.x"), a number,
// a string or a single character. Points into the source.
struct Token {
  absl::string_view text;
  int line = 0;
};

// Comments and blanks are left out. The last token is empty.
std::vector<Token> Tokenize(absl::string_view source);

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_SYNTAX_TOKENS_H_
