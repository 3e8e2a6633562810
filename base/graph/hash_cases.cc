#include "base/graph/hash_cases.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "base/graph/graph_text.h"
#include "google/protobuf/util/json_util.h"

namespace kiln {
namespace {

absl::StatusOr<std::string> ToJson(const v1::Graph& graph) {
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(graph, &json);
  if (!status.ok()) return absl::InternalError(status.ToString());
  return json;
}

}  // namespace

absl::StatusOr<std::vector<HashCase>> ParseHashCases(absl::string_view text) {
  std::vector<HashCase> cases;
  std::vector<std::string> bodies;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "== ")) {
      const std::pair<absl::string_view, absl::string_view> refused = absl::StrSplit(line, absl::MaxSplits(" ! ", 1));
      const std::pair<absl::string_view, absl::string_view> names =
          absl::StrSplit(refused.first, absl::MaxSplits(" = ", 1));
      cases.push_back({std::string(names.first), std::string(names.second), std::string(refused.second), {}});
      bodies.emplace_back();
    } else if (!bodies.empty()) {
      absl::StrAppend(&bodies.back(), line, "\n");
    }
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    absl::StatusOr<v1::Graph> graph = ParseGraph(bodies[i]);
    if (!graph.ok()) return Annotate(graph.status(), cases[i].name);
    cases[i].graph = *std::move(graph);
  }
  return cases;
}

absl::StatusOr<std::string> HashVectorsJson(const std::vector<HashCase>& cases) {
  std::string json = "[\n";
  for (size_t i = 0; i < cases.size(); ++i) {
    const absl::StatusOr<GraphHash> hash = HashGraph(cases[i].graph);
    if (hash.ok() != cases[i].error.empty()) {
      return Annotate(hash.ok() ? absl::InternalError("it has a hash") : hash.status(), cases[i].name);
    }
    KILN_ASSIGN_OR_RETURN(const std::string graph, ToJson(cases[i].graph));
    absl::StrAppend(&json, "{\"name\": \"", cases[i].name, "\",\n");
    if (hash.ok()) {
      absl::StrAppend(&json, " \"hash\": \"", hash->Hex(), "\",\n");
    } else {
      const std::optional<v1::ErrorDetail> detail = DetailOf(hash.status());
      if (!detail.has_value() || v1::ErrorCode_Name(detail->code()) != cases[i].error)
        return Annotate(hash.status(), absl::StrCat(cases[i].name, ", which should be ", cases[i].error));
      absl::StrAppend(&json, " \"error\": \"", cases[i].error, "\",\n");
      if (detail->has_node()) absl::StrAppend(&json, " \"node\": ", detail->node(), ",\n");
    }
    if (!cases[i].same_as.empty()) absl::StrAppend(&json, " \"same_as\": \"", cases[i].same_as, "\",\n");
    absl::StrAppend(&json, " \"graph\": ", graph, "}", i + 1 < cases.size() ? ",\n" : "\n");
  }
  return json + "]\n";
}

}  // namespace kiln
