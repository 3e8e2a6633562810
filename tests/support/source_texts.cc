#include "tests/support/source_texts.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kiln::testing {
namespace {

// `line` with `prefix` before each of `names` in it.
std::string Renamed(absl::string_view line, const absl::flat_hash_set<std::string>& names, absl::string_view prefix) {
  const auto is_letter = [&](size_t i) {
    return i < line.size() && (absl::ascii_isalnum(static_cast<unsigned char>(line[i])) || line[i] == '_');
  };
  std::string renamed;
  for (size_t i = 0; i < line.size();) {
    size_t end = i + 1;
    while (is_letter(i) && is_letter(end)) ++end;
    const std::string word(line.substr(i, end - i));
    absl::StrAppend(&renamed, names.contains(word) ? prefix : "", word);
    i = end;
  }
  return renamed;
}

}  // namespace

size_t SourceTexts::Add(const v1::Executable& executable, absl::string_view text,
                        const std::vector<std::string>& others) {
  absl::flat_hash_set<std::string> names(others.begin(), others.end());
  for (const v1::Kernel& kernel : executable.kernels()) names.insert(kernel.symbol());
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const bool shared = absl::StartsWith(line, "#") || absl::StartsWith(line, "static inline") ||
                        absl::StartsWith(line, "static __device__ inline");
    if (shared && !shared_lines_.insert(std::string(line)).second) continue;
    absl::StrAppend(&text_, Renamed(line, names, NameOf(count_, "")), "\n");
  }
  return count_++;
}

std::string SourceTexts::NameOf(size_t program, absl::string_view name) {
  return absl::StrCat("p", program, "_", name);
}

}  // namespace kiln::testing
