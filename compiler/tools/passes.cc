#include "compiler/tools/passes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/import/wire.h"
#include "compiler/kernel/bounds.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/kernel/simplify_ranges.h"
#include "compiler/opt/cpu/heuristic.h"
#include "compiler/opt/cpu/scan.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/decompose.h"
#include "compiler/rules/symbolic.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/rangeify.h"
#include "compiler/source.h"

namespace kiln::compiler {

const std::vector<NamedPass>& NamedPasses() {
  static const auto& passes = *new std::vector<NamedPass>{
      {"normalise", "reads a graph and writes its core ops",
       [](Graph&, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> { return root; }},
      {"callify", "a request's graph -> SINK of STOREs",
       [](Graph& graph, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> {
         KILN_ASSIGN_OR_RETURN(const Function function, Callify(graph, root));
         return function.sink;
       }},
      {"rangeify", "a request's graph -> LINEAR of CALLs of kernels",
       [](Graph& graph, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> {
         KILN_ASSIGN_OR_RETURN(const Function function, Callify(graph, root));
         return Rangeify(graph, function);
       }},
      {"simplify", "the symbolic rules, all over a graph",
       [](Graph& graph, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> {
         return GraphRewrite(root, SymbolicRules(), graph);
       }},
      {"simplify_ranges", "a kernel -> the same with neighbouring loops merged",
       [](Graph& graph, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> { return SimplifyRanges(graph, root); }},
      {"decompose", "a kernel -> the same in ops that every target has",
       [](Graph& graph, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> {
         return GraphRewrite(root, DecomposeRules({}), graph);
       }},
      {"scan", "a kernel that is a running sum -> the same in linear work; any other as it is",
       [](Graph& graph, UOp* root, const v1::Target& target) -> absl::StatusOr<UOp*> {
         UOp* made = ScheduleScan(graph, root, target);
         return made != nullptr ? made : root;
       }},
      {"optimize", "a kernel -> the same with its loops split for lanes, tiles and threads",
       [](Graph& graph, UOp* root, const v1::Target& target) -> absl::StatusOr<UOp*> {
         return ApplyOpts(graph, root, ChooseOpts(root, target));
       }},
      {"bounds", "a kernel -> the same with unproved accesses gated",
       [](Graph& graph, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> {
         return ProveBounds(graph, root, false);
       }},
      {"expand", "a kernel -> the same with lanes for UPCAST and UNROLL loops",
       [](Graph& graph, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> { return Expand(graph, root); }},
      {"reduce_to_acc", "an expanded kernel -> the same with accumulators",
       [](Graph& graph, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> { return ReduceToAcc(graph, root); }},
      {"linearize", "an expanded kernel -> accumulators, then instructions in order",
       [](Graph& graph, UOp* root, const v1::Target&) -> absl::StatusOr<UOp*> {
         return Linearize(graph, ReduceToAcc(graph, root));
       }},
  };
  return passes;
}

absl::StatusOr<std::string> RunNamedPass(absl::string_view name, absl::string_view text, uint32_t vector_bytes) {
  v1::Target target;
  target.set_kind(v1::Target::NULL_TARGET);
  target.mutable_tuning()->set_vector_bytes(vector_bytes);
  target.mutable_tuning()->set_vector_registers(16);
  KILN_ASSIGN_OR_RETURN(const v1::Graph wire, ParseGraph(text));
  if (absl::string_view dialect = name; absl::ConsumePrefix(&dialect, "render_"))
    return RenderSource(wire, dialect, Options());
  Graph graph;
  KILN_ASSIGN_OR_RETURN(UOp * root, FromWire(wire, Limits(), graph));
  for (const NamedPass& pass : NamedPasses()) {
    if (pass.name != name) continue;
    KILN_ASSIGN_OR_RETURN(UOp * result, pass.run(graph, root, target));
    return ToText(result);
  }
  return absl::NotFoundError(absl::StrCat("there is no pass called ", name));
}

}  // namespace kiln::compiler
