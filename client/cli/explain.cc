// kiln explain: what the compiler makes of a graph, stage by stage.
#include <CLI/CLI.hpp>
#include <algorithm>
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
  std::string source;
  bool all = false;
};

// Passes over kernels run once for each: "100.linearize/k0_sum_32x10" is pass
// "linearize" on kernel "k0_sum_32x10".
std::string PassOf(absl::string_view stage) {
  const size_t dot = stage.find('.');
  if (dot != absl::string_view::npos) stage.remove_prefix(dot + 1);
  return std::string(stage.substr(0, stage.find('/')));
}

// By its full name, its pass, or pass and kernel.
bool Wanted(const std::string& stage, const Flags& flags) {
  if (flags.all) return true;
  for (const std::string& name : flags.stages) {
    if (stage == name || PassOf(stage) == name || absl::EndsWith(stage, absl::StrCat(".", name))) return true;
  }
  return false;
}

struct Pass {
  std::string name;
  int runs = 0;
  double micros = 0;
  uint64_t nodes = 0;
};

// One row a pass, in the order of their first runs.
std::vector<Pass> Passes(const v1::ExplainResponse& response) {
  std::vector<Pass> passes;
  for (const v1::ExplainResponse::Stage& stage : response.stages()) {
    const std::string name = PassOf(stage.name());
    auto it = std::find_if(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == name; });
    if (it == passes.end()) it = passes.insert(it, Pass{name});
    ++it->runs;
    it->micros += stage.micros();
    it->nodes += stage.nodes();
  }
  return passes;
}

void PrintOverview(const v1::ExplainResponse& response) {
  std::vector<Row> passes = {{"pass", "runs", "time", "nodes after"}};
  for (const Pass& pass : Passes(response)) {
    passes.push_back({pass.name, absl::StrCat(pass.runs), MicrosText(pass.micros), absl::StrCat(pass.nodes)});
  }
  std::vector<Row> kernels = {{"kernel", "iterations", "flops", "read", "written"}};
  for (const v1::Kernel& kernel : response.kernels()) {
    kernels.push_back({kernel.symbol(), absl::StrCat(kernel.iterations()), absl::StrCat(kernel.cost().flops()),
                       BytesText(static_cast<double>(kernel.cost().bytes_read())),
                       BytesText(static_cast<double>(kernel.cost().bytes_written()))});
  }
  const auto hash = GraphHash::FromBytes(response.graph_hash());
  std::printf("%s\n%s\nhash       %s\nsignature  %s\n", TableText(passes).c_str(), TableText(kernels).c_str(),
              hash.has_value() ? hash->Hex().c_str() : "none", SignatureText(response.signature()).c_str());
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
  request.set_source(flags.source);
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::ExplainResponse response, client->Explain(request));
  if (!flags.source.empty() && !flags.all && flags.stages.empty()) {
    for (const v1::ExplainResponse::Stage& stage : response.stages()) {
      if (stage.name() == "source") std::fwrite(stage.text().data(), 1, stage.text().size(), stdout);
    }
    return absl::OkStatus();
  }
  if (!flags.all && flags.stages.empty()) {
    PrintOverview(response);
    return absl::OkStatus();
  }
  bool found = false;
  for (const v1::ExplainResponse::Stage& stage : response.stages()) {
    if (!Wanted(stage.name(), flags)) continue;
    found = true;
    std::printf("# ---- %s: %s, %u nodes\n%s\n", stage.name().c_str(), MicrosText(stage.micros()).c_str(),
                stage.nodes(), stage.text().c_str());
  }
  if (found) return absl::OkStatus();
  std::vector<std::string> names;
  for (const Pass& pass : Passes(response)) names.push_back(pass.name);
  return absl::NotFoundError(absl::StrCat("no stage of that name; there are ", absl::StrJoin(names, ", ")));
}

}  // namespace

void AddExplain(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("explain", "Show what the compiler makes of a graph");
  command->footer(
      "Examples:\n"
      "  kiln explain model.pb                    the passes, kernels and costs at a glance\n"
      "  kiln explain model.pb --stage assembly   what runs in the end\n"
      "  kiln explain model.pb --stage optimize/k0_map_8  one pass on one kernel\n"
      "  kiln explain model.pb --source metal     its kernels in a C-like language\n"
      "  kiln explain 6f0c...e1 --all             every stage of a program the server has, by its hash");
  command->add_option("graph", flags->graph, "A graph's file, or the 64 hex digits of its hash")->required();
  auto* stage = command->add_option("--stage", flags->stages, "Print this pass's text, or PASS/KERNEL's")
                    ->allow_extra_args(false);
  command->add_option("--source", flags->source, "Compile to c, cuda, hip, opencl or metal, and print the text");
  command->add_flag("--all", flags->all, "Print every stage's text")->excludes(stage);
  command->callback([flags, &cli] { cli.action = [flags](Cli& cli) { return Explain(cli, *flags); }; });
}

}  // namespace kiln::cli
