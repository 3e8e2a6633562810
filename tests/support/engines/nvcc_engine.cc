#include "tests/support/engines/nvcc_engine.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/compile.h"
#include "compiler/source.h"
#include "tests/support/engines/ptx_engine.h"

namespace kiln::testing {
namespace {

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<size_t> NvccEngine::Add(const v1::Graph& graph, const compiler::Options& options) {
  KILN_ASSIGN_OR_RETURN(v1::Executable executable, compiler::Compile(graph, compiler::SourceTarget("cuda"), options));
  const size_t number = texts_.Add(executable, executable.object());
  for (v1::Kernel& kernel : *executable.mutable_kernels())
    kernel.set_symbol(SourceTexts::NameOf(number, kernel.symbol()));
  programs_.push_back(std::move(executable));
  return number;
}

absl::Status NvccEngine::Build() {
  const char* given = std::getenv("TEST_TMPDIR");
  std::string folder = absl::StrCat(given == nullptr ? "/tmp" : given, "/kiln_cuda_XXXXXX");
  KILN_CHECK(mkdtemp(folder.data()) != nullptr);
  std::ofstream(folder + "/programs.cu") << texts_.text();
  const std::string include =
      absl::StrCat(std::filesystem::path(nvcc_).parent_path().parent_path().string(), "/include");
  const std::string command = absl::StrCat(nvcc_, " -ptx -arch=", architecture_, " -fmad=false -I", include, " -o ",
                                           folder, "/programs.ptx ", folder, "/programs.cu >", folder, "/log 2>&1");
  if (std::system(command.c_str()) != 0) return absl::InternalError(absl::StrCat("nvcc: ", Read(folder + "/log")));
  KILN_ASSIGN_OR_RETURN(module_, ptx::Module::Parse(Read(folder + "/programs.ptx")));
  std::filesystem::remove_all(folder);
  for (v1::Executable& program : programs_) {
    for (v1::Kernel& kernel : *program.mutable_kernels()) {  // what the text declares, nvcc adds up
      const ptx::Module::Entry* entry = module_->Find(kernel.symbol());
      if (entry == nullptr) return absl::InternalError(absl::StrCat("nvcc made no ", kernel.symbol()));
      kernel.mutable_launch()->set_static_shared_bytes(entry->static_shared_bytes);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<compiler::InterpResult> NvccEngine::Run(size_t program, const compiler::HostTensors& arguments,
                                                       const compiler::VariableValues& variables) const {
  return PtxEngine(architecture_).Run(programs_[program], *module_, arguments, variables);
}

}  // namespace kiln::testing
