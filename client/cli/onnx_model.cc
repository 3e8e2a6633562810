// Tested by tests/python/cli/onnx_cli_test.py.
#include "client/cli/onnx_model.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "client/cpp/arrays/npy.h"

namespace kiln::cli {
namespace {

// "NAME=REST".
absl::StatusOr<std::pair<std::string, std::string>> Named(const std::string& flag, const std::string& word,
                                                          const char* form) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0)
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", word, ": write ", form));
  return std::pair(word.substr(0, equals), word.substr(equals + 1));
}

// Numbers from `least` on, between separators.
absl::StatusOr<std::vector<int64_t>> Numbers(const std::string& text, char separator, int64_t least) {
  std::vector<int64_t> numbers;
  for (const absl::string_view word : absl::StrSplit(text, separator)) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(word, &number) || number < least)
      return absl::InvalidArgumentError(absl::StrCat("\"", word, "\" is no number from ", least, " on"));
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<onnx::DimensionRange> RangeOf(const std::string& text) {
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> ends, Numbers(text, ':', 1));
  if (ends.size() > 2 || ends.back() < ends.front())
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no range such as 1:64"));
  return onnx::DimensionRange{ends.front(), ends.back()};
}

}  // namespace

void AddModelFlags(CLI::App& command, ModelFlags& flags) {
  command.add_option("--size", flags.sizes, "NAME=8, or NAME=1:64, of a size that an ONNX model names; else 1")
      ->allow_extra_args(false);
  command.add_option("--shape", flags.shapes, "NAME=1,3,224,224 of an ONNX model's input, in place of its own")
      ->allow_extra_args(false);
}

bool IsModel(const std::string& path) { return absl::EndsWith(path, ".onnx"); }

absl::StatusOr<onnx::Model> ImportModel(const std::string& path, const ModelFlags& flags,
                                        const std::vector<std::string>& inputs) {
  onnx::ImportOptions options;
  options.any_dimension = onnx::DimensionRange{1, 1};
  for (const std::string& word : flags.sizes) {
    KILN_ASSIGN_OR_RETURN(const auto size, Named("--size", word, "NAME=8 or NAME=1:64"));
    const auto range = RangeOf(size.second);
    if (!range.ok()) return Annotate(range.status(), absl::StrCat("--size ", word));
    options.dimensions[size.first] = *range;
  }
  for (const std::string& word : flags.shapes) {
    KILN_ASSIGN_OR_RETURN(const auto shape, Named("--shape", word, "NAME=1,3,224,224"));
    const auto numbers = Numbers(shape.second, ',', 0);
    if (!numbers.ok()) return Annotate(numbers.status(), absl::StrCat("--shape ", word));
    options.shapes[shape.first] = {numbers->begin(), numbers->end()};
  }
  for (const std::string& word : inputs) {
    KILN_ASSIGN_OR_RETURN(const auto input, Named("--input", word, "NAME=FILE.npy"));
    KILN_ASSIGN_OR_RETURN(client::HostTensor tensor, client::ReadNpy(input.second));
    options.shapes[input.first] = tensor.shape;
    options.values[input.first] = std::move(tensor);
  }
  return onnx::ImportFile(path, options);
}

}  // namespace kiln::cli
