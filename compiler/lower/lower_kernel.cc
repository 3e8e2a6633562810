// The stages of one kernel, in order, and what can no longer happen after each.
#include "compiler/lower/lower_kernel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compiler/kernel/bounds.h"
#include "compiler/kernel/contract_products.h"
#include "compiler/kernel/dots.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/gpu_dims.h"
#include "compiler/kernel/keep_row.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/kernel/simplify_ranges.h"
#include "compiler/lower/lower_chain.h"
#include "compiler/opt/cpu/heuristic.h"
#include "compiler/opt/cpu/scan.h"
#include "compiler/opt/gpu/gpu_heuristic.h"
#include "compiler/opt/requested.h"
#include "compiler/opt/schedule_text.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/decompose.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

bool HasConstants(UOp* kernel) {
  const std::vector<UOp*> order = Toposort(kernel);
  return std::any_of(order.begin(), order.end(),
                     [](const UOp* uop) { return uop->op() == Op::PARAM && uop->arg_as<BufferArg>().constant; });
}

absl::StatusOr<UOp*> LinearizeKernel(Graph& graph, Pipeline& pipeline, UOp* kernel) {
  return pipeline.Run("linearize", kernel, kLinearSpec, [&](UOp* sink) { return Linearize(graph, sink); });
  // Beyond this point, the order of instructions is fixed.
}

// Of a kernel whose loop nest is fixed: down to accumulators.
absl::StatusOr<LoweredKernel> Accumulate(Graph& graph, Pipeline& pipeline, UOp* kernel, const v1::Target& target,
                                         const CodeGenerator& generator, const Options& options) {
  const Abilities abilities = generator.abilities();
  LoweredKernel lowered;
  KILN_ASSIGN_OR_RETURN(kernel, pipeline.Run("bounds", kernel, kScheduledSpec, [&](UOp* sink) {
    return ProveBounds(graph, sink, options.strict, &lowered.gates);
  }));
  // Beyond this point, every access is inside its buffer wherever its gate holds.

  if (abilities.work_items) {
    KILN_ASSIGN_OR_RETURN(kernel, pipeline.Run("work items", kernel, kSharedOutSpec, [&](UOp* sink) {
      return GraphRewrite(GpuDims(graph, sink, /*reduces_over_items=*/!abilities.text), SymbolicRules(), graph);
    }));
  }
  // Beyond this point, parallel loops are coordinates of work items.

  KILN_ASSIGN_OR_RETURN(kernel,
                        pipeline.Run("expand", kernel, kExpandedSpec, [&](UOp* sink) { return Expand(graph, sink); }));
  if (abilities.lanes && !abilities.text && DotUnitsOf(target).lanes > 0) {
    KILN_ASSIGN_OR_RETURN(kernel, pipeline.RunOptional("dots", kernel, kExpandedSpec, [&](UOp* sink) {
      return SelectDots(graph, sink, DotUnitsOf(target));
    }));
  }
  // Beyond this point, lanes are shapes.

  KILN_ASSIGN_OR_RETURN(kernel, pipeline.Run("reduce to acc", kernel, kAccumulatingSpec,
                                             [&](UOp* sink) { return ReduceToAcc(graph, sink); }));
  if (abilities.lanes && !abilities.text) {
    KILN_ASSIGN_OR_RETURN(kernel, pipeline.RunOptional("keep row", kernel, kAccumulatingSpec,
                                                       [&](UOp* sink) { return KeepRow(graph, sink); }));
  }
  lowered.linear = kernel;
  return lowered;
}

}  // namespace

absl::StatusOr<LoweredKernel> LowerToAccumulators(Graph& graph, Pipeline& pipeline, UOp* kernel, uint32_t slots,
                                                  const v1::Target& target, const CodeGenerator& generator,
                                                  const Options& options, const std::string* given) {
  const Abilities abilities = generator.abilities();
  const auto* arg = std::get_if<KernelArg>(&kernel->arg());
  const bool requested = arg != nullptr && !arg->opts.empty();  // of the axes as they are
  const UOp* client = kernel;
  const bool items = abilities.work_items && !abilities.text;
  if (!requested) {
    KILN_ASSIGN_OR_RETURN(kernel, pipeline.RunOptional("simplify ranges", kernel, kKernelSpec,
                                                       [&](UOp* sink) { return SimplifyRanges(graph, sink); }));
  }
  KILN_ASSIGN_OR_RETURN(kernel, pipeline.Run("decompose", kernel, kKernelSpec, [&](UOp* sink) {
    return Decompose(graph, sink, generator.native_ops());
  }));
  // Beyond this point, only ops that every target has, in dtypes it computes in.
  if (options.contraction) {
    KILN_ASSIGN_OR_RETURN(kernel, pipeline.RunOptional("contract products", kernel, kKernelSpec,
                                                       [&](UOp* sink) { return ContractProducts(graph, sink); }));
  }

  bool scan = false;
  if (!requested && abilities.lanes && !abilities.text) {
    KILN_ASSIGN_OR_RETURN(kernel, pipeline.RunOptional("scan", kernel, kScheduledSpec, [&](UOp* sink) {
      UOp* made = ScheduleScan(graph, sink, target);
      scan = made != nullptr;
      return scan ? made : sink;
    }));
  }
  std::string schedule;
  if (requested && (abilities.lanes || items)) {
    KILN_ASSIGN_OR_RETURN(
        kernel, pipeline.Run("requested opts", kernel, kScheduledSpec, [&](UOp* sink) -> absl::StatusOr<UOp*> {
          const absl::StatusOr<Scheduled> made = ApplyRequested(graph, sink, arg->opts, target);
          if (!made.ok()) return graph.Locate(made.status(), client);
          schedule = ToString(made->opts);
          return made->sink;
        }));
  } else if ((abilities.lanes || items) && !scan) {
    KILN_ASSIGN_OR_RETURN(
        kernel, pipeline.RunOptional("optimize", kernel, kScheduledSpec, [&](UOp* sink) -> absl::StatusOr<UOp*> {
          std::vector<OptOp> opts;
          if (given != nullptr) {
            KILN_ASSIGN_OR_RETURN(opts, ParseSchedule(*given));
          } else {
            opts = items ? ChooseGpuOpts(sink, target) : ChooseOpts(sink, target);
          }
          schedule = ToString(opts);
          return ApplyOpts(graph, sink, opts);
        }));
  }
  std::vector<Hoisted> hoisted;
  if (abilities.lanes && !abilities.text && HasConstants(kernel)) {
    KILN_ASSIGN_OR_RETURN(kernel, pipeline.RunOptional("hoist copies", kernel, kScheduledSpec, [&](UOp* sink) {
      return HoistCopies(graph, sink, slots, hoisted);
    }));
  }
  // Beyond this point, the loop nest is fixed.

  KILN_ASSIGN_OR_RETURN(LoweredKernel lowered, Accumulate(graph, pipeline, kernel, target, generator, options));
  lowered.schedule = std::move(schedule);
  lowered.hoisted = std::move(hoisted);
  return lowered;
}

absl::StatusOr<LoweredKernel> LowerKernel(Graph& graph, Pipeline& pipeline, UOp* kernel, uint32_t slots,
                                          const v1::Target& target, const CodeGenerator& generator,
                                          const Options& options, const std::string* schedule) {
  const auto lower = IsChain(kernel) ? LowerChain : LowerToAccumulators;
  KILN_ASSIGN_OR_RETURN(LoweredKernel lowered,
                        lower(graph, pipeline, kernel, slots, target, generator, options, schedule));
  KILN_ASSIGN_OR_RETURN(lowered.linear, LinearizeKernel(graph, pipeline, lowered.linear));
  return lowered;
}

absl::StatusOr<LoweredKernel> LowerScheduled(Graph& graph, Pipeline& pipeline, UOp* kernel, const v1::Target& target,
                                             const CodeGenerator& generator, const Options& options) {
  KILN_ASSIGN_OR_RETURN(LoweredKernel lowered, Accumulate(graph, pipeline, kernel, target, generator, options));
  KILN_ASSIGN_OR_RETURN(lowered.linear, LinearizeKernel(graph, pipeline, lowered.linear));
  return lowered;
}

}  // namespace kiln::compiler
