#include "client/cli/text/stages.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {

const std::vector<StageRow>& Stages() {
  static const auto& rows = *new std::vector<StageRow>{
      {"callify", "one function of its parameters", {"callify", "enter kernel"}},
      {"rangeify", "kernels of loops, and the list of their calls", {"rangeify", "enter kernel"}},
      {"optimize", "loops split for lanes, tiles and threads", {"optimize", "decompose"}},
      {"expand", "parallel loops as lanes or work items", {"work items", "expand", "work groups"}},
      {"select", "accumulators, gates, what the target has words for", {"select", "reduce to acc", "bounds"}},
      {"linearize", "instructions in order", {"linearize", "place"}},
      {"memory_plan", "where buffers lie", {"memory plan"}},
      {"render", "code, as text", {"source", "llvm"}},
  };
  return rows;
}

std::string PassOf(absl::string_view stage) {
  const absl::string_view pass = stage.substr(0, stage.find('/'));  // a kernel's name may have dots
  return std::string(pass.substr(pass.find('.') + 1));
}

std::string KernelOf(absl::string_view stage) {
  const size_t slash = stage.find('/');
  return slash == absl::string_view::npos ? "" : std::string(stage.substr(slash + 1));
}

std::vector<const v1::ExplainResponse::Stage*> Find(const v1::ExplainResponse& response, absl::string_view name) {
  std::vector<const v1::ExplainResponse::Stage*> found;
  const auto take = [&](const auto& matches) {
    for (const v1::ExplainResponse::Stage& stage : response.stages()) {
      if (matches(stage.name())) found.push_back(&stage);
    }
  };
  take([&](const std::string& stage) {
    return stage == name || PassOf(stage) == name || absl::EndsWith(stage, absl::StrCat(".", name));
  });
  const std::string wanted = PassOf(name), kernel = KernelOf(name);
  for (const StageRow& row : Stages()) {
    if (row.name != wanted) continue;
    for (absl::string_view pass : row.passes) {
      if (!found.empty()) break;
      take([&](const std::string& stage) {
        return PassOf(stage) == pass && (kernel.empty() || KernelOf(stage) == kernel);
      });
    }
  }
  return found;
}

std::vector<std::string> PassesOf(absl::string_view name) {
  std::vector<std::string> passes = {PassOf(name)};
  for (const StageRow& row : Stages()) {
    if (row.name != PassOf(name)) continue;
    for (absl::string_view pass : row.passes) passes.emplace_back(pass);
  }
  return passes;
}

absl::StatusOr<const v1::ExplainResponse::Stage*> FindOne(const v1::ExplainResponse& response, absl::string_view name) {
  const auto found = Find(response, name);
  if (found.size() == 1) return found[0];
  std::vector<std::string> names;
  if (found.empty()) {
    for (const StageRow& row : Stages()) names.emplace_back(row.name);
    for (const v1::ExplainResponse::Stage& stage : response.stages()) {
      if (std::find(names.begin(), names.end(), PassOf(stage.name())) == names.end())
        names.push_back(PassOf(stage.name()));
    }
    return absl::NotFoundError(absl::StrCat("no stage ", name, "; there are ", absl::StrJoin(names, ", ")));
  }
  for (const auto* stage : found) names.push_back(absl::StrCat(name, "/", KernelOf(stage->name())));
  return absl::NotFoundError(
      absl::StrCat("stage ", name, " is seen once for each kernel: ", absl::StrJoin(names, ", ")));
}

bool IsGraph(const v1::ExplainResponse::Stage& stage) {
  constexpr absl::string_view kOther[] = {"batching", "choose buffers", "choose layouts", "memory plan",
                                          "llvm",     "source",         "assembly",       "object"};
  return std::find(std::begin(kOther), std::end(kOther), PassOf(stage.name())) == std::end(kOther);
}

}  // namespace kiln::cli
