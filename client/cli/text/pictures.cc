#include "client/cli/text/pictures.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "client/cli/text/stages.h"
#include "client/cli/text/svg.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

constexpr size_t kMaxLines = 400;  // of a text that is drawn

std::string FirstLines(const std::string& text) {
  size_t end = 0;
  for (size_t lines = 0; lines < kMaxLines && end != std::string::npos; ++lines) end = text.find('\n', end + 1);
  return end == std::string::npos ? text : absl::StrCat(text.substr(0, end), "\n...");
}

absl::StatusOr<std::string> DrawGraph(const std::string& text) {
  KILN_ASSIGN_OR_RETURN(const v1::Graph graph, ParseGraph(text));
  return GraphToSvg(graph);
}

// The text of a stage of the whole program; empty if it did not run.
std::string TextOf(const v1::ExplainResponse& response, absl::string_view stage) {
  const auto found = Find(response, stage);
  return found.empty() ? "" : found[0]->text();
}

}  // namespace

v1::Graph CallList(const v1::Graph& rangeified) {
  v1::Graph list;
  std::map<uint32_t, uint32_t> kept;  // old number -> new
  const auto keep = [&](uint32_t old) {
    if (auto known = kept.find(old); known != kept.end()) return known->second;
    v1::UOp* node = list.add_nodes();
    *node = rangeified.nodes(static_cast<int>(old));
    node->clear_src();
    return kept[old] = static_cast<uint32_t>(list.nodes_size() - 1);
  };
  for (int i = 0; i < rangeified.nodes_size(); ++i) {
    const v1::UOp& uop = rangeified.nodes(i);
    const bool root = i == rangeified.nodes_size() - 1;
    if (uop.op() != v1::CALL && !(root && uop.op() == v1::LINEAR)) continue;
    std::vector<uint32_t> sources;
    for (uint32_t source : uop.src()) sources.push_back(keep(source));
    const uint32_t made = keep(static_cast<uint32_t>(i));
    for (uint32_t source : sources) list.mutable_nodes(static_cast<int>(made))->add_src(source);
  }
  return list;
}

absl::StatusOr<std::vector<Picture>> DrawLife(const v1::ExplainResponse& compiled, const v1::ExplainResponse& source) {
  std::vector<Picture> pictures;
  KILN_ASSIGN_OR_RETURN(std::string tensors, DrawGraph(TextOf(compiled, "normalise")));
  pictures.push_back({"1_tensor_graph.svg", std::move(tensors)});

  KILN_ASSIGN_OR_RETURN(const v1::Graph calls, ParseGraph(TextOf(compiled, "rangeify")));
  KILN_ASSIGN_OR_RETURN(std::string list, GraphToSvg(CallList(calls)));
  pictures.push_back({"2_calls.svg", std::move(list)});

  for (const auto* stage : Find(compiled, "bounds")) {
    if (KernelOf(stage->name()).empty()) continue;
    KILN_ASSIGN_OR_RETURN(std::string loops, DrawGraph(stage->text()));
    pictures.push_back({absl::StrCat("3_loops_", KernelOf(stage->name()), ".svg"), std::move(loops)});
  }

  pictures.push_back({"4_source.svg", TextToSvg("SOURCE", FirstLines(TextOf(source, "source")))});
  pictures.push_back({"5_binary.svg", TextToSvg(absl::StrCat("BINARY: ", TextOf(compiled, "object")),
                                                FirstLines(TextOf(compiled, "assembly")))});
  return pictures;
}

}  // namespace kiln::cli
