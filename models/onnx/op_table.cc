// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/op_table.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::onnx {
namespace {

using Key = std::pair<absl::string_view, absl::string_view>;

const std::map<Key, std::vector<const OpRow*>>& Table() {
  static const auto* const kTable = [] {
    auto* table = new std::map<Key, std::vector<const OpRow*>>;
#define KILN_ONNX_ADD(family) \
  for (const OpRow& row : family()) (*table)[{row.domain, row.name}].push_back(&row);
    KILN_ONNX_FAMILIES(KILN_ONNX_ADD)
#undef KILN_ONNX_ADD
    return table;
  }();
  return *kTable;
}

}  // namespace

absl::StatusOr<const OpRow*> FindOp(absl::string_view domain, absl::string_view name, int64_t opset) {
  const auto found = Table().find({domain, name});
  if (found == Table().end()) return MakeError(v1::UNSUPPORTED_OP, "this op is not taken");
  const OpRow* best = nullptr;
  int least = kAny;
  for (const OpRow* row : found->second) {
    least = std::min(least, row->since);
    if (row->since <= opset && (best == nullptr || row->since > best->since)) best = row;
  }
  if (best != nullptr) return best;
  return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("this op is taken from opset ", least, " on"));
}

}  // namespace kiln::onnx
