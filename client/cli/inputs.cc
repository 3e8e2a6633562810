#include "client/cli/inputs.h"

#include <CLI/CLI.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "client/cli/text/graph_file.h"
#include "client/cli/text/tensor_text.h"
#include "client/cpp/arrays/npy.h"

namespace kiln::cli {
namespace {

using client::HostTensor;
using client::Shape;

using Names = std::map<uint32_t, std::string>;

std::string NameOf(const Names& names, uint32_t slot) {
  const auto it = names.find(slot);
  return it == names.end() || it->second.empty() ? absl::StrCat("slot ", slot) : it->second;
}

// The files' tensors by slot.
absl::StatusOr<std::map<uint32_t, HostTensor>> ReadFiles(const Names& names, const InputFlags& flags) {
  std::map<uint32_t, HostTensor> tensors;
  for (const std::string& word : flags.files) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("--input ", word, ": write NAME=FILE.npy or SLOT=FILE.npy"));
    }
    const std::string name = word.substr(0, equals);
    const auto slot = SlotOf(names, name);
    if (!slot.has_value()) {
      std::vector<std::string> known;
      for (const auto& [number, param] : names) known.push_back(param.empty() ? absl::StrCat(number) : param);
      return MakeError(v1::UNKNOWN_ARGUMENT,
                       absl::StrCat("the graph has no PARAM ", name, "; it has ", absl::StrJoin(known, ", ")));
    }
    KILN_ASSIGN_OR_RETURN(tensors[*slot], client::ReadNpy(word.substr(equals + 1)));
  }
  return tensors;
}

absl::Status CheckType(const std::string& name, const HostTensor& tensor, v1::DType dtype, const Shape& shape) {
  if (tensor.dtype == dtype && tensor.shape == shape) return absl::OkStatus();
  return MakeError(tensor.dtype != dtype ? v1::BUFFER_DTYPE_MISMATCH : v1::BUFFER_SIZE_MISMATCH,
                   absl::StrCat("the file for ", name, " has ", client::TypeText(tensor.dtype, tensor.shape),
                                "; the parameter is ", client::TypeText(dtype, shape)));
}

}  // namespace

void AddInputFlags(CLI::App& command, InputFlags& flags) {
  command.add_option("--input,-i", flags.files, "NAME=FILE.npy or SLOT=FILE.npy; once for each PARAM")
      ->allow_extra_args(false);
  auto* random = command.add_flag("--random", flags.random, "Make up inputs without a file: normal floats, 0 to 9");
  auto* zeros = command.add_flag("--zeros,--uninit", flags.zeros, "Make inputs without a file zero");
  random->excludes(zeros);
  command.add_option("--seed", flags.seed, "Of --random")->capture_default_str();
}

absl::StatusOr<std::map<uint32_t, client::DeviceBuffer>> MakeInputs(client::Client& client,
                                                                    const client::Program& program,
                                                                    const InputFlags& flags,
                                                                    std::map<uint32_t, HostTensor> known) {
  const v1::Signature& signature = program.signature();
  const Names names = ParamNames(program.graph(), signature);
  KILN_ASSIGN_OR_RETURN(auto files, ReadFiles(names, flags));
  files.merge(known);
  std::vector<std::string> missing;
  for (const v1::Signature::Parameter& parameter : signature.parameters()) {
    if (files.count(parameter.slot()) == 0) missing.push_back(NameOf(names, parameter.slot()));
  }
  if (!missing.empty() && !flags.random && !flags.zeros) {
    return MakeError(v1::MISSING_ARGUMENT, absl::StrCat("no value for ", absl::StrJoin(missing, ", ")));
  }

  std::map<uint32_t, client::DeviceBuffer> buffers;
  std::mt19937_64 random(flags.seed);
  for (const v1::Signature::Parameter& parameter : signature.parameters()) {
    const Shape shape(parameter.shape().begin(), parameter.shape().end());
    const auto file = files.find(parameter.slot());
    absl::StatusOr<client::DeviceBuffer> buffer;
    if (file != files.end()) {
      KILN_RETURN_IF_ERROR(CheckType(NameOf(names, parameter.slot()), file->second, parameter.dtype(), shape));
      buffer = client.Upload(file->second);
    } else if (flags.random) {
      buffer = client.Upload(RandomTensor(parameter.dtype(), shape, random));
    } else {
      buffer = client.Allocate(parameter.dtype(), shape);
    }
    if (!buffer.ok()) return buffer.status();
    buffers[parameter.slot()] = *std::move(buffer);
  }
  return buffers;
}

client::Arguments AsArguments(const std::map<uint32_t, client::DeviceBuffer>& buffers) {
  client::Arguments arguments;
  for (const auto& [slot, buffer] : buffers) arguments.Set(slot, buffer);
  return arguments;
}

}  // namespace kiln::cli
