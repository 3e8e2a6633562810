#include "compiler/opt/local_buffer.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

bool Has(absl::Span<UOp* const> ranges, const UOp* range) {
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

bool IsLane(const UOp* range) {
  const AxisType type = range->arg_as<RangeArg>().type;
  return type == AxisType::kUpcast || type == AxisType::kUnroll;
}

// The only REDUCE, or null.
UOp* OnlyReduce(UOp* sink) {
  UOp* only = nullptr;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::REDUCE) continue;
    if (only != nullptr) return nullptr;
    only = uop;
  }
  return only;
}

bool ReadsMemory(UOp* root) {
  const std::vector<UOp*> order = Toposort(root);
  return std::any_of(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::LOAD; });
}

// The ranges that `operand` depends on and `level` has inside it, in the order in
// which they are walked: loops from the outermost in, then lanes by dimension.
std::vector<UOp*> InnerRanges(UOp* sink, UOp* operand, UOp* level) {
  const RangeSet open = OpenRanges(operand).at(operand);
  std::vector<UOp*> loops, lanes;
  const auto add = [&](UOp* range) {
    if (Has(open, range)) (IsLane(range) ? lanes : loops).push_back(range);
  };
  bool inside = false;
  for (UOp* range : OutputRanges(sink)) {
    if (inside || IsLane(range)) add(range);
    inside = inside || range == level;
  }
  for (UOp* range : OnlyReduce(sink)->src().subspan(1)) add(range);
  std::sort(lanes.begin(), lanes.end(), [](const UOp* a, const UOp* b) { return LaneDimension(a) < LaneDimension(b); });
  loops.insert(loops.end(), lanes.begin(), lanes.end());
  return loops;
}

// Storage that the kernel writes.
absl::flat_hash_set<const UOp*> Written(UOp* sink) {
  absl::flat_hash_set<const UOp*> written;
  for (const UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::STORE) written.insert(uop->src(0)->src(0));
  }
  return written;
}

}  // namespace

std::vector<UOp*> OperandsOf(UOp* sink) {
  UOp* reduce = OnlyReduce(sink);
  if (reduce == nullptr || sink->src().size() != 1) return {};
  const std::vector<UOp*> outputs = OutputRanges(sink);
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  RangeSet all;
  for (UOp* range : open.at(reduce)) {
    if (Has(outputs, range)) all.push_back(range);
  }
  std::vector<UOp*> operands, stack = {reduce->src(0)};
  absl::flat_hash_set<UOp*> seen;
  while (!stack.empty()) {
    UOp* uop = stack.back();
    stack.pop_back();
    if (!seen.insert(uop).second || uop->dtype() == kIndexType || !ReadsMemory(uop)) continue;
    const bool again = std::any_of(all.begin(), all.end(), [&](const UOp* range) { return !Has(open.at(uop), range); });
    if (again) {
      operands.push_back(uop);
    } else if (IsElementwise(uop->op())) {
      stack.insert(stack.end(), uop->src().rbegin(), uop->src().rend());
    }
  }
  return operands;
}

int64_t LocalBytes(UOp* sink, UOp* operand, UOp* level) {
  int64_t bytes = ItemSize(operand->dtype());
  for (UOp* range : InnerRanges(sink, operand, level)) {
    if (!range->src(0)->IsConst()) return 0;
    bytes *= range->src(0)->const_int();
    if (bytes > kMostLocalBytes) break;  // enough to be refused, and no overflow
  }
  const absl::flat_hash_set<const UOp*> written = Written(sink);
  for (const UOp* uop : Toposort(operand)) {
    if (uop->op() == Op::LOAD && written.contains(uop->src(0)->src(0))) return 0;
  }
  return bytes;
}

int64_t LocalBytes(UOp* sink) {
  int64_t bytes = 0;
  for (const UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::BUFFER) bytes += NumElements(uop->shape()) * ItemSize(uop->dtype());
  }
  return bytes;
}

UOp* CopyToLocal(Graph& graph, UOp* sink, UOp* operand, UOp* level) {
  const std::vector<UOp*> ranges = InnerRanges(sink, operand, level);
  int64_t size = 1;
  UOp* place = Idx(graph, 0);
  for (UOp* range : ranges) {
    size *= range->src(0)->const_int();
    place = Add(graph, Mul(graph, place, range->src(0)), range);
  }
  BufferArg arg;
  arg.slot = static_cast<uint32_t>(graph.NextId());
  arg.dtype = operand->dtype();
  arg.addrspace = AddrSpace::kLocal;
  UOp* buffer = graph.Make(Op::BUFFER, {ShapeSource(graph, {size})}, arg);

  // Filled by loops and lanes of its own.
  absl::flat_hash_map<UOp*, UOp*> own;
  std::vector<UOp*> fill = {nullptr};
  for (UOp* range : ranges) {
    const bool lane = IsLane(range);
    const int64_t id = lane ? kLaneIds + LaneDimension(range) + graph.NextId() * kLaneDimensions : graph.NextId();
    own[range] =
        graph.Make(Op::RANGE, range->src(), RangeArg{id, lane ? range->arg_as<RangeArg>().type : AxisType::kLoop});
    fill.push_back(own[range]);
  }
  UOp* target = graph.Make(Op::INDEX, {buffer, Substitute(place, own, graph)});
  fill[0] = graph.Make(Op::STORE, {target, Substitute(operand, own, graph)});
  UOp* filled = graph.Make(Op::AFTER, {buffer, fill.size() > 1 ? graph.Make(Op::END, fill) : fill[0]});
  UOp* copy = graph.Make(Op::LOAD, {graph.Make(Op::INDEX, {filled, place})});
  return Substitute(sink, {{operand, copy}}, graph);
}

}  // namespace kiln::compiler
