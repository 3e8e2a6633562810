#include "compiler/program/list_kernel.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/linearize.h"
#include "compiler/kernel/reduce_to_acc.h"
#include "compiler/structure/variables.h"

namespace kiln::compiler {
namespace {

// Whether items of a group meet.
bool HasGroups(UOp* sink) {
  const std::vector<UOp*> order = Toposort(sink);
  return std::any_of(order.begin(), order.end(), [](const UOp* uop) {
    return uop->op() == Op::BARRIER || (uop->op() == Op::BUFFER && uop->addrspace() == AddrSpace::kLocal);
  });
}

// The innermost three loops of one kind become coordinates 0, 1 and 2.
void TakeCoordinates(Graph& graph, const UOp* end, const char* name, std::initializer_list<AxisType> types,
                     absl::flat_hash_map<UOp*, UOp*>& coordinates) {
  int axis = 0;
  for (size_t k = end->src().size(); k-- > 1 && axis < 3;) {
    UOp* loop = end->src(k);
    const AxisType type = loop->arg_as<RangeArg>().type;
    if (std::find(types.begin(), types.end(), type) == types.end()) continue;
    if (!IsKnownAtLaunch(loop->src(0)) || loop->src(0)->bounds().min < 1) continue;
    coordinates[loop] = graph.Make(Op::SPECIAL, loop->src(), TextArg{absl::StrCat(name, axis++)});
  }
}

UOp* LoopsToGroups(Graph& graph, UOp* sink) {
  if (sink->src().size() != 1 || sink->src(0)->op() != Op::END) return sink;
  const std::vector<UOp*> all = Toposort(sink);
  if (std::any_of(all.begin(), all.end(), [](const UOp* uop) { return uop->op() == Op::SPECIAL; })) return sink;
  UOp* end = sink->src(0);
  absl::flat_hash_map<UOp*, UOp*> done;
  TakeCoordinates(graph, end, "gidx", {AxisType::kGlobal, AxisType::kThread}, done);
  if (HasGroups(sink)) TakeCoordinates(graph, end, "lidx", {AxisType::kLocal, AxisType::kWarp}, done);
  if (done.empty()) return sink;
  const absl::flat_hash_map<UOp*, UOp*> coordinates = done;
  for (UOp* uop : all) {
    if (coordinates.contains(uop)) continue;
    std::vector<UOp*> src;
    for (size_t i = 0; i < uop->src().size(); ++i) {
      const bool closes = uop == end && i > 0;
      if (!closes || !coordinates.contains(uop->src(i))) src.push_back(done[uop->src(i)]);
    }
    done[uop] = uop == end && src.size() == 1 ? src[0] : graph.Make(uop->op(), src, uop->arg());
    graph.InheritOrigin(done[uop], uop);
  }
  return done[sink];
}

// Accumulators as a program has them: memory with one element.
UOp* AccumulatorsToMemory(Graph& graph, UOp* sink) {
  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    if (uop->op() == Op::BUFFER && uop->shape().empty()) src = {ShapeSource(graph, {1})};
    const bool accesses = uop->op() == Op::LOAD || uop->op() == Op::STORE;
    UOp* storage = accesses ? uop->src(0) : nullptr;
    while (storage != nullptr && storage->op() == Op::AFTER) storage = storage->src(0);
    if (storage != nullptr && storage->op() == Op::BUFFER) src[0] = graph.Make(Op::INDEX, {src[0], Idx(graph, 0)});
    done[uop] = graph.Make(uop->op(), src, uop->arg());
    graph.InheritOrigin(done[uop], uop);
  }
  return done[sink];
}

}  // namespace

absl::StatusOr<UOp*> ListKernel(Graph& graph, UOp* sink) {
  for (UOp* uop : Toposort(sink)) {
    const bool by_axes = uop->op() == Op::REDUCE && (!uop->arg_as<ReduceArg>().axes.empty() || !uop->shape().empty());
    if (uop->op() != Op::IF && uop->op() != Op::ENDIF && !by_axes) continue;
    return graph.Locate(
        MakeError(v1::UNSUPPORTED_OP,
                  by_axes ? "a REDUCE over axes in a kernel; it reduces over RANGEs"
                          : "an IF in a kernel graph: LOAD and STORE take gates, and a LINEAR program has IFs"),
        uop);
  }
  return Linearize(graph, AccumulatorsToMemory(graph, ReduceToAcc(graph, LoopsToGroups(graph, sink))));
}

}  // namespace kiln::compiler
