// Wire graphs as CUDA C++, compiled by NVIDIA's compiler to PTX and run by the machine of tests/support/ptx.
#ifndef KILN_TESTS_SUPPORT_ENGINES_NVCC_ENGINE_H_
#define KILN_TESTS_SUPPORT_ENGINES_NVCC_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"
#include "compiler/options/options.h"
#include "compiler/structure/variables.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "tests/support/ptx/machine.h"
#include "tests/support/source_texts.h"

namespace kiln::testing {

class NvccEngine {
 public:
  // The path of nvcc, and what it compiles for ("sm_80").
  NvccEngine(std::string nvcc, std::string architecture)
      : nvcc_(std::move(nvcc)), architecture_(std::move(architecture)) {}

  // Renders `graph`; the number to Run it by.
  absl::StatusOr<size_t> Add(const v1::Graph& graph, const compiler::Options& options);
  // Compiles all that was added; a failure has what nvcc said.
  absl::Status Build();
  // As PtxEngine does.
  absl::StatusOr<compiler::InterpResult> Run(size_t program, const compiler::HostTensors& arguments,
                                             const compiler::VariableValues& variables = {}) const;

 private:
  const std::string nvcc_, architecture_;
  SourceTexts texts_;
  std::vector<v1::Executable> programs_;
  std::unique_ptr<ptx::Module> module_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENGINES_NVCC_ENGINE_H_
