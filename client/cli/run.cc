// kiln run: one call of a graph, with files in and files out.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/onnx_model.h"
#include "client/cli/text/graph_file.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/table.h"
#include "client/cli/text/tensor_text.h"
#include "client/cpp/arrays/npy.h"

namespace kiln::cli {
namespace {

using client::HostTensor;
using Json = nlohmann::ordered_json;

struct Flags {
  std::string graph;
  InputFlags inputs;
  ModelFlags sizes;
  bool json = false;
  // "FILE.npy" in the order of the results, or "INDEX=FILE.npy".
  std::vector<std::string> outputs;
  size_t show = 8;
};

// What a run needs beside the graph.
struct Beside {
  InputFlags inputs;
  v1::CompileOptions options;
  std::map<uint32_t, HostTensor> constants;
  std::map<size_t, std::string> results;  // their names
};

absl::StatusOr<Beside> Open(Cli& cli, const Flags& flags) {
  Beside beside = {flags.inputs};
  if (!IsModel(flags.graph)) {
    KILN_RETURN_IF_ERROR(ReadUnlessHash(cli, flags.graph));
    return beside;
  }
  KILN_ASSIGN_OR_RETURN(onnx::Model model, ImportModel(flags.graph, flags.sizes, flags.inputs.files));
  if (!model.variables.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--size ", model.variables.front().name, ": one run has one number, not a range"));
  }
  // What the graph does not read, or has as its own, it has no PARAM for.
  for (const onnx::Model::Input& input : model.inputs) {
    if (input.used) continue;
    std::erase_if(beside.inputs.files,
                  [&](const std::string& word) { return absl::StartsWith(word, input.name + "="); });
  }
  cli.graph = std::move(model.graph);
  for (onnx::Model::Constant& constant : model.constants) {
    beside.options.add_constant_slots(constant.slot);
    beside.constants[constant.slot] = std::move(constant.value);
  }
  for (const onnx::Model::Output& output : model.outputs) {
    if (output.result) beside.results[*output.result] = output.name;
  }
  return beside;
}

// The files by result index.
absl::StatusOr<std::map<size_t, std::string>> OutputFiles(const Flags& flags, size_t results) {
  std::map<size_t, std::string> files;
  size_t next = 0;
  for (const std::string& word : flags.outputs) {
    const size_t equals = word.find('=');
    size_t index = next;
    if (equals != std::string::npos && !absl::SimpleAtoi(word.substr(0, equals), &index)) {
      return absl::InvalidArgumentError(absl::StrCat("--output ", word, ": write FILE.npy or INDEX=FILE.npy"));
    }
    if (index >= results) {
      return absl::InvalidArgumentError(
          absl::StrCat("--output ", word, ": the graph has ", results, " results, counted from 0"));
    }
    files[index] = equals == std::string::npos ? word : word.substr(equals + 1);
    next = index + 1;
  }
  return files;
}

// What came out: a result, or a parameter that the program has written to.
struct Out {
  bool updated = false;
  std::string name;  // "0 logits" of a result, "state" of a parameter
  HostTensor tensor;
};

Row TensorRow(const Out& out, size_t show) {
  const Summary summary = Summarize(out.tensor);
  return {absl::StrCat(out.updated ? "updated " : "result ", out.name),
          client::TypeText(out.tensor.dtype, out.tensor.shape),
          absl::StrCat(summary.least),
          absl::StrCat(summary.greatest),
          absl::StrCat(summary.mean),
          absl::StrCat(summary.nans),
          ElementsText(out.tensor, show)};
}

Json TensorJson(const Out& out, size_t show) {
  const Summary summary = Summarize(out.tensor);
  std::vector<double> elements = Elements(out.tensor);
  elements.resize(std::min(elements.size(), show));
  return {{"name", out.name},          {"dtype", DTypeName(out.tensor.dtype)},
          {"shape", out.tensor.shape}, {"min", summary.least},
          {"max", summary.greatest},   {"mean", summary.mean},
          {"nan", summary.nans},       {"first_elements", elements}};
}

// The same as a table and two lines, or as JSON.
void Show(const std::vector<Out>& outs, const client::Program& program, const v1::Timing& timing,
          const Flags& flags) {
  const v1::CompileResponse& compiled = program.compiled();
  if (flags.json) {
    Json results = Json::array(), updated = Json::array();
    for (const Out& out : outs) (out.updated ? updated : results).push_back(TensorJson(out, flags.show));
    const Json all = {{"hash", absl::BytesToHexString(program.hash())},
                      {"compile_us", compiled.compile_us()},
                      {"from_cache", compiled.from_cache()},
                      {"kernels", compiled.kernels()},
                      {"server_us", timing.total_us()},
                      {"kernels_us", timing.device_us()},
                      {"results", results},
                      {"updated", updated}};
    std::fputs(JsonText(all).c_str(), stdout);
    return;
  }
  std::vector<Row> rows = {{"", "type", "min", "max", "mean", "nan", "elements"}};
  for (const Out& out : outs) rows.push_back(TensorRow(out, flags.show));
  std::fputs(TableText(rows).c_str(), stdout);
  std::printf("compile %s%s, %u kernels; execute %s on the server, of which %s in kernels\n",
              MicrosText(static_cast<double>(compiled.compile_us())).c_str(), compiled.from_cache() ? " (earlier)" : "",
              compiled.kernels(), MicrosText(timing.total_us()).c_str(), MicrosText(timing.device_us()).c_str());
}

absl::Status Run(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(Beside beside, Open(cli, flags));
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const client::Program program, OpenProgram(cli, *client, flags.graph, beside.options));
  const v1::Signature& signature = program.signature();
  KILN_ASSIGN_OR_RETURN(const auto files, OutputFiles(flags, static_cast<size_t>(signature.results_size())));
  KILN_ASSIGN_OR_RETURN(const auto buffers, MakeInputs(*client, program, beside.inputs, std::move(beside.constants)));
  KILN_ASSIGN_OR_RETURN(const client::RunResults run, program.Run(AsArguments(buffers), {.want_timing = true}));

  std::vector<Out> outs;
  std::map<uint32_t, std::string> names = ParamNames(cli.graph, signature);
  for (int i = 0; i < signature.results_size() && i < static_cast<int>(run.results.size()); ++i) {
    const v1::Signature::Result& result = signature.results(i);
    const client::DeviceBuffer* buffer = &run.results[i].buffer;
    if (result.has_aliases()) buffer = &buffers.at(signature.parameters(static_cast<int>(result.aliases())).slot());
    KILN_ASSIGN_OR_RETURN(HostTensor tensor, client->Download(*buffer));
    const auto name = beside.results.find(static_cast<size_t>(i));
    const auto file = files.find(static_cast<size_t>(i));
    if (file != files.end()) KILN_RETURN_IF_ERROR(client::WriteNpy(file->second, tensor));
    outs.push_back({false, absl::StrCat(i, name == beside.results.end() ? "" : " " + name->second), std::move(tensor)});
  }
  for (const v1::Signature::Parameter& parameter : signature.parameters()) {
    if (!parameter.written()) continue;
    KILN_ASSIGN_OR_RETURN(HostTensor tensor, client->Download(buffers.at(parameter.slot())));
    const std::string& name = names[parameter.slot()];
    outs.push_back({true, name.empty() ? absl::StrCat(parameter.slot()) : name, std::move(tensor)});
  }
  Show(outs, program, run.timing, flags);
  return absl::OkStatus();
}

}  // namespace

void AddRun(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("run", "Run a graph once and show its results");
  command->footer(
      "Examples:\n"
      "  kiln run add.uop --random                       any inputs, just to see it work\n"
      "  kiln run model.pb -i x=x.npy -i w=w.npy -o y.npy  inputs by PARAM name, result 0 to a file\n"
      "  kiln run model.pb -i 0=x.npy --zeros -o 1=z.npy   input by slot, the rest zeros, result 1\n"
      "  kiln run 6f0c2b --random                        a program that the server has (kiln programs)\n"
      "  kiln run model.onnx -i x=x.npy -o y.npy         an ONNX model, of the sizes that x.npy has\n"
      "  kiln run model.onnx --size batch=8 --random     or of this size");
  command->add_option("graph", flags->graph, absl::StrCat(kGraphOrHash, "; or a model: .onnx"))->required();
  AddInputFlags(*command, flags->inputs);
  AddModelFlags(*command, flags->sizes);
  command->add_option("--output,-o", flags->outputs, "FILE.npy in the order of the results, or INDEX=FILE.npy")
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "The same as JSON; 64-bit integers lose their low bits, as in the table");
  command->add_option("--show", flags->show, "Elements to show of each result")->capture_default_str();
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Run(running, *flags); }; });
}

}  // namespace kiln::cli
