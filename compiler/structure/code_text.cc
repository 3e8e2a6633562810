#include "compiler/structure/code_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln::compiler {

std::optional<std::string> FillCode(absl::string_view text, absl::Span<const std::string> sources) {
  std::string filled;
  while (!text.empty()) {
    size_t end = 1;
    while (end < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[end]))) ++end;
    if (text[0] != '{' || end == 1 || end == text.size() || text[end] != '}') {
      filled.push_back(text[0]);
      text.remove_prefix(1);
      continue;
    }
    uint64_t number = 0;
    if (!absl::SimpleAtoi(text.substr(1, end - 1), &number) || number >= sources.size()) return std::nullopt;
    absl::StrAppend(&filled, sources[number]);
    text.remove_prefix(end + 1);
  }
  return filled;
}

const std::string& SourceOf(const UOp* linear) {
  static const std::string& none = *new std::string();
  const auto* arg = std::get_if<KernelArg>(&linear->arg());
  return arg == nullptr ? none : arg->source;
}

}  // namespace kiln::compiler
