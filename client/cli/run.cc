// kiln run: one call of a graph, with files in and files out.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/onnx_model.h"
#include "client/cli/text/graph_file.h"
#include "client/cli/text/table.h"
#include "client/cli/text/tensor_text.h"
#include "client/cpp/arrays/npy.h"

namespace kiln::cli {
namespace {

using client::HostTensor;

struct Flags {
  std::string graph;
  InputFlags inputs;
  ModelFlags sizes;
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
    KILN_ASSIGN_OR_RETURN(cli.graph, ReadGraph(flags.graph));
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

Row TensorRow(const std::string& name, const HostTensor& tensor, size_t show) {
  const Summary summary = Summarize(tensor);
  return {name,
          client::TypeText(tensor.dtype, tensor.shape),
          absl::StrCat(summary.least),
          absl::StrCat(summary.greatest),
          absl::StrCat(summary.mean),
          absl::StrCat(summary.nans),
          ElementsText(tensor, show)};
}

absl::Status Run(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(Beside beside, Open(cli, flags));
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const client::Program program, client->Compile(cli.graph, beside.options));
  const v1::Signature& signature = program.signature();
  KILN_ASSIGN_OR_RETURN(const auto files, OutputFiles(flags, static_cast<size_t>(signature.results_size())));
  KILN_ASSIGN_OR_RETURN(const auto buffers,
                        MakeInputs(*client, cli.graph, signature, beside.inputs, std::move(beside.constants)));
  KILN_ASSIGN_OR_RETURN(const client::RunResults run, program.Run(AsArguments(buffers), {.want_timing = true}));

  std::vector<Row> rows = {{"", "type", "min", "max", "mean", "nan", "elements"}};
  std::map<uint32_t, std::string> names = ParamNames(cli.graph);
  for (int i = 0; i < signature.results_size() && i < static_cast<int>(run.results.size()); ++i) {
    const v1::Signature::Result& result = signature.results(i);
    const client::DeviceBuffer* buffer = &run.results[i].buffer;
    if (result.has_aliases()) buffer = &buffers.at(signature.parameters(static_cast<int>(result.aliases())).slot());
    KILN_ASSIGN_OR_RETURN(const HostTensor tensor, client->Download(*buffer));
    const auto name = beside.results.find(static_cast<size_t>(i));
    rows.push_back(TensorRow(absl::StrCat("result ", i, name == beside.results.end() ? "" : " " + name->second), tensor,
                             flags.show));
    const auto file = files.find(static_cast<size_t>(i));
    if (file != files.end()) KILN_RETURN_IF_ERROR(client::WriteNpy(file->second, tensor));
  }
  for (const v1::Signature::Parameter& parameter : signature.parameters()) {
    if (!parameter.written()) continue;
    KILN_ASSIGN_OR_RETURN(const HostTensor tensor, client->Download(buffers.at(parameter.slot())));
    const std::string& name = names[parameter.slot()];
    rows.push_back(
        TensorRow(absl::StrCat("updated ", name.empty() ? absl::StrCat(parameter.slot()) : name), tensor, flags.show));
  }
  std::fputs(TableText(rows).c_str(), stdout);

  const v1::CompileResponse& compiled = program.compiled();
  std::printf("compile %s%s, %u kernels; execute %s on the server, of which %s in kernels\n",
              MicrosText(static_cast<double>(compiled.compile_us())).c_str(), compiled.from_cache() ? " (earlier)" : "",
              compiled.kernels(), MicrosText(run.timing.total_us()).c_str(),
              MicrosText(run.timing.device_us()).c_str());
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
      "  kiln run model.onnx -i x=x.npy -o y.npy         an ONNX model, of the sizes that x.npy has\n"
      "  kiln run model.onnx --size batch=8 --random     or of this size");
  command->add_option("graph", flags->graph, "The graph: .uop, .txtpb or .pb; or a model: .onnx")->required();
  AddInputFlags(*command, flags->inputs);
  AddModelFlags(*command, flags->sizes);
  command->add_option("--output,-o", flags->outputs, "FILE.npy in the order of the results, or INDEX=FILE.npy")
      ->allow_extra_args(false);
  command->add_option("--show", flags->show, "Elements to show of each result")->capture_default_str();
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Run(running, *flags); }; });
}

}  // namespace kiln::cli
