#include "client/cli/text/error_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "base/op_names.h"

namespace kiln::cli {
namespace {

struct Remedy {
  v1::ErrorCode code;
  const char* text;
};

constexpr Remedy kRemedies[] = {
#define REMEDY(code, text) {v1::code, text},
#include "client/cli/text/remedies.def"
#undef REMEDY
};

}  // namespace

std::string ErrorText(const absl::Status& status, const v1::Graph& graph) {
  const auto detail = DetailOf(status);
  if (!detail.has_value()) {
    return absl::StrCat("kiln: ", absl::StatusCodeToString(status.code()), ": ", status.message(), "\n");
  }
  std::string text = absl::StrCat("kiln: ", v1::ErrorCode_Name(detail->code()), ": ", status.message(), "\n");
  if (detail->has_node() && detail->node() < static_cast<uint32_t>(graph.nodes_size())) {
    const v1::UOp& uop = graph.nodes(static_cast<int>(detail->node()));
    absl::StrAppend(&text, "  node    ", detail->node(), " ", OpName(uop.op()), " [", absl::StrJoin(uop.src(), ", "),
                    "] ", PrintArg(uop), "\n");
  } else if (detail->has_node()) {
    absl::StrAppend(&text, "  node    ", detail->node(), " ", detail->op(), "\n");
  }
  if (!detail->tag().empty()) absl::StrAppend(&text, "  tag     ", detail->tag(), "\n");
  if (!detail->pass().empty()) absl::StrAppend(&text, "  pass    ", detail->pass(), "\n");
  if (detail->has_slot()) absl::StrAppend(&text, "  slot    ", detail->slot(), "\n");
  if (!detail->field().empty()) absl::StrAppend(&text, "  field   ", detail->field(), "\n");
  if (!detail->limit().empty()) {
    absl::StrAppend(&text, "  limit   ", detail->limit(), " is ", detail->limit_value());
    // Of memory the message says what is in use, and what was asked for.
    if (detail->used() != 0 && detail->code() != v1::OUT_OF_MEMORY)
      absl::StrAppend(&text, "; asked for ", detail->used());
    absl::StrAppend(&text, "\n");
  }
  for (const Remedy& remedy : kRemedies) {
    if (remedy.code == detail->code()) absl::StrAppend(&text, "  remedy  ", remedy.text, "\n");
  }
  return text;
}

}  // namespace kiln::cli
