#include "compiler/import/as_sent.h"

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/op_names.h"
#include "compiler/ir/op.h"

namespace kiln::compiler {
namespace {

// The text, its first word explained if that is a core op, and another than the one sent.
std::string InSentWords(absl::string_view text, const v1::UOp& node) {
  const absl::string_view first = text.substr(0, text.find(' '));
  const std::optional<v1::Op> named = ParseOp(first);
  if (!named.has_value() || *named == node.op() || !IsCoreOp(*named)) return std::string(text);
  return absl::StrCat(SentName(node), ", read as ", first, ",", text.substr(first.size()));
}

}  // namespace

std::string SentName(const v1::UOp& node) {
  const absl::string_view name = OpName(node.op());
  return name.empty() ? absl::StrCat(static_cast<int>(node.op())) : std::string(name);
}

absl::Status AsSent(const absl::Status& status, const v1::Graph& wire) {
  std::optional<v1::ErrorDetail> detail = DetailOf(status);
  if (!detail.has_value() || !detail->has_node() || detail->node() >= static_cast<uint32_t>(wire.nodes_size()))
    return status;
  const v1::UOp& node = wire.nodes(static_cast<int>(detail->node()));
  detail->set_op(SentName(node));
  detail->set_tag(node.tag());
  absl::Status sent(status.code(), InSentWords(status.message(), node));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { sent.SetPayload(url, payload); });
  sent.SetPayload(kErrorDetailUrl, absl::Cord(detail->SerializeAsString()));
  return sent;
}

}  // namespace kiln::compiler
