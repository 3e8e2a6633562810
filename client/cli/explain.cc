// kiln explain: what the compiler makes of a graph, stage by stage.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/graph_hash.h"
#include "client/cli/command.h"
#include "client/cli/graph_file.h"
#include "client/cli/table.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string graph;
  std::vector<std::string> stages;
  bool all = false;
};

// A stage is named in full ("010.rangeify") or by what follows its number.
bool Wanted(const std::string& stage, const Flags& flags) {
  if (flags.all) return true;
  for (const std::string& name : flags.stages) {
    if (stage == name || absl::EndsWith(stage, absl::StrCat(".", name))) return true;
  }
  return false;
}

void PrintOverview(const v1::ExplainResponse& response) {
  std::vector<Row> stages = {{"stage", "time", "nodes", "text"}};
  for (const v1::ExplainResponse::Stage& stage : response.stages()) {
    stages.push_back({stage.name(), MicrosText(stage.micros()), absl::StrCat(stage.nodes()),
                      BytesText(static_cast<double>(stage.text().size()))});
  }
  std::fputs(TableText(stages).c_str(), stdout);
  std::vector<Row> kernels = {{"\nkernel", "iterations", "flops", "read", "written", "what"}};
  for (const v1::Kernel& kernel : response.kernels()) {
    kernels.push_back({kernel.symbol(), absl::StrCat(kernel.iterations()), absl::StrCat(kernel.cost().flops()),
                       BytesText(static_cast<double>(kernel.cost().bytes_read())),
                       BytesText(static_cast<double>(kernel.cost().bytes_written())), kernel.name()});
  }
  std::fputs(TableText(kernels).c_str(), stdout);
  const auto hash = GraphHash::FromBytes(response.graph_hash());
  std::printf("\nhash       %s\nsignature  %s\n", hash.has_value() ? hash->Hex().c_str() : "none",
              SignatureText(response.signature()).c_str());
}

absl::Status Explain(Cli& cli, const Flags& flags) {
  v1::ExplainRequest request;
  request.set_device(cli.device);
  if (const auto hash = GraphHash::FromHex(flags.graph); hash.has_value()) {
    request.set_graph_hash(std::string(hash->Bytes()));
  } else {
    KILN_ASSIGN_OR_RETURN(cli.graph, ReadGraph(flags.graph));
    *request.mutable_graph() = cli.graph;
  }
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::ExplainResponse response, client->Explain(request));
  if (!flags.all && flags.stages.empty()) {
    PrintOverview(response);
    return absl::OkStatus();
  }
  bool found = false;
  std::vector<std::string> names;
  for (const v1::ExplainResponse::Stage& stage : response.stages()) {
    names.push_back(stage.name());
    if (!Wanted(stage.name(), flags)) continue;
    found = true;
    std::printf("# ---- %s: %s, %u nodes\n%s\n", stage.name().c_str(), MicrosText(stage.micros()).c_str(), stage.nodes(),
                stage.text().c_str());
  }
  if (found) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no stage of that name; there are ", absl::StrJoin(names, ", ")));
}

}  // namespace

void AddExplain(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("explain", "Show what the compiler makes of a graph");
  command->footer(
      "Examples:\n"
      "  kiln explain model.pb                    the stages, kernels and costs at a glance\n"
      "  kiln explain model.pb --stage assembly   one stage's text\n"
      "  kiln explain 6f0c...e1 --all             every stage of a program the server has, by its hash");
  command->add_option("graph", flags->graph, "A graph's file, or the 64 hex digits of its hash")->required();
  auto* stage = command->add_option("--stage", flags->stages, "Print this stage's text")->allow_extra_args(false);
  command->add_flag("--all", flags->all, "Print every stage's text")->excludes(stage);
  command->callback([flags, &cli] { cli.action = [flags](Cli& cli) { return Explain(cli, *flags); }; });
}

}  // namespace kiln::cli
