#include "compiler/opt/opt_ops.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace kiln::compiler {

absl::Span<const OptArgument> OptOpRow::arguments() const {
  const auto end = std::find_if(all.begin(), all.end(), [](const OptArgument& each) { return each.form == kNone; });
  return absl::MakeConstSpan(all).subspan(0, static_cast<size_t>(end - all.begin()));
}

size_t OptOpRow::least() const {
  return static_cast<size_t>(
      std::count_if(all.begin(), all.end(), [](const auto& each) { return each.form != kNone && !each.optional(); }));
}

std::string OptOpRow::Wanted() const {
  std::string names;
  for (const OptArgument& each : arguments()) {
    if (each.form == kIgnored) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", each.name, each.optional() ? "?" : "");
  }
  return absl::StrCat("(", names, ")");
}

const OptOpRow& RowOf(OptOp::Kind kind) {
  const auto* row =
      std::find_if(std::begin(kOptOps), std::end(kOptOps), [kind](const auto& r) { return r.kind == kind; });
  KILN_CHECK(row != std::end(kOptOps));
  return *row;
}

// The first: THREAD is sent as a SPLIT.
const OptOpRow* FindRow(int kind) {
  const auto* row =
      std::find_if(std::begin(kOptOps), std::end(kOptOps), [kind](const auto& r) { return r.wire == kind; });
  return row == std::end(kOptOps) ? nullptr : row;
}

std::string WireNames() {
  std::string names;
  for (int kind = v1::OptOp::OPT_UNSPECIFIED + 1; kind <= v1::OptOp::Kind_MAX; ++kind) {
    const char* between = names.empty() ? "" : kind == v1::OptOp::Kind_MAX ? " and " : ", ";
    absl::StrAppend(&names, between, v1::OptOp::Kind_Name(static_cast<v1::OptOp::Kind>(kind)));
  }
  return names;
}

}  // namespace kiln::compiler
