#include "compiler/pass/kernel_passes.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "base/error.h"
#include "compiler/kernel/gpu_dims.h"
#include "compiler/kernel/tiles/core_products.h"
#include "compiler/opt/apply.h"
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

const KernelArg* InfoOf(const Lowering& lowering) {
  return lowering.body.client == nullptr ? nullptr : std::get_if<KernelArg>(&lowering.body.client->arg());
}

}  // namespace

bool IsRequested(const Lowering& lowering) {
  const KernelArg* info = InfoOf(lowering);
  return info != nullptr && !info->opts.empty();
}

bool HasConstants(UOp* kernel) {
  const std::vector<UOp*> order = Toposort(kernel);
  return std::any_of(order.begin(), order.end(),
                     [](const UOp* uop) { return uop->op() == Op::PARAM && uop->arg_as<BufferArg>().constant; });
}

absl::StatusOr<UOp*> ScanLoops(Lowering& lowering, UOp* kernel) {
  UOp* made = ScheduleScan(lowering.graph, kernel, *lowering.body.target);
  lowering.body.scanned = made != nullptr;
  return lowering.body.scanned ? made : kernel;
}

absl::StatusOr<UOp*> ApplyRequestedOpts(Lowering& lowering, UOp* kernel) {
  const std::vector<OptArg> none;
  const auto& asked = IsRequested(lowering) ? InfoOf(lowering)->opts : none;
  const absl::StatusOr<Scheduled> made = ApplyRequested(lowering.graph, kernel, asked, *lowering.body.target);
  if (!made.ok()) return lowering.graph.Locate(made.status(), lowering.body.client);
  lowering.body.opts = ToString(made->opts);
  return made->sink;
}

absl::StatusOr<UOp*> ApplyChosenOpts(Lowering& lowering, UOp* kernel) {
  const Body& body = lowering.body;
  std::vector<OptOp> opts;
  if (body.schedule != nullptr) {
    KILN_ASSIGN_OR_RETURN(opts, ParseSchedule(*body.schedule));
  } else {
    const bool items = lowering.generator->abilities().work_items;
    opts = items ? ChooseGpuOpts(kernel, *body.target) : ChooseOpts(kernel, *body.target);
  }
  lowering.body.opts = ToString(opts);
  return ApplyOpts(lowering.graph, kernel, opts);
}

bool HasMatrixUnit(const Lowering& lowering) {
  const DotUnits units = DotUnitsOf(*lowering.body.target);
  return units.byte_tiles || units.bfloat_tiles;
}

absl::StatusOr<UOp*> CoreProducts(Lowering& lowering, UOp* kernel) {
  return SelectCoreProducts(lowering.graph, kernel, DotUnitsOf(*lowering.body.target));
}

absl::StatusOr<UOp*> ToWorkItems(Lowering& lowering, UOp* kernel) {
  const bool reduces_over_items = !lowering.generator->abilities().text;
  return GraphRewrite(GpuDims(lowering.graph, kernel, reduces_over_items), SymbolicRules(), lowering.graph);
}

UOp* DecomposeList(Lowering& lowering, UOp* linear) {
  UOp* simple = Decompose(lowering.graph, linear, lowering.generator->native_ops());
  for (size_t i = 0; i < linear->src().size(); ++i) lowering.graph.InheritOrigin(simple->src(i), linear->src(i));
  return simple;
}

}  // namespace kiln::compiler
