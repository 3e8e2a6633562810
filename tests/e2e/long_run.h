// Programs that run for seconds, for tests of what is stopped in the middle, and of what
// that leaves behind.
#ifndef KILN_TESTS_E2E_LONG_RUN_H_
#define KILN_TESTS_E2E_LONG_RUN_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {

inline constexpr int64_t kLongElements = 16 << 20;

// The protocol's code of a failure; 0 of what has none.
inline v1::ErrorCode CodeOf(const absl::Status& status) { return DetailOf(status).value_or(v1::ErrorDetail()).code(); }

// A hundred sines of slot 0, float32[kLongElements], as a new result; `last` is their node.
// On devices: ("A", "B"), as a graph's text has them.
inline std::string SinesText(int& last, absl::string_view devices = "") {
  std::string text =
      absl::StrCat("0 CONST [] weakint ", kLongElements, "\n1 PARAM [0] slot=0 dtype=float32", devices, "\n");
  last = 1;
  for (int i = 0; i < 100; ++i, ++last) absl::StrAppend(&text, last + 1, " SIN [", last, "]\n");
  return text;
}

// The same as a graph's only result.
inline v1::Graph Sines() {
  int last = 0;
  std::string text = SinesText(last);
  return GraphOf(absl::StrCat(text, last + 1, " TUPLE [", last, "]\n"));
}

// slot 1 = slot 0 + 1, float32[8], whatever slot 1 held.
inline constexpr char kReplace[] = R"(
  0 CONST [] weakint 8
  1 PARAM : float32 [0] slot=0
  2 CONST [] float32 1.0
  3 ADD [1, 2]
  4 PARAM : float32 [0] slot=1
  5 STORE [4, 3]
  6 AFTER [4, 5]
  7 TUPLE [6]
)";

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_LONG_RUN_H_
