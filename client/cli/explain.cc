// kiln explain: what the compiler makes of a graph, stage by stage.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "client/cli/command.h"
#include "client/cli/text/graph_file.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/pictures.h"
#include "client/cli/text/stages.h"
#include "client/cli/text/table.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string graph;
  std::vector<std::string> stages;
  std::string source;
  std::string pictures;
  bool all = false;
  bool batching = false;
  bool json = false;
};

bool Wanted(const v1::ExplainResponse& response, const v1::ExplainResponse::Stage& stage, const Flags& flags) {
  if (flags.all) return true;
  for (const std::string& name : flags.stages) {
    for (const auto* found : Find(response, name)) {
      if (found == &stage) return true;
    }
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
  std::vector<Row> kernels = {{"kernel", "iterations", "flops", "read", "written", "gates"}};
  for (const v1::Kernel& kernel : response.kernels()) {
    kernels.push_back({kernel.symbol(), absl::StrCat(kernel.iterations()), absl::StrCat(kernel.cost().flops()),
                       BytesText(static_cast<double>(kernel.cost().bytes_read())),
                       BytesText(static_cast<double>(kernel.cost().bytes_written())), absl::StrCat(kernel.gates())});
  }
  std::vector<Row> schedules = {{"kernel", "schedule"}};
  for (const v1::Kernel& kernel : response.kernels()) {
    if (!kernel.schedule().empty()) schedules.push_back({kernel.symbol(), kernel.schedule()});
  }
  const auto hash = GraphHash::FromBytes(response.graph_hash());
  std::printf("%s\n%s\n", TableText(passes).c_str(), TableText(kernels).c_str());
  if (schedules.size() > 1) std::printf("%s\n", TableText(schedules).c_str());
  std::printf("hash       %s\nsignature  %s\n", hash.has_value() ? hash->Hex().c_str() : "none",
              SignatureText(response.signature()).c_str());
}

// Five pictures of the program's life, in a folder.
absl::Status DrawPictures(client::Client& client, v1::ExplainRequest request, const std::string& folder) {
  v1::ExplainRequest for_source = request;
  if (request.source().empty()) for_source.set_source("c");
  request.clear_source();
  KILN_ASSIGN_OR_RETURN(const v1::ExplainResponse compiled, client.Explain(request));
  KILN_ASSIGN_OR_RETURN(const v1::ExplainResponse source, client.Explain(for_source));
  KILN_ASSIGN_OR_RETURN(const std::vector<Picture> pictures, DrawLife(compiled, source));
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  for (const Picture& picture : pictures) {
    const std::string path = absl::StrCat(folder, "/", picture.file);
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << picture.svg;
    file.close();
    if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", path));
    std::printf("%s\n", path.c_str());
  }
  return absl::OkStatus();
}

// For each variable, whether rows of several callers may be run as one.
absl::Status PrintBatching(client::Client& client, v1::ExplainRequest request) {
  request.add_stages("batching");
  KILN_ASSIGN_OR_RETURN(const v1::ExplainResponse response, client.Explain(request));
  const auto found = Find(response, "batching");
  for (const auto* stage : found) std::fwrite(stage->text().data(), 1, stage->text().size(), stdout);
  if (found.empty()) std::puts("nothing to batch: it is no graph of tensors for one device that has a variable");
  return absl::OkStatus();
}

// With the stages that are asked for; with all of them if one of these is not among them, for who is told what there
// is.
absl::StatusOr<v1::ExplainResponse> Ask(client::Client& client, v1::ExplainRequest request, const Flags& flags) {
  if (!flags.source.empty() && !flags.all && flags.stages.empty()) request.add_stages("source");
  if (flags.all || flags.stages.empty()) return client.Explain(request);
  for (const std::string& name : flags.stages) {
    for (std::string& pass : PassesOf(name)) request.add_stages(std::move(pass));
  }
  KILN_ASSIGN_OR_RETURN(v1::ExplainResponse response, client.Explain(request));
  for (const std::string& name : flags.stages) {
    if (!Find(response, name).empty()) continue;
    request.clear_stages();
    return client.Explain(request);
  }
  return response;
}

absl::Status Explain(Cli& cli, const Flags& flags) {
  v1::ExplainRequest request;
  request.set_device(cli.device);
  // Files have names with a point.
  const bool is_hash = IsHashPrefix(flags.graph);
  if (!is_hash) {
    KILN_ASSIGN_OR_RETURN(cli.graph, ReadGraph(flags.graph));
    *request.mutable_graph() = cli.graph;
  }
  request.set_source(flags.source);
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  if (is_hash) {
    KILN_ASSIGN_OR_RETURN(*request.mutable_graph_hash(), FindHash(*client, flags.graph));
  }
  if (flags.batching) return PrintBatching(*client, std::move(request));
  if (!flags.pictures.empty()) return DrawPictures(*client, std::move(request), flags.pictures);
  KILN_ASSIGN_OR_RETURN(const v1::ExplainResponse response, Ask(*client, request, flags));
  if (flags.json) {
    if (!flags.stages.empty() && Find(response, flags.stages[0]).empty())
      return FindOne(response, flags.stages[0]).status();
    std::fputs(MessageJson(response).c_str(), stdout);
    return absl::OkStatus();
  }
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
    if (!Wanted(response, stage, flags)) continue;
    found = true;
    std::printf("# ---- %s: %s, %u nodes\n%s\n", stage.name().c_str(), MicrosText(stage.micros()).c_str(),
                stage.nodes(), stage.text().c_str());
  }
  if (found) return absl::OkStatus();
  return FindOne(response, flags.stages[0]).status();
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
      "  kiln explain model.pb --batching         whether rows of several callers may be run as one\n"
      "  kiln explain model.pb --pictures life    from tensors to machine code, as SVG\n"
      "  kiln explain 6f0c2b --all                every stage of a program the server has, by its hash");
  command->add_option("graph", flags->graph, kGraphOrHash)->required();
  auto* stage = command->add_option("--stage", flags->stages, "Print this stage's text, or pass's, or PASS/KERNEL's")
                    ->allow_extra_args(false);
  command->add_option("--source", flags->source,
                      "Compile to c, cuda, hip, opencl or metal, or for a GPU (sm_90a, gfx942), and print the text");
  auto* pictures =
      command->add_option("--pictures", flags->pictures, "Write the program's life as five pictures into this folder");
  auto* batching = command
                       ->add_flag("--batching", flags->batching,
                                  "Print for each variable whether the program is row-wise in it, or why not")
                       ->excludes(stage);
  command->add_flag("--all", flags->all, "Print every stage's text")->excludes(stage);
  command
      ->add_flag("--json", flags->json,
                 "The same as JSON: kiln.v1.ExplainResponse, with the stages that are asked for; hashes are base64")
      ->excludes(pictures)
      ->excludes(batching);
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Explain(running, *flags); }; });
}

}  // namespace kiln::cli
