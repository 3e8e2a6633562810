// kiln import: what an ONNX model is as a graph.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "client/cli/command.h"
#include "client/cli/onnx_model.h"
#include "client/cli/text/table.h"
#include "client/cpp/arrays/npy.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string model;
  ModelFlags sizes;
  std::string output;
  std::string constants;
};

absl::Status Write(const v1::Graph& graph, const std::string& path) {
  const bool text = absl::EndsWith(path, ".uop");
  if (!text && !absl::EndsWith(path, ".pb"))
    return absl::InvalidArgumentError(absl::StrCat(path, ": a graph is written to .uop or .pb"));
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << (text ? PrintGraph(graph) : graph.SerializeAsString());
  stream.close();
  return stream ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

// A name that a file can have, which no other slot's file has.
std::string FileName(const onnx::Model::Constant& constant) {
  std::string name;
  for (const char c : constant.name.substr(0, 100)) name += absl::ascii_isalnum(c) || c == '_' || c == '-' ? c : '_';
  return absl::StrCat(constant.slot, "_", name, ".npy");
}

absl::Status WriteConstants(const onnx::Model& model, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", error.message()));
  for (const onnx::Model::Constant& constant : model.constants)
    KILN_RETURN_IF_ERROR(client::WriteNpy(absl::StrCat(folder, "/", FileName(constant)), constant.value));
  return absl::OkStatus();
}

absl::Status Import(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(onnx::Model model, ImportModel(flags.model, flags.sizes, {}));
  std::vector<Row> rows = {{"", "slot", "name", "type"}};
  for (const onnx::Model::Input& input : model.inputs) {
    rows.push_back({input.used ? "input" : "input, not read", absl::StrCat(input.slot), input.name,
                    client::TypeText(input.dtype, input.shape)});
  }
  for (const client::SizeVariable& variable : model.variables) {
    rows.push_back(
        {"size", absl::StrCat(variable.slot), variable.name, absl::StrCat(variable.least, " to ", variable.greatest)});
  }
  for (const onnx::Model::Output& output : model.outputs) {
    rows.push_back({"output", output.result ? absl::StrCat(*output.result) : "none", output.name,
                    client::TypeText(output.dtype, output.shape)});
  }
  std::fputs(TableText(rows).c_str(), stdout);
  size_t bytes = 0;
  for (const onnx::Model::Constant& constant : model.constants) bytes += constant.value.bytes.size();
  std::printf("%d nodes; %zu constants of %s\n", model.graph.nodes_size(), model.constants.size(),
              BytesText(static_cast<double>(bytes)).c_str());
  cli.graph = model.graph;
  if (!flags.constants.empty()) KILN_RETURN_IF_ERROR(WriteConstants(model, flags.constants));
  return flags.output.empty() ? absl::OkStatus() : Write(model.graph, flags.output);
}

}  // namespace

void AddImport(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("import", "Make a graph of an ONNX model; needs no server");
  command->footer(
      "Examples:\n"
      "  kiln import model.onnx                              its inputs, outputs and constants\n"
      "  kiln import model.onnx --size batch=1:64 -o model.uop   the graph, for any batch up to 64\n"
      "  kiln import model.onnx -o model.pb --constants weights  and its constants, a file each\n"
      "  kiln run model.onnx -i x=x.npy                      run it at once");
  command->add_option("model", flags->model, "The model: .onnx")->required();
  AddModelFlags(*command, flags->sizes);
  command->add_option("--output,-o", flags->output, "Write the graph to this file: .uop or .pb");
  command->add_option("--constants", flags->constants, "Write the constants to this folder: SLOT_NAME.npy");
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Import(running, *flags); }; });
}

}  // namespace kiln::cli
