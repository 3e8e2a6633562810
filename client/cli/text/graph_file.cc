#include "client/cli/text/graph_file.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace kiln::cli {

std::optional<std::string> ConstantsBeside(const std::string& path) {
  absl::string_view stem = path;
  if (!absl::ConsumeSuffix(&stem, ".kgraph")) return std::nullopt;
  return absl::StrCat(stem, ".safetensors");
}

std::map<uint32_t, std::string> ParamNames(const v1::Graph& graph) {
  std::map<uint32_t, std::string> names;
  for (const v1::UOp& uop : graph.nodes()) {
    if (uop.op() == v1::PARAM || uop.op() == v1::BUFFER) names[uop.buffer().slot()] = uop.buffer().name();
  }
  return names;
}

std::map<uint32_t, std::string> ParamNames(const v1::Graph& graph, const v1::Signature& signature) {
  if (graph.nodes_size() > 0) return ParamNames(graph);
  std::map<uint32_t, std::string> names;
  for (const v1::Signature::Parameter& parameter : signature.parameters()) names[parameter.slot()] = parameter.name();
  return names;
}

std::optional<uint32_t> SlotOf(const v1::Graph& graph, const std::string& word) {
  return SlotOf(ParamNames(graph), word);
}

std::optional<uint32_t> SlotOf(const std::map<uint32_t, std::string>& names, const std::string& word) {
  for (const auto& [slot, name] : names) {
    if (!name.empty() && name == word) return slot;
  }
  uint32_t slot = 0;
  if (absl::SimpleAtoi(word, &slot) && names.count(slot) > 0) return slot;
  return std::nullopt;
}

}  // namespace kiln::cli
