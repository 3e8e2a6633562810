// kiln gradient: a graph's gradient, as a graph.
#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "client/cli/command.h"
#include "client/cli/text/graph_file.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/output.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string graph;
  std::string output;
  std::vector<std::string> wrt;
  uint32_t result = 0;
  std::string cotangent;
  bool include_results = false;
  bool json = false;
};

absl::StatusOr<uint32_t> SlotNamed(const v1::Graph& graph, const std::string& word) {
  if (const auto slot = SlotOf(graph, word)) return *slot;
  std::vector<std::string> names;
  for (const auto& [slot, name] : ParamNames(graph)) names.push_back(name.empty() ? absl::StrCat(slot) : name);
  return absl::InvalidArgumentError(
      absl::StrCat("the graph has no PARAM ", word, "; it has ", absl::StrJoin(names, ", ")));
}

absl::Status Gradient(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(cli.graph, ReadGraph(flags.graph));
  client::GradientOptions options;
  options.result = flags.result;
  options.include_results = flags.include_results;
  for (const std::string& word : flags.wrt) {
    KILN_ASSIGN_OR_RETURN(options.wrt_slots.emplace_back(), SlotNamed(cli.graph, word));
  }
  uint32_t slot = 0;
  if (!flags.cotangent.empty()) {
    if (!CLI::detail::lexical_cast(flags.cotangent, slot)) {
      return absl::InvalidArgumentError(absl::StrCat("--cotangent ", flags.cotangent, ": a slot is a number"));
    }
    options.cotangent_slot = slot;
  }
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::GradientResponse gradient, client->Gradient(cli.graph, options));
  if (flags.json) return WriteText(MessageJson(gradient), flags.output);
  if (!flags.output.empty()) return WriteGraph(gradient.graph(), flags.output);
  return WriteText(PrintGraph(gradient.graph()), flags.output);
}

}  // namespace

void AddGradient(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("gradient", "The graph of a graph's gradient");
  command->footer(
      "Examples:\n"
      "  kiln gradient loss.uop --wrt w,b -o backward.uop    result 0, one number, by two parameters\n"
      "  kiln gradient loss.uop --wrt w --include-results    forward and backward in one program\n"
      "  kiln gradient model.pb --wrt 1 --cotangent 9        result 0, weighted with what slot 9 brings");
  command->add_option("graph", flags->graph, "The graph: .uop, .txtpb or .pb; - reads .uop text")->required();
  command->add_option("--wrt", flags->wrt, "PARAMs by name or slot, separated by commas")->delimiter(',')->required();
  command->add_option("--result", flags->result, "Which result, counted from 0")->capture_default_str();
  command->add_option("--cotangent", flags->cotangent, "A free slot for the weights of the result's elements");
  command->add_flag("--include-results", flags->include_results, "The graph's own results come first");
  command->add_flag("--json", flags->json, "As JSON: kiln.v1.GradientResponse; it is no file of a graph");
  command->add_option("--output,-o", flags->output, "A file (.uop, .pb or .kgraph), instead of standard output");
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Gradient(running, *flags); }; });
}

}  // namespace kiln::cli
