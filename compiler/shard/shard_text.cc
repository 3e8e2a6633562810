#include "compiler/shard/shard_text.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/wire.h"

namespace kiln::compiler {
namespace {

std::string LayoutText(const Layout& layout) {
  const std::string devices = layout.devices.empty() ? "the request's device" : layout.devices;
  return layout.axis < 0 ? absl::StrCat("whole on ", devices) : absl::StrCat("split ", layout.axis, " over ", devices);
}

std::string Name(const UOp* param) { return absl::StrCat("slot ", param->arg_as<BufferArg>().slot); }

}  // namespace

std::string TransferText(const Transfer& transfer) {
  std::string text = absl::StrCat(ToString(transfer.shape), " ");
  if (transfer.reduce_op.has_value()) {
    absl::StrAppend(&text, Name(*transfer.reduce_op), " of parts on ", transfer.from.devices);
  } else {
    absl::StrAppend(&text, LayoutText(transfer.from));
  }
  return absl::StrCat(text, " -> ", LayoutText(transfer.to));
}

std::string ShardText(const Shares& shares, const Cut& cut) {
  std::string text;
  for (const auto& step : cut.steps) {
    if (const Segment* segment = std::get_if<Segment>(&step)) {
      absl::StrAppend(&text, "segment on ", segment->devices.empty() ? "the request's device" : segment->devices, "\n",
                      ToText(segment->root));
    } else {
      const Transfer& transfer = shares.transfers[std::get<size_t>(step)];
      absl::StrAppend(&text, "transfer to ", Name(transfer.target), ": ", TransferText(transfer), "\n");
    }
  }
  return text;
}

}  // namespace kiln::compiler
