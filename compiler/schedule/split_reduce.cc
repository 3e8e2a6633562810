#include "compiler/schedule/split_reduce.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/schedule/fused_cost.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kLargeSource = 1 << 18;
// More iterations than this keep all threads busy.
constexpr int64_t kEnoughIterations = 8;
constexpr int64_t kMinParts = 4, kMaxParts = 64;
// What one iteration of a loop over columns takes, about.
constexpr int64_t kColumns = 256;
// A part is worth a value in a buffer, and a loop.
constexpr int64_t kMinPart = 64;

// The axis to cut into parts and their number, or 0 parts.
struct Cut {
  size_t axis = 0;
  int64_t parts = 0;
};

Cut CutOf(const UOp* reduce) {
  const Shape& from = reduce->src(0)->shape();
  if (!IsConst(from) || NumElements(from) < kLargeSource) return {};
  const auto& axes = reduce->arg_as<ReduceArg>().axes;
  const auto reduced = [&](size_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  size_t last = from.size();
  while (last > 0 && from[last - 1] == 1) --last;
  const int64_t kept = NumElements(reduce->shape());
  const int64_t iterations = reduced(last - 1) ? kept : (kept + kColumns - 1) / kColumns;
  if (iterations >= kEnoughIterations) return {};
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (!reduced(axis) || from[axis] == 1) continue;
    const int64_t rest = NumElements(from) / kept / from[axis];
    for (int64_t parts = kMaxParts; parts >= kMinParts; --parts) {
      if (from[axis] % parts == 0 && from[axis] / parts * rest >= kMinPart) return {axis, parts};
    }
    return {};
  }
  return {};
}

// The elements of the largest buffer or reduction that `value` is made of.
int64_t LargestOperand(UOp* value) {
  int64_t largest = 0;
  absl::flat_hash_set<const UOp*> seen;
  std::vector<const UOp*> stack = {value};
  while (!stack.empty()) {
    const UOp* uop = stack.back();
    stack.pop_back();
    if (!seen.insert(uop).second) continue;
    if (EndsFusion(uop->op())) {
      largest = std::max(largest, MaxElements(uop->shape()));
      continue;
    }
    for (const UOp* source : DataSources(uop)) stack.push_back(source);
  }
  return largest;
}

UOp* InTwoSteps(Graph& graph, UOp* reduce, UOp* source, const Cut& cut, absl::flat_hash_set<UOp*>& marked) {
  const ReduceArg& arg = reduce->arg_as<ReduceArg>();
  Shape parts = source->shape();
  parts[cut.axis] = int64_t{parts[cut.axis]} / cut.parts;
  parts.insert(parts.begin() + static_cast<int64_t>(cut.axis), cut.parts);
  ReduceArg first{arg.op, {}};
  for (const int64_t axis : arg.axes) first.axes.push_back(axis + (axis >= static_cast<int64_t>(cut.axis) ? 1 : 0));
  // Narrow floats are accumulated in float32 and rounded once.
  const DType dtype = IsNarrowFloat(reduce->dtype()) ? DType::kFloat32 : reduce->dtype();
  UOp* partial = graph.Make(Op::REDUCE, {Reshape(graph, Cast(graph, source, dtype), parts)}, first);
  marked.insert(partial);
  UOp* whole = graph.Make(Op::REDUCE, {partial}, ReduceArg{arg.op, {static_cast<int64_t>(cut.axis)}});
  return Cast(graph, Reshape(graph, whole, reduce->shape()), reduce->dtype());
}

}  // namespace

UOp* SplitReductions(Graph& graph, UOp* sink, absl::flat_hash_set<UOp*>& marked) {
  absl::flat_hash_map<UOp*, Cut> cuts;
  const std::vector<UOp*> order = Toposort(sink);
  for (UOp* uop : order) {
    if (uop->op() != Op::REDUCE || marked.contains(uop)) continue;
    const Cut cut = CutOf(uop);
    if (cut.parts > 0 && LargestOperand(uop->src(0)) >= NumElements(uop->src(0)->shape())) cuts[uop] = cut;
  }
  if (cuts.empty()) return sink;
  const Fusion fusion = AnalyseFusion(graph, order, StoreOrder(sink), marked);
  absl::flat_hash_map<UOp*, UOp*> done;
  absl::flat_hash_set<UOp*> moved;
  for (UOp* uop : order) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    const auto cut = cuts.find(uop);
    done[uop] = cut != cuts.end() && !fusion.collapsed.contains(uop)
                    ? InTwoSteps(graph, uop, src[0], cut->second, moved)
                    : graph.Make(uop->op(), src, uop->arg());
    if (marked.contains(uop)) moved.insert(done[uop]);
  }
  marked = std::move(moved);
  return done[sink];
}

}  // namespace kiln::compiler
