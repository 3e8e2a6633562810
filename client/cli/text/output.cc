// Tested by client/cli/text/text_test.cc.
#include "client/cli/text/output.h"

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace kiln::cli {

absl::Status WriteText(const std::string& text, const std::string& file) {
  if (file.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return absl::OkStatus();
  }
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  return stream ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", file));
}

}  // namespace kiln::cli
