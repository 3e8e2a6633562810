// kiln import: what an ONNX model is as a graph.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/onnx_model.h"
#include "client/cli/text/graph_file.h"
#include "client/cli/text/table.h"
#include "client/cpp/arrays/npy.h"
#include "client/cpp/arrays/safetensors.h"
#include "models/kgraph/signature.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string model;
  ModelFlags sizes;
  std::string output;
  std::string constants;
  bool json = false;
};

// A name that a file can have, which no other slot's file has.
std::string NameOf(const onnx::Model::Constant& constant) {
  std::string name;
  for (const char c : constant.name.substr(0, 100)) name += absl::ascii_isalnum(c) || c == '_' || c == '-' ? c : '_';
  return absl::StrCat(constant.slot, "_", name);
}

absl::Status WriteConstants(const onnx::Model& model, const std::string& path) {
  if (absl::EndsWith(path, ".safetensors")) {
    std::map<std::string, const client::HostTensor*> tensors;
    for (const onnx::Model::Constant& constant : model.constants) tensors[NameOf(constant)] = &constant.value;
    return client::WriteSafetensors(path, tensors, {{kgraph::kSignatureKey, kgraph::WriteSignature(model)}});
  }
  const std::string& folder = path;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", folder, ": ", error.message()));
  for (const onnx::Model::Constant& constant : model.constants)
    KILN_RETURN_IF_ERROR(client::WriteNpy(absl::StrCat(folder, "/", NameOf(constant), ".npy"), constant.value));
  return absl::OkStatus();
}

std::string TableOf(const onnx::Model& model) {
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
  size_t bytes = 0;
  for (const onnx::Model::Constant& constant : model.constants) bytes += constant.value.bytes.size();
  return absl::StrCat(TableText(rows), model.graph.nodes_size(), " nodes; ", model.constants.size(), " constants of ",
                      BytesText(static_cast<double>(bytes)), "\n");
}

// The same for programs, such as kiln.onnx of the Python client: the signature, and what was written of the constants.
std::string JsonOf(const onnx::Model& model) {
  nlohmann::json all = nlohmann::json::parse(kgraph::WriteSignature(model));
  nlohmann::json& constants = all["constants"] = nlohmann::json::array();
  for (const onnx::Model::Constant& constant : model.constants) {
    constants.push_back({{"slot", constant.slot},
                         {"name", constant.name},
                         {"dtype", DTypeName(constant.value.dtype)},
                         {"written_as", NameOf(constant)}});
  }
  // Names are the file's, whatever bytes they have.
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::Status Import(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(onnx::Model model, ImportModel(flags.model, flags.sizes, {}));
  std::fputs((flags.json ? JsonOf(model) : TableOf(model)).c_str(), stdout);
  cli.graph = model.graph;
  std::string constants = flags.constants;
  if (constants.empty()) constants = ConstantsBeside(flags.output).value_or("");
  if (!flags.output.empty()) KILN_RETURN_IF_ERROR(WriteGraph(model.graph, flags.output));
  return constants.empty() ? absl::OkStatus() : WriteConstants(model, constants);
}

}  // namespace

void AddImport(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("import", "Make a graph of an ONNX model; needs no server");
  command->footer(
      "Examples:\n"
      "  kiln import model.onnx                              its inputs, outputs and constants\n"
      "  kiln import model.onnx --size batch=1:64 -o model.uop   the graph, for any batch up to 64\n"
      "  kiln import model.onnx -o model.kgraph              and its constants, in model.safetensors: for other "
      "clients, and for kilnd --models\n"
      "  kiln import model.onnx -o model.pb --constants weights  and its constants, a file each\n"
      "  kiln run model.onnx -i x=x.npy                      run it at once");
  command->add_option("model", flags->model, "The model: .onnx")->required();
  AddModelFlags(*command, flags->sizes);
  command->add_option("--output,-o", flags->output,
                      "Write the graph to this file: .uop, .pb, or .kgraph with its constants beside it");
  command->add_option("--constants", flags->constants,
                      "Write the constants to this folder: SLOT_NAME.npy; or to one file: .safetensors");
  command->add_flag("--json", flags->json, "Inputs, sizes, outputs and constants as JSON, and no table");
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Import(running, *flags); }; });
}

}  // namespace kiln::cli
