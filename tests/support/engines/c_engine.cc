#include "tests/support/engines/c_engine.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/compile.h"
#include "compiler/source.h"

namespace kiln::testing {
namespace {

using compiler::HostTensor;

// Under AddressSanitizer the programs are to be watched, too.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr char kCompiler[] = "clang-22 -fsanitize=address";
#else
constexpr char kCompiler[] = "cc";
#endif
#else
constexpr char kCompiler[] = "cc";
#endif

constexpr char kPattern = '\xA5';

HostTensor TensorOf(v1::DType dtype, const google::protobuf::RepeatedField<int64_t>& shape,
                    const std::vector<char>& bytes) {
  HostTensor tensor;
  tensor.dtype = compiler::FromWire(dtype);
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

}  // namespace

CEngine::~CEngine() {
  if (library_ != nullptr) dlclose(library_);
}

absl::StatusOr<size_t> CEngine::Add(const v1::Graph& graph, const compiler::Options& options) {
  KILN_ASSIGN_OR_RETURN(v1::Executable executable, compiler::Compile(graph, compiler::SourceTarget("c"), options));
  const size_t number = texts_.Add(executable, compiler::ProgramText(executable), {"kiln_run", "kiln_constants"});
  programs_.push_back(std::move(executable));
  return number;
}

absl::Status CEngine::Build() {
  const char* given = std::getenv("TEST_TMPDIR");
  std::string folder = absl::StrCat(given == nullptr ? "/tmp" : given, "/kiln_c_XXXXXX");
  KILN_CHECK(mkdtemp(folder.data()) != nullptr);
  std::ofstream(folder + "/programs.c") << texts_.text();
  const std::string command =
      absl::StrCat(kCompiler, " -std=gnu11 -O1 -w -fwrapv -fno-strict-aliasing -ffp-contract=off -shared -fPIC -o ",
                   folder, "/programs.so ", folder, "/programs.c -lm 2>&1 | head -20 1>&2");
  (void)std::system(command.c_str());
  library_ = dlopen(absl::StrCat(folder, "/programs.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return absl::InternalError(absl::StrCat("the C compiler or dlopen: ", dlerror()));
  std::filesystem::remove_all(folder);
  return absl::OkStatus();
}

absl::StatusOr<compiler::InterpResult> CEngine::Run(size_t program, const compiler::HostTensors& arguments,
                                                    const compiler::VariableValues& variables) {
  using Entry = void (*)(void* const*, void* const*, void*, const int64_t*);
  const v1::Executable& executable = programs_[program];
  const v1::Signature& signature = executable.signature();
  const auto entry = reinterpret_cast<Entry>(dlsym(library_, SourceTexts::NameOf(program, "kiln_run").c_str()));
  KILN_CHECK(entry != nullptr);

  std::vector<std::vector<char>> parameters, results;  // on the heap, however short
  for (const auto& parameter : signature.parameters()) {
    const std::string& bytes = arguments.at(parameter.slot()).bytes;
    parameters.emplace_back(bytes.begin(), bytes.end());
  }
  for (const auto& result : signature.results()) results.emplace_back(result.bytes(), kPattern);
  std::vector<void*> parameter_places, result_places;
  for (auto& parameter : parameters) parameter_places.push_back(parameter.data());
  for (auto& result : results) result_places.push_back(result.data());
  std::string arena(executable.arena_bytes() + 64, kPattern);
  void* aligned = arena.data();
  size_t space = arena.size();
  std::align(64, executable.arena_bytes(), aligned, space);
  std::vector<int64_t> values;
  for (const auto& variable : signature.variables()) values.push_back(variables.at(variable.slot()));
  entry(parameter_places.data(), result_places.data(), aligned, values.data());

  compiler::InterpResult outcome;
  for (int i = 0; i < signature.results_size(); ++i) {
    const auto& result = signature.results(i);
    outcome.results.push_back(
        TensorOf(result.dtype(), result.shape(), result.has_aliases() ? parameters[result.aliases()] : results[i]));
  }
  for (int i = 0; i < signature.parameters_size(); ++i) {
    const auto& parameter = signature.parameters(i);
    if (parameter.written()) {
      outcome.written[parameter.slot()] = TensorOf(parameter.dtype(), parameter.shape(), parameters[i]);
      outcome.written[parameter.slot()].shape = arguments.at(parameter.slot()).shape;
    } else {
      // Nothing else was touched.
      KILN_CHECK(std::string(parameters[i].begin(), parameters[i].end()) == arguments.at(parameter.slot()).bytes);
    }
  }
  return outcome;
}

}  // namespace kiln::testing
