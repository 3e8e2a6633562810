// The compiler, as the composition root gives it. Tested by server/engine/engine_test and tests/e2e/cancel_test.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_COMPILE_FN_H_
#define KILN_SERVER_ENGINE_PROGRAMS_COMPILE_FN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "compiler/search/tuning.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/kernel_service.pb.h"
#include "kiln/v1/multi_program.pb.h"
#include "kiln/v1/target.pb.h"
#include "runtime/hal/module.h"
#include "server/engine/memory/trust_domain.h"
#include "server/trace/stages.h"

namespace kiln::server {

// A program for one device, or for several.
using CompiledProgram = std::variant<v1::Executable, v1::MultiProgram>;

// For whom a program is compiled, and until when.
struct CompileFor {
  TrustDomain domain = {};
  runtime::hal::LaunchControl control;
  // Gets when each stage of it was, also of one that fails. May be null.
  CompileStages* stages = nullptr;
};

// The stage of a compilation in which a part of the compiler's is.
CompileStage StageOf(compiler::CompilePart part);

// Blocks until the program is there, or nobody waits for it any more: then with the status of control.Check(). The
// observer may be null.
using CompileFn = std::function<absl::StatusOr<CompiledProgram>(
    const v1::Graph&, const v1::Target&, const compiler::Options&, compiler::CompileObserver*, const CompileFor&)>;

// compiler/compile_program.h's CompileProgram; one that makes Executables alone will do.
using CompileInProcessFn = std::function<absl::StatusOr<CompiledProgram>(
    const v1::Graph&, const v1::Target&, const compiler::Options&, compiler::CompileObserver*)>;

// Compiles on the caller's thread, for all alike. A stop takes effect between two passes.
CompileFn InProcess(CompileInProcessFn compile);

// A gradient's graph. Blocks as CompileFn does.
using GradientFn = std::function<absl::StatusOr<v1::GradientResponse>(const v1::GradientRequest&,
                                                                      const compiler::Limits&, const CompileFor&)>;

// compiler/gradient/gradient.h's Gradient.
using GradientInProcessFn =
    std::function<absl::StatusOr<v1::GradientResponse>(const v1::GradientRequest&, const compiler::Limits&)>;

// On the caller's thread. Nothing stops it.
GradientFn GradientInProcess(GradientInProcessFn gradient);

// What a search may try next: compiler::ChooseFn, for somebody. Blocks as CompileFn does.
using ChooseForFn =
    std::function<absl::StatusOr<compiler::Choices>(const v1::Graph& kernel, const v1::Target&, const compiler::Limits&,
                                                    const std::string& from, uint32_t most, const CompileFor&)>;

// All that a process that compiles can do.
struct CompilerInProcess {
  CompileInProcessFn compile;
  GradientInProcessFn gradient;
  compiler::ChooseFn choose = nullptr;
};

inline uint32_t KernelsOf(const CompiledProgram& program) {
  if (const auto* one = std::get_if<v1::Executable>(&program)) return static_cast<uint32_t>(one->kernels_size());
  uint32_t kernels = 0;
  for (const v1::Executable& executable : std::get<v1::MultiProgram>(program).executables())
    kernels += static_cast<uint32_t>(executable.kernels_size());
  return kernels;
}

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_COMPILE_FN_H_
