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
    {v1::GRAPH_EMPTY, "is the file empty, or of another format than its name says?"},
    {v1::SOURCE_OUT_OF_RANGE, "sources are node numbers of this graph; `kiln graph print` lists them"},
    {v1::GRAPH_CYCLE, "put each node after its sources"},
    {v1::UNKNOWN_OP, "the server may be older than the client; `kiln devices` says its version"},
    {v1::UNSUPPORTED_OP, "write it with core ops, or use a newer server"},
    {v1::DTYPE_MISMATCH, "put a CAST before the operand that differs"},
    {v1::SHAPE_MISMATCH, "put a RESHAPE or EXPAND before the operand that differs"},
    {v1::BAD_ROOT, "the last node must be a TUPLE of results or a SINK of stores"},
    {v1::GRAPH_TOO_LARGE, "cut the graph in parts; or raise the limit if it is the server's, not a device's own"},
    {v1::MISSING_ARGUMENT, "give it with --input NAME=FILE.npy, or let --random or --zeros make it up"},
    {v1::UNKNOWN_ARGUMENT, "`kiln graph print` shows the PARAMs there are"},
    {v1::BUFFER_SIZE_MISMATCH, "`kiln graph print` shows the PARAM's shape"},
    {v1::BUFFER_DTYPE_MISMATCH, "save the file with the PARAM's dtype: a.astype(...)"},
    {v1::BUFFER_DEVICE_MISMATCH, "copy it to the device where it is used"},
    {v1::DEADLINE_PASSED, "allow more time with --timeout"},
    {v1::NEED_GRAPH, "the server does not know this hash; give the graph's file instead"},
    {v1::UNKNOWN_DEVICE, "`kiln devices` lists those there are"},
    {v1::OUT_OF_MEMORY, "`kiln devices` shows how much is in use"},
    {v1::CORRUPT_ENTRY, "a server compiles such a program anew by itself; a bundle must be copied again"},
    {v1::SHUTTING_DOWN, "try again when the server is back"},
    {v1::INTERNAL_FAULT, "this is a fault of the server, not yours; its log says more"},
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
