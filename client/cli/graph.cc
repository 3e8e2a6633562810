// kiln graph: what can be said of a graph without running it.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "base/graph/graph_text.h"
#include "client/cli/command.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/output.h"
#include "client/cli/text/stages.h"
#include "client/cli/text/svg.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string graph;
  std::string output;
  std::string stage;
  std::string source;
  bool json = false;
};

// The first of the compiler's stages, on which all others go on: of a program that the server has this is its graph.
constexpr char kFirstStage[] = "normalise";

absl::StatusOr<v1::ExplainResponse::Stage> AskStage(Cli& cli, const Flags& flags, absl::string_view name) {
  v1::ExplainRequest request;
  request.set_device(cli.device);
  request.set_source(flags.source);
  if (!IsHashPrefix(flags.graph)) *request.mutable_graph() = cli.graph;
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  if (!request.has_graph()) {
    KILN_ASSIGN_OR_RETURN(*request.mutable_graph_hash(), FindHash(*client, flags.graph));
  }
  KILN_ASSIGN_OR_RETURN(const v1::ExplainResponse response, client->Explain(request));
  KILN_ASSIGN_OR_RETURN(const auto* stage, FindOne(response, name));
  return *stage;
}

// The file's, or as the compiler begins with it.
absl::Status ReadOrAsk(Cli& cli, const Flags& flags) {
  if (!IsHashPrefix(flags.graph)) return ReadUnlessHash(cli, flags.graph);
  KILN_ASSIGN_OR_RETURN(const v1::ExplainResponse::Stage stage, AskStage(cli, flags, kFirstStage));
  KILN_ASSIGN_OR_RETURN(cli.graph, ParseGraph(stage.text()));
  return absl::OkStatus();
}

absl::Status Hash(Cli& cli, const Flags& flags) {
  std::string hex;
  if (IsHashPrefix(flags.graph)) {
    KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
    KILN_ASSIGN_OR_RETURN(const std::string bytes, FindHash(*client, flags.graph));
    hex = absl::BytesToHexString(bytes);
  } else {
    KILN_RETURN_IF_ERROR(ReadUnlessHash(cli, flags.graph));
    KILN_ASSIGN_OR_RETURN(const GraphHash hash, HashGraph(cli.graph));
    hex = hash.Hex();
  }
  return WriteText(flags.json ? JsonText({{"hash", hex}}) : hex + "\n", flags.output);
}

absl::Status Print(Cli& cli, const Flags& flags) {
  KILN_RETURN_IF_ERROR(ReadOrAsk(cli, flags));
  return WriteText(flags.json ? MessageJson(cli.graph) : PrintGraph(cli.graph), flags.output);
}

// The graph as it is, or as the server's compiler has it at a stage.
absl::Status Svg(Cli& cli, const Flags& flags) {
  if (flags.stage.empty()) {
    KILN_RETURN_IF_ERROR(ReadOrAsk(cli, flags));
    KILN_ASSIGN_OR_RETURN(const std::string svg, GraphToSvg(cli.graph));
    return WriteText(svg, flags.output);
  }
  KILN_RETURN_IF_ERROR(ReadUnlessHash(cli, flags.graph));
  KILN_ASSIGN_OR_RETURN(const v1::ExplainResponse::Stage stage, AskStage(cli, flags, flags.stage));
  if (!IsGraph(stage)) return WriteText(TextToSvg(stage.name(), stage.text()), flags.output);
  KILN_ASSIGN_OR_RETURN(const v1::Graph graph, ParseGraph(stage.text()));
  KILN_ASSIGN_OR_RETURN(const std::string svg, GraphToSvg(graph));
  return WriteText(svg, flags.output);
}

using Action = absl::Status (*)(Cli&, const Flags&);

std::shared_ptr<Flags> AddOne(CLI::App& group, Cli& cli, const char* name, const char* what, Action action) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = group.add_subcommand(name, what);
  command->add_option("graph", flags->graph, absl::StrCat(kGraphOrHash, "; - reads .uop text"))->required();
  command->add_option("--output,-o", flags->output, "A file, instead of standard output");
  command->callback(
      [flags, action, &cli] { cli.action = [flags, action](Cli& running) { return action(running, *flags); }; });
  return flags;
}

// The stages by name, one a line.
std::string StageList() {
  std::string list = "Stages of --stage:\n";
  for (const StageRow& row : Stages())
    absl::StrAppend(&list, "  ", row.name, std::string(13 - row.name.size(), ' '), row.what, "\n");
  return list + "or any pass that kiln explain names; PASS/KERNEL where there are several kernels";
}

}  // namespace

void AddGraph(CLI::App& app, Cli& cli) {
  CLI::App* group = app.add_subcommand("graph", "Look at a graph; needs no server, but for hashes and svg --stage");
  group->footer(
      "Examples:\n"
      "  kiln graph print model.pb > model.uop    the numbered text form\n"
      "  kiln graph hash model.pb                 what the server knows it by\n"
      "  kiln graph svg model.pb -o model.svg     a picture\n"
      "  kiln graph print 6f0c2b                  of a program that the server has, as its compiler begins with it\n"
      "  kiln graph svg model.pb --stage optimize/k0_map_8   how the compiler has it at a stage");
  group->require_subcommand(1);
  const auto hash = AddOne(*group, cli, "hash", "The graph's identity: 64 hex digits", Hash);
  group->get_subcommand("hash")->add_flag("--json", hash->json, "The same as JSON");
  const auto print = AddOne(*group, cli, "print", "The numbered text form, one line a node", Print);
  group->get_subcommand("print")->add_flag("--json", print->json, "As JSON: kiln.v1.Graph; it is no file of a graph");
  const auto flags = AddOne(*group, cli, "svg", "A picture", Svg);
  CLI::App* svg = group->get_subcommand("svg");
  svg->footer(StageList());
  svg->add_option("--stage", flags->stage, "Draw it as it is at this stage of a compilation");
  svg->add_option("--source", flags->source,
                  "That of a compilation to c, cuda, hip, opencl or metal, or for a GPU (sm_90a, gfx942)");
}

}  // namespace kiln::cli
