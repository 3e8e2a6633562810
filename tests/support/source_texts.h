// Programs in a C-like language, many in one text: a call of a compiler costs far more than a kernel.
#ifndef KILN_TESTS_SUPPORT_SOURCE_TEXTS_H_
#define KILN_TESTS_SUPPORT_SOURCE_TEXTS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::testing {

class SourceTexts {
 public:
  // `text`, with the kernels of `executable` and `others` in it under names of their own (NameOf), and without what
  // an earlier one brought: includes, macros and helper functions, a line each. Gives the number of the program.
  size_t Add(const v1::Executable& executable, absl::string_view text, const std::vector<std::string>& others = {});

  // What `name` of that program is called in the text.
  static std::string NameOf(size_t program, absl::string_view name);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::set<std::string> shared_lines_;
  size_t count_ = 0;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_SOURCE_TEXTS_H_
