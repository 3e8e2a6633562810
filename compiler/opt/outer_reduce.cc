#include "compiler/opt/outer_reduce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(parts...));
}

bool Has(absl::Span<UOp* const> ranges, const UOp* range) {
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

bool IsLane(const UOp* range) {
  const AxisType type = range->arg_as<RangeArg>().type;
  return type == AxisType::kUpcast || type == AxisType::kUnroll;
}

// Those that close `reduced`.
std::vector<UOp*> ReducesOver(UOp* sink, const UOp* reduced) {
  std::vector<UOp*> reduces;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::REDUCE && Has(uop->src().subspan(1), reduced)) reduces.push_back(uop);
  }
  return reduces;
}

// The ranges of the output in which the accumulators of `reduce` differ, loops first: `output`,
// the loops inside it, and all lanes.
std::vector<UOp*> InsideOf(UOp* sink, const RangeSet& open, const UOp* output) {
  std::vector<UOp*> inside;
  bool behind = false;
  for (UOp* range : OutputRanges(sink)) {
    behind = behind || range == output;
    if ((behind || IsLane(range)) && Has(open, range)) inside.push_back(range);
  }
  // As registers have them: the highest dimension of lanes is contiguous.
  std::stable_sort(inside.begin(), inside.end(), [](const UOp* a, const UOp* b) {
    const auto depth = [](const UOp* range) { return IsLane(range) ? LaneDimension(range) : -1; };
    return depth(a) < depth(b);
  });
  return inside;
}

int64_t Iterations(absl::Span<UOp* const> ranges) {
  int64_t iterations = 1;
  for (const UOp* range : ranges) iterations *= range->src(0)->const_int();
  return iterations;
}

// Ranges of another nest in place of `ranges`; loops of one iteration are none.
absl::flat_hash_map<UOp*, UOp*> Renewed(Graph& graph, absl::Span<UOp* const> ranges) {
  absl::flat_hash_map<UOp*, UOp*> renewed;
  for (UOp* range : ranges) {
    if (range->src(0)->IsConstInt(1)) {
      renewed[range] = Idx(graph, 0);
      continue;
    }
    int64_t id = graph.NextId();
    if (IsLane(range)) id = kLaneIds + LaneDimension(range) + id * kLaneDimensions;
    const AxisType type = IsLane(range) ? AxisType::kUpcast : AxisType::kLoop;
    renewed[range] = graph.Make(Op::RANGE, range->src(), RangeArg{id, type});
  }
  return renewed;
}

}  // namespace

absl::Status CheckOuterReduce(UOp* sink, UOp* output, UOp* reduced) {
  const std::vector<UOp*> reduces = ReducesOver(sink, reduced);
  if (reduces.size() != 1)
    return Bad("several REDUCEs share the reduced loop: it cannot stand outside of the output's");
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  const RangeSet& around = open.at(reduces[0]);
  if (!Has(around, output)) return Bad("the REDUCE does not depend on the output's loop: there is nothing to exchange");
  for (UOp* range : around) {
    if (!Has(OutputRanges(sink), range)) return Bad("the REDUCE stands inside another one's loops");
    if (!range->src(0)->IsConst()) return Bad("the size of one of its loops is not a number, but known when it runs");
  }
  absl::flat_hash_set<const UOp*> written;
  for (const UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::STORE) written.insert(uop->src(0)->src(0));
  }
  for (const UOp* uop : Toposort(reduces[0])) {
    if (uop->op() == Op::LOAD && written.contains(uop->src(0)->src(0)))
      return Bad("the REDUCE reads what the kernel writes");
  }
  int64_t bytes = ItemSize(reduces[0]->dtype());
  for (const UOp* range : InsideOf(sink, around, output)) {
    bytes *= std::min(range->src(0)->const_int(), kMaxLocalBytes + 1);
    bytes = std::min(bytes, kMaxLocalBytes + 1);
  }
  if (bytes + LocalBytes(sink) > kMaxLocalBytes)
    return Bad("too much local memory for its accumulators: a kernel may have ", kMaxLocalBytes, " bytes");
  return absl::OkStatus();
}

UOp* OuterReduce(Graph& graph, UOp* sink, UOp* output, UOp* reduced) {
  UOp* reduce = ReducesOver(sink, reduced).at(0);
  const RangeSet around = OpenRanges(sink).at(reduce);
  const std::vector<UOp*> inside = InsideOf(sink, around, output);
  std::vector<UOp*> outside;
  for (UOp* range : around) {
    if (!Has(inside, range)) outside.push_back(range);
  }

  BufferArg arg;
  arg.slot = static_cast<uint32_t>(graph.NextId());
  arg.dtype = reduce->dtype();
  arg.addrspace = AddrSpace::kLocal;
  UOp* buffer = graph.Make(Op::BUFFER, {ShapeSource(graph, {Iterations(inside)})}, arg);
  UOp* place = Idx(graph, 0);
  for (UOp* range : inside) place = Add(graph, Mul(graph, place, range->src(0)), range);
  const auto after = [&](std::vector<UOp*> order) {
    order.insert(order.begin(), buffer);
    return order.size() == 1 ? buffer : graph.Make(Op::AFTER, order);
  };
  // Stores `value` in all iterations of `outer` and of what stands for `inside`.
  const auto fill = [&](UOp* array, UOp* value, std::vector<UOp*> outer, const absl::flat_hash_map<UOp*, UOp*>& own) {
    UOp* at = graph.Make(Op::INDEX, {array, Substitute(place, own, graph)});
    outer.insert(outer.begin(), graph.Make(Op::STORE, {at, value}));
    for (UOp* range : inside) {
      if (own.at(range)->op() == Op::RANGE) outer.push_back(own.at(range));
    }
    return outer.size() == 1 ? outer[0] : graph.Make(Op::END, outer);
  };

  // Set anew in every iteration of the loops around.
  const Op reduce_op = reduce->arg_as<ReduceArg>().op;
  absl::flat_hash_map<UOp*, UOp*> own = Renewed(graph, inside);
  UOp* set = fill(after(outside), Identity(graph, reduce_op, reduce->dtype()), {}, own);

  std::vector<UOp*> rest(reduce->src().begin(), reduce->src().end());
  rest.erase(std::find(rest.begin(), rest.end(), reduced));
  own = Renewed(graph, inside);
  UOp* value = rest.size() == 1 ? rest[0] : graph.Make(Op::REDUCE, rest, reduce->arg());
  value = Substitute(value, own, graph);
  UOp* array_in_loop = after({set, reduced});
  UOp* before = graph.Make(Op::LOAD, {graph.Make(Op::INDEX, {array_in_loop, Substitute(place, own, graph)})});
  UOp* updated = fill(array_in_loop, graph.Make(reduce_op, {before, value}), {reduced}, own);

  UOp* read = graph.Make(Op::LOAD, {graph.Make(Op::INDEX, {after({updated}), place})});
  return Substitute(sink, {{reduce, read}}, graph);
}

bool ReducesOutside(UOp* sink, UOp* range) {
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  const std::vector<UOp*> outer = OuterReduces(sink);
  return std::any_of(outer.begin(), outer.end(), [&](UOp* reduce) { return !Has(open.at(reduce), range); });
}

}  // namespace kiln::compiler
