#include "tests/client/reference.h"

#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/check.h"

namespace kiln::e2e {

Reference ReadReference(const std::string& path) {
  std::ifstream stream(path);
  KILN_CHECK(stream.good());
  Reference reference;
  for (std::string line; std::getline(stream, line);) {
    const std::pair<std::string, std::string> halves = absl::StrSplit(line, absl::MaxSplits(':', 1));
    const std::vector<std::string> head = absl::StrSplit(halves.first, ' ');
    KILN_CHECK(head.size() == 4);
    ReferenceTensor tensor;
    tensor.dtype = ParseDType(head[2]).value_or(v1::DTYPE_UNSPECIFIED);
    for (const auto& axis : absl::StrSplit(head[3], ',', absl::SkipEmpty())) {
      KILN_CHECK(absl::SimpleAtoi(axis, &tensor.shape.emplace_back()));
    }
    for (const auto& value : absl::StrSplit(halves.second, ' ', absl::SkipEmpty())) {
      KILN_CHECK(absl::SimpleAtod(value, &tensor.values.emplace_back()));
    }
    KILN_CHECK(static_cast<int64_t>(tensor.values.size()) == client::ElementCount(tensor.shape));
    if (head[0] == "input") {
      reference.inputs.emplace_back(head[1], std::move(tensor));
    } else {
      reference.expect[head[1]] = std::move(tensor);
    }
  }
  return reference;
}

}  // namespace kiln::e2e
