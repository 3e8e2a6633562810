// The table of contents of the compiler: which stages there are, in which order,
// and what can no longer happen after each.
#include "compiler/compile.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/compile_stages.h"
#include "compiler/import/as_sent.h"
#include "compiler/import/wire.h"
#include "compiler/kernel/dots.h"
#include "compiler/lower/compile_kernels.h"
#include "compiler/lower/executable_builder.h"
#include "compiler/pass/pipeline.h"
#include "compiler/rules/stable.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/chain/chain.h"
#include "compiler/schedule/kernel_entry.h"
#include "compiler/schedule/memory_plan.h"
#include "compiler/schedule/opaque_calls.h"
#include "compiler/schedule/overwritten.h"
#include "compiler/schedule/rangeify.h"
#include "compiler/spec/program_spec.h"
#include "compiler/structure/entry.h"
#include "compiler/structure/tf32.h"
#include "compiler/target/target.h"

namespace kiln::compiler {
namespace {

// A graph of tensors: which kernels there are, and who calls them with what.
absl::StatusOr<UOp*> ScheduleTensors(Graph& graph, Pipeline& pipeline, UOp* root, const Limits& limits,
                                     Function& function) {
  KILN_ASSIGN_OR_RETURN(root, pipeline.Run("callify", root, kTensorSpec, [&](UOp* from) -> absl::StatusOr<UOp*> {
    KernelBodies bodies = std::move(function.bodies);
    KILN_ASSIGN_OR_RETURN(function, Callify(graph, from));
    function.bodies = std::move(bodies);
    return function.sink;
  }));
  const std::vector<UOp*> callified = Toposort(root);
  KILN_RETURN_IF_ERROR(CheckLimit("STOREs and results", limits.max_kernels,
                                  std::count_if(callified.begin(), callified.end(), [](const UOp* uop) {
                                    return uop->op() == Op::STORE || uop->op() == Op::CALL;
                                  })));
  // Beyond this point, no concrete buffer of the caller's.

  // A client's kernel may have in it whatever a program has.
  const Spec& calls = function.bodies.empty() ? kCallSpec : kCoreSpec;
  return pipeline.Run("rangeify", root, calls, [&](UOp*) { return Rangeify(graph, function); });
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
  Pipeline pipeline(graph, options, observer);
  Function function;
  KILN_ASSIGN_OR_RETURN(UOp * root, pipeline.Run("normalise", nullptr, kCoreSpec, [&](UOp*) -> absl::StatusOr<UOp*> {
    KILN_ASSIGN_OR_RETURN(UOp * read, FromWire(wire, options.limits, graph));
    if (LevelOf(read) == EntryLevel::kProgram)
      KILN_RETURN_IF_ERROR(VerifyProgram(read, options.limits, &graph).status());
    if (LevelOf(read) != EntryLevel::kTensor) return read;
    KILN_ASSIGN_OR_RETURN(read, HideBodies(graph, read, options.limits, function.bodies));
    KILN_RETURN_IF_ERROR(Verify(kTensorSpec, graph, read));
    return MakeStable(graph, read);  // before fusion can part the factors
  }));
  // Beyond this point, only core ops, and every node has its derived properties.

  return CompileNormalised(graph, pipeline, root, std::move(function), target, options, observer);
}

}  // namespace

absl::StatusOr<v1::Executable> CompileNormalised(Graph& graph, Pipeline& pipeline, UOp* root, Function function,
                                                 const v1::Target& device, const Options& options,
                                                 CompileObserver* observer) {
  const v1::Target target = AllowedTarget(device, options.fast_math);
  v1::Executable executable;
  *executable.mutable_target() = WithoutTf32(target);
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<CodeGenerator> generator, MakeCodeGenerator(target, options));

  if (LevelOf(root) == EntryLevel::kTensor) {
    KILN_ASSIGN_OR_RETURN(root, ScheduleTensors(graph, pipeline, root, options.limits, function));
  } else {
    KILN_ASSIGN_OR_RETURN(root, pipeline.Run("enter kernel", root, kCoreSpec,
                                             [&](UOp* body) { return EnterKernel(graph, body, function); }));
  }
  function.overwritten = Overwritten(function.parameters, root);
  absl::flat_hash_set<UOp*> results;
  for (const Function::Result& result : function.results) results.insert(result.buffer);
  if (generator->abilities().lanes && !generator->abilities().text) {
    // Needs the list alone; without it, the same kernels run one after the other.
    KILN_ASSIGN_OR_RETURN(root, pipeline.RunOptional("chain kernels", root, kCoreSpec, [&](UOp* calls) {
      return ChainKernels(graph, calls, results, target);
    }));
  }
  *executable.mutable_signature() = SignatureOf(function);
  // Beyond this point, there is a list of calls of kernels, each a SINK of loops or a LINEAR of instructions.

  MemoryPlan plan;
  KILN_RETURN_IF_ERROR(pipeline.RunStep(
      "memory plan",
      [&] {
        plan = PlanMemory(root, results);
        return absl::OkStatus();
      },
      [&] {
        return absl::StrCat("arena of ", plan.arena_bytes, " bytes for ", plan.offsets.size(), " buffers, of which ",
                            plan.alive_bytes, " bytes are alive at once\n");
      }));
  // Beyond this point, nothing is allocated while the program runs.

  KILN_ASSIGN_OR_RETURN(
      const std::vector<CompiledCall> compiled,
      CompileKernels(graph, pipeline, root, ConstantsOf(function, options), target, options, *generator, executable));
  AddSteps(function, root, plan, compiled, executable);

  for (const absl::string_view language : generator->languages()) {
    KILN_RETURN_IF_ERROR(
        pipeline.RunStep(language, [] { return absl::OkStatus(); }, [&] { return generator->Source(language); }));
  }
  if (observer != nullptr && observer->WantsAssembly()) {
    KILN_RETURN_IF_ERROR(
        pipeline.RunStep("assembly", [] { return absl::OkStatus(); }, [&] { return generator->Assembly(); }));
  }
  if (observer != nullptr && !observer->WantsObject()) return executable;
  KILN_RETURN_IF_ERROR(pipeline.RunStep(
      "object",
      [&]() -> absl::Status {
        KILN_ASSIGN_OR_RETURN(*executable.mutable_object(), generator->Object());
        return absl::OkStatus();
      },
      [&] { return absl::StrCat(executable.object().size(), " bytes\n"); }));
  return executable;
}

absl::StatusOr<v1::Executable> Compile(const v1::Graph& graph, const v1::Target& target, const Options& options,
                                       CompileObserver* observer) {
  absl::StatusOr<v1::Executable> executable = CompileGraph(graph, target, options, observer);
  if (!executable.ok()) return AsSent(executable.status(), graph);
  return executable;
}

}  // namespace kiln::compiler
