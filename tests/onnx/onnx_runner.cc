// onnx_runner [cpu|interp]: imports models and runs them, many in one process.
//
// A line of standard input is a folder with model.onnx and input_0.pb, input_1.pb, … It becomes
// a line of standard output of words between tabs, and result_0.pb, … in the folder:
//
//   ok       FIXED  RESULTS   names of inputs that are part of the program, between commas; names of results
//   refused  REASON           the importer does not take it
//   failed   REASON           it was taken, and did not compile or run
//
// A folder that has a file "offer" offers the values of its inputs to the importer: those that it lists.
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "models/onnx/model.h"
#include "models/onnx/tensor_proto.h"
#include "onnx/onnx.pb.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

std::string OneLine(const absl::Status& status) {
  return absl::StrReplaceAll(std::string(status.message()), {{"\n", " "}, {"\t", " "}});
}

compiler::HostTensor ForCompiler(const client::HostTensor& tensor) {
  return {static_cast<compiler::DType>(tensor.dtype), {tensor.shape.begin(), tensor.shape.end()}, tensor.bytes};
}

absl::StatusOr<std::vector<client::HostTensor>> Inputs(const std::string& folder) {
  std::vector<client::HostTensor> inputs;
  onnx::TensorSource source{.bytes_left = int64_t{1} << 30, .most_bytes = int64_t{1} << 30};
  for (size_t i = 0;; ++i) {
    const std::string file = ReadFile(absl::StrCat(folder, "/input_", i, ".pb"));
    if (file.empty()) return inputs;
    ::onnx::TensorProto proto;
    if (!proto.ParseFromString(file)) return MakeError(v1::MALFORMED_MESSAGE, absl::StrCat("input_", i));
    KILN_ASSIGN_OR_RETURN(client::HostTensor tensor, onnx::ReadTensor(proto, source));
    inputs.push_back(std::move(tensor));
  }
}

// The names of the model's inputs that have no initialiser, in order.
std::vector<std::string> InputNames(const std::string& file) {
  ::onnx::ModelProto model;
  std::vector<std::string> names;
  if (!model.ParseFromString(file)) return names;
  std::set<std::string> initialised;
  for (const auto& tensor : model.graph().initializer()) initialised.insert(tensor.name());
  for (const auto& input : model.graph().input()) {
    if (!initialised.contains(input.name())) names.push_back(input.name());
  }
  return names;
}

std::string RunCase(const std::string& folder, CpuEngine* engine) {
  const absl::StatusOr<std::vector<client::HostTensor>> inputs = Inputs(folder);
  if (!inputs.ok()) return absl::StrCat("refused\t", OneLine(inputs.status()));
  const std::string file = ReadFile(folder + "/model.onnx");
  const std::vector<std::string> names = InputNames(file);
  onnx::ImportOptions options;
  std::set<std::string> offered;
  std::istringstream offer(ReadFile(folder + "/offer"));
  for (std::string name; std::getline(offer, name);) offered.insert(name);
  for (size_t i = 0; i < std::min(names.size(), inputs->size()); ++i) {
    options.shapes[names[i]] = (*inputs)[i].shape;
    if (offered.contains(names[i])) options.values[names[i]] = (*inputs)[i];
  }
  const absl::StatusOr<onnx::Model> model = onnx::Import(file, options);
  if (!model.ok()) return absl::StrCat("refused\t", OneLine(model.status()));

  compiler::HostTensors arguments;
  std::vector<std::string> fixed;
  for (const onnx::Model::Input& input : model->inputs) {
    if (input.fixed) fixed.push_back(input.name);
    if (input.used && input.slot < inputs->size()) arguments[input.slot] = ForCompiler((*inputs)[input.slot]);
  }
  for (const onnx::Model::Constant& constant : model->constants) arguments[constant.slot] = ForCompiler(constant.value);
  const absl::StatusOr<compiler::InterpResult> run = engine != nullptr
                                                         ? engine->Run(model->graph, arguments, compiler::Options())
                                                         : RunInterpreted(model->graph, arguments);
  if (!run.ok()) return absl::StrCat("failed\t", OneLine(run.status()));

  std::vector<std::string> results;
  for (const onnx::Model::Output& output : model->outputs) {
    if (!output.result) continue;
    const compiler::HostTensor& tensor = run->results[*output.result];
    ::onnx::TensorProto proto;
    proto.set_data_type(onnx::DataTypeOf(static_cast<v1::DType>(tensor.dtype)));
    for (const int64_t size : tensor.shape) proto.add_dims(size);
    proto.set_raw_data(tensor.bytes);
    std::ofstream stream(absl::StrCat(folder, "/result_", results.size(), ".pb"), std::ios::binary);
    proto.SerializeToOstream(&stream);
    results.push_back(output.name);
  }
  return absl::StrCat("ok\t", absl::StrJoin(fixed, ","), "\t", absl::StrJoin(results, ","));
}

}  // namespace
}  // namespace kiln::testing

int main(int argc, char** argv) {
  const std::string engine = argc > 1 ? argv[1] : "cpu";
  kiln::testing::CpuEngine cpu(2);
  for (std::string folder; std::getline(std::cin, folder);) {
    std::cout << kiln::testing::RunCase(folder, engine == "cpu" ? &cpu : nullptr) << std::endl;
  }
  return 0;
}
