// kiln graph: what can be said of a graph without a server.
#include <graphviz/gvc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph_dot.h"
#include "base/graph_hash.h"
#include "base/graph_text.h"
#include "client/cli/command.h"
#include "client/cli/graph_file.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string graph;
  std::string output;
};

absl::Status Emit(const std::string& text, const std::string& output) {
  if (output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return absl::OkStatus();
  }
  std::ofstream stream(output, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  return stream ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", output));
}

absl::Status Hash(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(cli.graph, ReadGraph(flags.graph));
  KILN_ASSIGN_OR_RETURN(const GraphHash hash, HashGraph(cli.graph));
  return Emit(absl::StrCat(hash.Hex(), "\n"), flags.output);
}

absl::Status Print(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(cli.graph, ReadGraph(flags.graph));
  return Emit(PrintGraph(cli.graph), flags.output);
}

absl::Status Svg(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(cli.graph, ReadGraph(flags.graph));
  GVC_t* context = gvContext();
  Agraph_t* picture = agmemread(GraphToDot(cli.graph).c_str());
  char* data = nullptr;
  unsigned int length = 0;
  const bool drawn = picture != nullptr && gvLayout(context, picture, "dot") == 0 &&
                     gvRenderData(context, picture, "svg", &data, &length) == 0;
  const std::string svg = drawn ? std::string(data, length) : "";
  if (drawn) {
    gvFreeRenderData(data);
    gvFreeLayout(context, picture);
  }
  if (picture != nullptr) agclose(picture);
  gvFreeContext(context);
  if (!drawn) return absl::InternalError("Graphviz could not draw the graph");
  return Emit(svg, flags.output);
}

using Action = absl::Status (*)(Cli&, const Flags&);

void AddOne(CLI::App& group, Cli& cli, const char* name, const char* what, Action action) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = group.add_subcommand(name, what);
  command->add_option("graph", flags->graph, "The graph: .uop, .txtpb or .pb; - reads .uop text")->required();
  command->add_option("--output,-o", flags->output, "A file, instead of standard output");
  command->callback([flags, action, &cli] { cli.action = [flags, action](Cli& cli) { return action(cli, *flags); }; });
}

}  // namespace

void AddGraph(CLI::App& app, Cli& cli) {
  CLI::App* group = app.add_subcommand("graph", "Look at a graph; needs no server");
  group->footer(
      "Examples:\n"
      "  kiln graph print model.pb > model.uop    the numbered text form\n"
      "  kiln graph hash model.pb                 what the server knows it by\n"
      "  kiln graph svg model.pb -o model.svg     a picture");
  group->require_subcommand(1);
  AddOne(*group, cli, "hash", "The graph's identity: 64 hex digits", Hash);
  AddOne(*group, cli, "print", "The numbered text form, one line a node", Print);
  AddOne(*group, cli, "svg", "A picture", Svg);
}

}  // namespace kiln::cli
