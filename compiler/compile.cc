// The table of contents of the compiler: which stages there are, in which order,
// and what can no longer happen after each. pass/passes.cc has the passes of each.
#include "compiler/compile.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/clock.h"
#include "base/error.h"
#include "compiler/compile_stages.h"
#include "compiler/import/as_sent.h"
#include "compiler/kernel/dots.h"
#include "compiler/lower/compile_kernels.h"
#include "compiler/lower/executable_builder.h"
#include "compiler/pass/pipeline.h"
#include "compiler/schedule/memory/overwritten.h"
#include "compiler/structure/entry.h"
#include "compiler/structure/tf32.h"

namespace kiln::compiler {
namespace {

// A graph of tensors: which kernels there are, and who calls them with what.
absl::StatusOr<UOp*> ScheduleTensors(Lowering& lowering, UOp* root) {
  KILN_ASSIGN_OR_RETURN(root, RunStage(lowering, Stage::kCallify, root));
  const std::vector<UOp*> callified = Toposort(root);
  KILN_RETURN_IF_ERROR(CheckLimit("STOREs and results", lowering.options.limits.max_kernels,
                                  std::count_if(callified.begin(), callified.end(), [](const UOp* uop) {
                                    return uop->op() == Op::STORE || uop->op() == Op::CALL;
                                  })));
  // Beyond this point, no concrete buffer of the caller's.
  return RunStage(lowering, Stage::kRangeify, root);
  // Beyond this point, no movement op exists, and the list of kernels is fixed.
}

// The parameters that stay the same from run to run: not those that the program writes.
absl::flat_hash_set<const UOp*> ConstantsOf(const Function& function, const Options& options) {
  absl::flat_hash_set<const UOp*> constants;
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const uint32_t slot = function.parameters[i]->arg_as<BufferArg>().slot;
    if (!function.written[i] && std::binary_search(options.constants.begin(), options.constants.end(), slot))
      constants.insert(function.parameters[i]);
  }
  return constants;
}

absl::StatusOr<v1::Executable> CompileGraph(const v1::Graph& wire, const v1::Target& target, const Options& options,
                                            CompileObserver* observer) {
  Graph graph;
  Lowering lowering(graph, options, observer);
  lowering.wire = &wire;
  PartTimer timer(observer, CompilePart::kImport);
  KILN_ASSIGN_OR_RETURN(UOp * root, RunStage(lowering, Stage::kImport, nullptr));
  // Beyond this point, only core ops, and every node has its derived properties.
  return CompileNormalised(lowering, timer, root, target);
}

}  // namespace

PartTimer::PartTimer(CompileObserver* observer, CompilePart first)
    : observer_(observer), part_(first), began_(SteadyNow()) {}

void PartTimer::Begin(CompilePart next) {
  if (next == part_) return;
  End();
  part_ = next;
  began_ = SteadyNow();
}

void PartTimer::End() {
  if (observer_ != nullptr) observer_->OnPart(part_, began_, SteadyNow());
}

absl::StatusOr<v1::Executable> CompileNormalised(Lowering& lowering, PartTimer& timer, UOp* root,
                                                 const v1::Target& device) {
  timer.Begin(CompilePart::kSchedule);
  lowering.target = AllowedTarget(device, lowering.options.fast_math);
  *lowering.executable.mutable_target() = WithoutTf32(lowering.target);
  KILN_ASSIGN_OR_RETURN(lowering.generator, MakeCodeGenerator(lowering.target, lowering.options));

  if (LevelOf(root) == EntryLevel::kTensor) {
    KILN_ASSIGN_OR_RETURN(root, ScheduleTensors(lowering, root));
  } else {
    KILN_ASSIGN_OR_RETURN(root, RunStage(lowering, Stage::kEntry, root));
  }
  Function& function = lowering.function;
  function.overwritten = Overwritten(function.parameters, root);
  for (const Function::Result& result : function.results) lowering.results.insert(result.buffer);
  lowering.constants = ConstantsOf(function, lowering.options);
  *lowering.executable.mutable_signature() = SignatureOf(function, lowering.batching);

  KILN_ASSIGN_OR_RETURN(root, RunStage(lowering, Stage::kCalls, root));
  // Beyond this point, there is a list of calls of kernels, each a SINK of loops or a LINEAR of instructions,
  // and nothing is allocated while the program runs.

  timer.Begin(CompilePart::kKernels);
  KILN_ASSIGN_OR_RETURN(const std::vector<CompiledCall> compiled, CompileKernels(lowering, root));
  AddSteps(function, root, lowering.plan, compiled, lowering.executable);
  timer.Begin(CompilePart::kCode);
  KILN_RETURN_IF_ERROR(RunStage(lowering, Stage::kCode, root).status());
  return std::move(lowering.executable);
}

absl::StatusOr<v1::Executable> Compile(const v1::Graph& graph, const v1::Target& target, const Options& options,
                                       CompileObserver* observer) {
  absl::StatusOr<v1::Executable> executable = CompileGraph(graph, target, options, observer);
  if (!executable.ok()) return AsSent(executable.status(), graph);
  return executable;
}

}  // namespace kiln::compiler
