// The table of contents of the compiler: which stages there are, in which order,
// and what can no longer happen after each.
#include "compiler/compile.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/cost.h"
#include "compiler/executable_builder.h"
#include "compiler/ir/wire.h"
#include "compiler/kernel/bounds.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/ranges.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/kernel/simplify_ranges.h"
#include "compiler/opt/heuristic.h"
#include "compiler/pass/pipeline.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/decompose.h"
#include "compiler/rules/symbolic.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/memory_plan.h"
#include "compiler/schedule/rangeify.h"
#include "compiler/target/target.h"

namespace kiln::compiler {
namespace {

absl::Status CheckLimit(absl::string_view limit, uint64_t limit_value, uint64_t used) {
  if (used <= limit_value) return absl::OkStatus();
  v1::ErrorDetail detail;
  detail.set_code(v1::GRAPH_TOO_LARGE);
  detail.set_limit(std::string(limit));
  detail.set_limit_value(limit_value);
  detail.set_used(used);
  return MakeError(std::move(detail),
                   absl::StrCat("the program has ", used, " ", limit, "; this server takes at most ", limit_value));
}

// One kernel, from loops over scalars to instructions in order.
absl::StatusOr<UOp*> LowerKernel(Graph& graph, Pipeline& pipeline, UOp* kernel, const v1::Target& target,
                                 const Options& options) {
  KILN_ASSIGN_OR_RETURN(kernel, pipeline.RunOptional("simplify ranges", kernel, kKernelSpec,
                                                     [&](UOp* sink) { return SimplifyRanges(graph, sink); }));
  KILN_ASSIGN_OR_RETURN(kernel, pipeline.Run("decompose", kernel, kKernelSpec, [&](UOp* sink) {
    return GraphRewrite(GraphRewrite(sink, DecomposeRules(), graph), SymbolicRules(), graph);
  }));
  // Beyond this point, only ops that every target has, in dtypes it computes in.

  KILN_ASSIGN_OR_RETURN(kernel, pipeline.RunOptional("optimize", kernel, kKernelSpec, [&](UOp* sink) {
    return ApplyOpts(graph, sink, ChooseOpts(sink, target));
  }));
  // Beyond this point, the loop nest is fixed.

  KILN_ASSIGN_OR_RETURN(kernel, pipeline.Run("bounds", kernel, kKernelSpec,
                                             [&](UOp* sink) { return ProveBounds(graph, sink, options.strict); }));
  // Beyond this point, every access is inside its buffer wherever its gate holds.

  KILN_ASSIGN_OR_RETURN(kernel,
                        pipeline.Run("expand", kernel, kExpandedSpec, [&](UOp* sink) { return Expand(graph, sink); }));
  // Beyond this point, parallel ranges are shapes.

  KILN_ASSIGN_OR_RETURN(kernel, pipeline.Run("reduce to acc", kernel, kAccumulatingSpec,
                                             [&](UOp* sink) { return ReduceToAcc(graph, sink); }));
  KILN_ASSIGN_OR_RETURN(
      kernel, pipeline.Run("linearize", kernel, kLinearSpec, [&](UOp* sink) { return Linearize(graph, sink); }));
  // Beyond this point, the order of instructions is fixed.
  return kernel;
}

uint64_t IterationsOf(const UOp* linear) {
  for (const UOp* uop : linear->src()) {
    if (uop->op() == Op::RANGE && uop->arg_as<RangeArg>().type == AxisType::kThread)
      return static_cast<uint64_t>(uop->src(0)->const_int());
  }
  return 1;
}

void AddCost(const v1::Cost& cost, v1::Cost& total) {
  total.set_flops(total.flops() + cost.flops());
  total.set_bytes_read(total.bytes_read() + cost.bytes_read());
  total.set_bytes_written(total.bytes_written() + cost.bytes_written());
}

// Compiles each different kernel of the call list once, in order of first use.
absl::StatusOr<std::vector<uint32_t>> CompileKernels(Graph& graph, Pipeline& pipeline, const UOp* calls,
                                                     const v1::Target& target, const Options& options,
                                                     CodeGenerator& generator, v1::Executable& executable) {
  absl::flat_hash_map<UOp*, uint32_t> numbers;
  std::vector<uint32_t> kernel_of;
  KILN_RETURN_IF_ERROR(CheckLimit("kernels", options.limits.max_kernels, calls->src().size()));
  v1::Cost total;
  for (const UOp* call : calls->src()) AddCost(CostOf(call->src(0)), total);
  KILN_RETURN_IF_ERROR(CheckLimit("operations", options.limits.max_work, total.flops()));
  *executable.mutable_cost() = total;
  for (const UOp* call : calls->src()) {
    UOp* kernel = call->src(0);
    const auto [found, is_new] = numbers.emplace(kernel, executable.kernels_size());
    kernel_of.push_back(found->second);
    if (is_new) {
      v1::Kernel* made = executable.add_kernels();
      made->set_name(kernel->arg_as<TextArg>().text);
      made->set_symbol(absl::StrCat("k", found->second, "_", made->name()));
      pipeline.set_kernel(made->symbol());
      KILN_ASSIGN_OR_RETURN(UOp * linear, LowerKernel(graph, pipeline, kernel, target, options));
      KILN_RETURN_IF_ERROR(generator.AddKernel(linear, made->symbol()));
      *made->mutable_cost() = CostOf(kernel);
      made->set_iterations(IterationsOf(linear));
      KILN_RETURN_IF_ERROR(CheckLimit("operations in one turn of a kernel's outermost loop",
                                      options.limits.max_turn_work, made->cost().flops() / made->iterations()));
      made->set_grain(GrainOf(made->cost(), made->iterations()));
    }
  }
  pipeline.set_kernel("");
  return kernel_of;
}

absl::StatusOr<v1::Executable> CompileGraph(const v1::Graph& wire, const v1::Target& target, const Options& options,
                                            CompileObserver* observer) {
  Graph graph;
  Pipeline pipeline(graph, options, observer);
  v1::Executable executable;
  *executable.mutable_target() = target;
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<CodeGenerator> generator, MakeCodeGenerator(target, options));

  KILN_ASSIGN_OR_RETURN(UOp * root, pipeline.Run("normalise", nullptr, kTensorSpec,
                                                 [&](UOp*) { return FromWire(wire, options.limits, graph); }));
  // Beyond this point, only core ops, and every node has its derived properties.

  Function function;
  KILN_ASSIGN_OR_RETURN(root, pipeline.Run("callify", root, kTensorSpec, [&](UOp* root) -> absl::StatusOr<UOp*> {
    KILN_ASSIGN_OR_RETURN(function, Callify(graph, root));
    return function.sink;
  }));
  const std::vector<UOp*> callified = Toposort(root);
  KILN_RETURN_IF_ERROR(CheckLimit(
      "STOREs and results", options.limits.max_kernels,
      std::count_if(callified.begin(), callified.end(), [](const UOp* uop) { return uop->op() == Op::STORE; })));
  *executable.mutable_signature() = SignatureOf(function);
  // Beyond this point, no concrete buffer of the caller's.

  KILN_ASSIGN_OR_RETURN(root,
                        pipeline.Run("rangeify", root, kCallSpec, [&](UOp*) { return Rangeify(graph, function); }));
  // Beyond this point, no movement op exists, and the list of kernels is fixed.

  MemoryPlan plan;
  KILN_RETURN_IF_ERROR(pipeline.RunStep(
      "memory plan",
      [&] {
        absl::flat_hash_set<UOp*> results;
        for (const Function::Result& result : function.results) results.insert(result.buffer);
        plan = PlanMemory(root, results);
        return absl::OkStatus();
      },
      [&] { return absl::StrCat("arena of ", plan.arena_bytes, " bytes for ", plan.offsets.size(), " buffers\n"); }));
  // Beyond this point, nothing is allocated while the program runs.

  KILN_ASSIGN_OR_RETURN(const std::vector<uint32_t> kernel_of,
                        CompileKernels(graph, pipeline, root, target, options, *generator, executable));
  AddSteps(function, root, plan, kernel_of, executable);

  KILN_RETURN_IF_ERROR(pipeline.RunStep("llvm", [] { return absl::OkStatus(); }, [&] { return generator->Source(); }));
  if (observer != nullptr && observer->WantsAssembly()) {
    KILN_RETURN_IF_ERROR(
        pipeline.RunStep("assembly", [] { return absl::OkStatus(); }, [&] { return generator->Assembly(); }));
  }
  KILN_RETURN_IF_ERROR(pipeline.RunStep(
      "object",
      [&]() -> absl::Status {
        KILN_ASSIGN_OR_RETURN(*executable.mutable_object(), generator->Object());
        return absl::OkStatus();
      },
      [&] { return absl::StrCat(executable.object().size(), " bytes\n"); }));
  return executable;
}

}  // namespace

absl::StatusOr<v1::Executable> Compile(const v1::Graph& graph, const v1::Target& target, const Options& options,
                                       CompileObserver* observer) {
  absl::StatusOr<v1::Executable> executable = CompileGraph(graph, target, options, observer);
  if (executable.ok()) return executable;
  // Passes know the node at fault; its tag stands in the message alone.
  const std::optional<v1::ErrorDetail> detail = DetailOf(executable.status());
  if (!detail.has_value() || !detail->has_node() || detail->node() >= static_cast<uint32_t>(graph.nodes_size()))
    return executable;
  const v1::UOp& node = graph.nodes(static_cast<int>(detail->node()));
  return WithNode(executable.status(), detail->node(), detail->op(), node.tag());
}

}  // namespace kiln::compiler
