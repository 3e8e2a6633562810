// The stages of one program, in order, and what can no longer happen after each.
#include "compiler/lower/lower_program.h"

#include "base/error.h"
#include "compiler/lower/cost.h"
#include "compiler/program/place.h"
#include "compiler/program/program_bounds.h"
#include "compiler/program/program_values.h"
#include "compiler/program/work_groups.h"
#include "compiler/rules/decompose.h"
#include "compiler/spec/program_spec.h"

namespace kiln::compiler {
namespace {

// `linear` with its arithmetic rewritten: instruction by instruction the same list.
UOp* Simplify(Graph& graph, UOp* linear, NativeOps native) {
  UOp* simple = Decompose(graph, linear, native);
  for (size_t i = 0; i < linear->src().size(); ++i) graph.InheritOrigin(simple->src(i), linear->src(i));
  return simple;
}

}  // namespace

absl::StatusOr<LoweredProgram> LowerProgram(Graph& graph, Pipeline& pipeline, UOp* program, CodeGenerator& generator,
                                            const Options& options) {
  const NativeOps native = generator.native_ops();
  const Abilities abilities = generator.abilities();
  KILN_RETURN_IF_ERROR(VerifyProgram(program, options.limits, &graph).status());
  // Beyond this point, it is harmless in shape; whether it stays inside its buffers is not known yet.

  UOp* linear = nullptr;
  KILN_ASSIGN_OR_RETURN(linear, pipeline.Run("name values", program, kNamedSpec, [&](UOp* root) {
    return NameValues(graph, root, [&](const WmmaArg& arg) { return generator.HasWmma(arg); });
  }));
  // Beyond this point, every value has one place where it is made; only effects and reads are listed.

  KILN_ASSIGN_OR_RETURN(
      linear, pipeline.Run("decompose", linear, kNamedSpec, [&](UOp* root) { return Simplify(graph, root, native); }));
  // Beyond this point, only ops that every target has, in dtypes it computes in.

  uint32_t gates = 0;
  KILN_ASSIGN_OR_RETURN(linear, pipeline.Run("bounds", linear, kNamedSpec, [&](UOp* root) {
    return ProveProgramBounds(graph, root, options.strict, &gates);
  }));
  // Beyond this point, every access is inside its storage wherever its gate holds.

  if (!abilities.work_items) {
    KILN_ASSIGN_OR_RETURN(linear, pipeline.Run("work groups", linear, kGroupedSpec, [&](UOp* root) {
      return LowerWorkGroups(graph, root, abilities.text ? Zeros::kDeclared : Zeros::kStored);
    }));
  }
  // Beyond this point, groups and items are the target's own, or loops in which nothing waits for anything.

  const Spec& spec = abilities.text ? kCoreSpec : abilities.work_items ? kNamedSpec : kGroupedSpec;
  KILN_ASSIGN_OR_RETURN(linear, pipeline.Run("select values", linear, spec,
                                             [&](UOp* root) { return generator.SelectValues(graph, root); }));
  // Beyond this point, only values that the target has.

  KILN_ASSIGN_OR_RETURN(linear, pipeline.Run("place", linear, spec, [&](UOp* root) {
    return PlaceValues(graph, Simplify(graph, root, native));
  }));
  // Beyond this point, the order of instructions is fixed.

  KILN_ASSIGN_OR_RETURN(linear, pipeline.Run("select", linear, spec,
                                             [&](UOp* root) { return generator.SelectListed(graph, root, program); }));
  // Beyond this point, only what the target has words for.
  return LoweredProgram{linear, IterationsOf(linear), CostOfProgram(linear), gates};
}

}  // namespace kiln::compiler
