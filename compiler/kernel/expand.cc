#include "compiler/kernel/expand.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/lane_scan.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

bool IsLane(const UOp* uop) {
  if (uop->op() != Op::RANGE) return false;
  const AxisType type = uop->arg_as<RangeArg>().type;
  return type == AxisType::kUpcast || type == AxisType::kUnroll;
}

// 0, 1, 2, ... along `dimension` of `rank`.
UOp* Iota(Graph& graph, int64_t size, int64_t dimension, int64_t rank) {
  std::vector<UOp*> elements;
  for (int64_t i = 0; i < size; ++i) {
    UOp* element = Idx(graph, i);
    for (int64_t d = dimension + 1; d < rank; ++d) element = graph.Make(Op::STACK, {element});
    elements.push_back(element);
  }
  UOp* iota = graph.Make(Op::STACK, elements);
  for (int64_t d = 0; d < dimension; ++d) iota = graph.Make(Op::STACK, {iota});
  return iota;
}

// The lanes of both.
Shape Broadcast(Shape lanes, const Shape& other) {
  for (size_t i = 0; i < other.size(); ++i) lanes[i] = std::max(lanes[i], other[i]);
  return lanes;
}

// The place of a LOAD or a STORE, in as many lanes as its other operands have:
// what lanes were reduced into has their rank, too.
UOp* InEveryLane(Graph& graph, absl::Span<UOp* const> access, int64_t rank) {
  UOp* place = access[0];
  Shape lanes = place->shape();
  for (UOp* operand : access.subspan(1)) {
    if (lanes.empty()) lanes = operand->shape();
    lanes = Broadcast(lanes, operand->shape());
  }
  if (lanes == place->shape()) return place;
  UOp* index = place->src(1);
  if (index->shape().empty()) index = Reshape(graph, index, Shape(rank, 1));
  return graph.Make(Op::INDEX, {place->src(0), Expand(graph, index, lanes)});
}

// Fewer rows or lanes than this are as quick one by one.
constexpr int64_t kMinTransposed = 4;

// The LOADs and STOREs whose memory runs along the rows of a tile (dimension 0) and not
// along its lanes, each with the two exchanged: a value is transposed behind such a LOAD,
// and before such a STORE.
absl::flat_hash_map<UOp*, UOp*> TransposedAccesses(Graph& graph, absl::Span<UOp* const> order, int64_t rank) {
  absl::flat_hash_map<UOp*, UOp*> transposed;
  const auto exchanged = [&](const UOp* range, int64_t dimension) {
    const int64_t id = kLaneIds + dimension + graph.NextId() * kLaneDimensions;
    return graph.Make(Op::RANGE, range->src(), RangeArg{id, range->arg_as<RangeArg>().type});
  };
  for (UOp* uop : order) {
    const bool load = uop->op() == Op::LOAD;
    if ((!load && uop->op() != Op::STORE) || uop->src(0)->op() != Op::INDEX) continue;
    if (load && uop->src().size() > 1 && !uop->src(1)->IsConst()) continue;
    UOp* index = uop->src(0)->src(1);
    std::vector<UOp*> rows, lanes;
    for (UOp* range : Toposort(uop->src().size() > 2 ? graph.Make(Op::GROUP, {index, uop->src(2)}) : index)) {
      if (!IsLane(range)) continue;
      if (LaneDimension(range) == 0) rows.push_back(range);
      if (LaneDimension(range) == rank - 1) lanes.push_back(range);
    }
    if (rows.size() != 1 || lanes.size() != 1 || StrideIn(index, rows[0]) != 1) continue;
    if (std::min(rows[0]->src(0)->const_int(), lanes[0]->src(0)->const_int()) < kMinTransposed) continue;
    const std::optional<int64_t> across = StrideIn(index, lanes[0]);
    if (across == 0 || across == 1 || (!load && !across.has_value())) continue;
    const absl::flat_hash_map<UOp*, UOp*> exchange = {{rows[0], exchanged(rows[0], rank - 1)},
                                                      {lanes[0], exchanged(lanes[0], 0)}};
    std::vector<UOp*> src = {Substitute(uop->src(0), exchange, graph)};
    if (uop->src().size() > 1) src.push_back(uop->src(1));
    if (uop->src().size() > 2) src.push_back(Substitute(uop->src(2), exchange, graph));
    transposed[uop] = graph.Make(uop->op(), src, uop->arg());
  }
  return transposed;
}

// `value` with rows and lanes exchanged.
UOp* Transpose(Graph& graph, UOp* value, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
  std::swap(axes.front(), axes.back());
  return graph.Make(Op::PERMUTE, {value}, AxesArg{axes});
}

// `value` in all `lanes`, those of dimensions of which it has one, too.
UOp* InLanes(Graph& graph, UOp* value, const Shape& lanes) {
  if (value->shape().empty()) value = Reshape(graph, value, Shape(lanes.size(), 1));
  return value->shape() == lanes ? value : Expand(graph, value, lanes);
}

// `value` with all lanes of a dimension, of which it may have one for all.
UOp* InAllLanes(Graph& graph, UOp* value, const UOp* lane, int64_t rank) {
  Shape shape = value->shape().empty() ? Shape(rank, 1) : value->shape();
  shape[LaneDimension(lane)] = lane->src(0)->const_int();
  return InLanes(graph, value, shape);
}

// The lanes that are stored to registers: each has one of its own.
absl::flat_hash_map<const UOp*, Shape> RegisterShapes(UOp* sink, absl::Span<UOp* const> order, int64_t rank) {
  absl::flat_hash_map<const UOp*, Shape> shapes;
  for (const UOp* uop : order) {
    if (uop->op() == Op::BUFFER && uop->addrspace() == AddrSpace::kReg) shapes[uop] = Shape(rank, 1);
  }
  if (shapes.empty()) return shapes;
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  for (const UOp* uop : order) {
    if (uop->op() != Op::STORE) continue;
    const UOp* target = uop->src(0);
    while (target->op() == Op::AFTER) target = target->src(0);
    const auto shape = shapes.find(target);
    if (shape == shapes.end()) continue;
    for (const UOp* range : open.at(uop->src(1))) {
      if (IsLane(range)) shape->second[LaneDimension(range)] = range->src(0)->const_int();
    }
  }
  return shapes;
}

}  // namespace

UOp* Expand(Graph& graph, UOp* sink) {
  std::vector<UOp*> order = Toposort(sink);
  int64_t rank = 0;
  for (UOp* uop : order) {
    if (IsLane(uop)) rank = std::max(rank, LaneDimension(uop) + 1);
  }
  if (rank == 0) return sink;
  absl::flat_hash_map<UOp*, UOp*> transposed;
  if (rank > 1) transposed = TransposedAccesses(graph, order, rank);
  if (!transposed.empty()) {
    std::vector<UOp*> roots;
    for (const auto& [access, exchanged] : transposed) {
      roots.push_back(exchanged->src(0)->src(1));
      if (exchanged->src().size() > 2) roots.push_back(exchanged->src(2));
    }
    std::sort(roots.begin(), roots.end(), [](const UOp* a, const UOp* b) { return a->id() < b->id(); });
    roots.push_back(sink);
    order = Toposort(graph.Make(Op::GROUP, roots));
    order.pop_back();
  }

  const absl::flat_hash_map<const UOp*, Shape> registers = RegisterShapes(sink, order, rank);
  absl::flat_hash_map<std::pair<UOp*, UOp*>, bool> scans;  // what is scanned, its lanes -> descending
  for (UOp* uop : order) {
    if (const auto scan = LaneScanOf(graph, uop)) scans[{scan->value, uop->src(1)}] = scan->descending;
  }

  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : order) {
    if (const auto shape = registers.find(uop); shape != registers.end()) {
      done[uop] = graph.Make(Op::BUFFER, {ShapeSource(graph, shape->second)}, uop->arg());
      continue;
    }
    if (uop->op() == Op::REDUCE && !scans.empty() && uop->src().size() == 2) {
      const std::optional<LaneScan> scan = LaneScanOf(graph, uop);
      UOp* value = scan.has_value() ? scan->value : uop->src(0);
      if (const auto found = scans.find({value, uop->src(1)}); found != scans.end()) {
        UOp* lanes = InAllLanes(graph, done[value], uop->src(1), rank);
        UOp* scanned = ScanLanes(graph, uop->arg_as<ReduceArg>().op, lanes, found->second);
        done[uop] = scan.has_value() ? scanned : LastLane(graph, scanned, found->second);
        continue;
      }
    }
    if (IsLane(uop)) {
      done[uop] = Iota(graph, uop->src(0)->const_int(), LaneDimension(uop), rank);
      continue;
    }
    std::vector<UOp*> src;
    Arg arg = uop->arg();
    for (UOp* source : uop->src()) {
      const bool closes = (uop->op() == Op::END || uop->op() == Op::REDUCE) && IsLane(source);
      if (!closes) {
        src.push_back(done[source]);
      } else if (uop->op() == Op::REDUCE) {
        // A value that is the same in all lanes still counts once a lane.
        src[0] = InAllLanes(graph, src[0], source, rank);
        std::get<ReduceArg>(arg).axes.push_back(LaneDimension(source));
      }
    }
    if (const auto found = transposed.find(uop); found != transposed.end()) {
      // The other way round, its place and its gate are those of the exchanged access.
      UOp* exchanged = found->second;
      src[0] = graph.Make(Op::INDEX, {src[0]->src(0), done.at(exchanged->src(0)->src(1))});
      if (src.size() > 2) src[2] = done.at(exchanged->src(2));
      if (uop->op() == Op::STORE) {
        Shape lanes = src[0]->shape();
        std::swap(lanes.front(), lanes.back());
        src[1] = InLanes(graph, src[1], Broadcast(lanes, src[1]->shape()));
        src[1] = Transpose(graph, src[1], rank);
      }
      src[0] = InEveryLane(graph, src, rank);
      UOp* access = graph.Make(uop->op(), src, std::move(arg));
      done[uop] = uop->op() == Op::LOAD ? Transpose(graph, access, rank) : access;
      continue;
    }
    if ((uop->op() == Op::LOAD || uop->op() == Op::STORE) && uop->src(0)->op() == Op::INDEX)
      src[0] = InEveryLane(graph, src, rank);
    // An END that closed lanes alone is its body.
    const bool bare = uop->op() == Op::END && src.size() == 1;
    done[uop] = bare ? src[0] : graph.Make(uop->op(), src, std::move(arg));
  }
  return done[sink];
}

}  // namespace kiln::compiler
