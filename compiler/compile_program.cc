// The table of contents for programs on several devices: a graph is cut into segments,
// each of which compile.cc compiles like any program for one device.
#include "compiler/compile_program.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/graph/devices.h"
#include "compiler/compile.h"
#include "compiler/compile_stages.h"
#include "compiler/import/as_sent.h"
#include "compiler/lower/compile_kernels.h"
#include "compiler/lower/program_builder.h"
#include "compiler/pass/pipeline.h"
#include "compiler/rules/stable.h"
#include "compiler/shard/levels.h"
#include "compiler/shard/segments.h"
#include "compiler/shard/shares.h"

namespace kiln::compiler {
namespace {

absl::StatusOr<v1::MultiProgram> CompileSegments(const v1::Graph& wire, const v1::Target& target,
                                                 const Options& options, CompileObserver* observer) {
  Graph graph;
  Lowering whole(graph, options, observer);
  whole.wire = &wire;
  PartTimer timer(observer, CompilePart::kImport);
  KILN_ASSIGN_OR_RETURN(UOp * root, RunStage(whole, Stage::kImportShards, nullptr));
  // Beyond this point, only core ops, and every node has its device and shard axis.

  timer.Begin(CompilePart::kSchedule);
  KILN_RETURN_IF_ERROR(RunStage(whole, Stage::kShares, root).status());
  const Shares& shares = whole.shares;
  // Beyond this point, every value is one device's share, and only transfers move any.

  Levels& levels = whole.levels.emplace(shares);
  KILN_RETURN_IF_ERROR(levels.Settle(graph));
  KILN_RETURN_IF_ERROR(RunStage(whole, Stage::kSegments, root).status());
  const Cut& cut = whole.cut;
  // Beyond this point, each segment is a program for one device, and the steps have an order.

  ProgramBuilder builder(graph, root, shares, levels, cut);
  uint32_t kernels = 0;
  for (const auto& step : cut.steps) {
    const Segment* segment = std::get_if<Segment>(&step);
    if (segment == nullptr) continue;
    KILN_RETURN_IF_ERROR(Verify(kTensorSpec, graph, segment->root));
    Lowering lowering(graph, options, observer);
    lowering.function.bodies = whole.function.bodies;
    KILN_ASSIGN_OR_RETURN(v1::Executable executable,
                          CompileNormalised(lowering, timer, MakeStable(graph, segment->root), target));
    kernels += static_cast<uint32_t>(executable.steps_size());
    KILN_RETURN_IF_ERROR(CheckLimit("STOREs and results", options.limits.max_kernels, kernels));
    builder.AddExecutable(std::move(executable));
  }
  // Beyond this point, no UOp is made.

  KILN_ASSIGN_OR_RETURN(v1::MultiProgram program, builder.Build());
  *program.mutable_target() = target;
  program.set_deterministic_order(options.deterministic);
  return program;
}

}  // namespace

absl::StatusOr<CompiledProgram> CompileProgram(const v1::Graph& graph, const v1::Target& target, const Options& options,
                                               CompileObserver* observer) {
  if (NamesSeveralDevices(graph)) return CompileForDevices(graph, target, options, observer);
  return Compile(graph, target, options, observer);
}

absl::StatusOr<v1::MultiProgram> CompileForDevices(const v1::Graph& graph, const v1::Target& target,
                                                   const Options& options, CompileObserver* observer) {
  Options plain = options;
  plain.constants.clear();  // a segment's parameters have slots of their own
  absl::StatusOr<v1::MultiProgram> program = CompileSegments(graph, target, plain, observer);
  if (!program.ok()) return AsSent(program.status(), graph);
  return program;
}

}  // namespace kiln::compiler
