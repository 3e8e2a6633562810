#include "compiler/kernel/expand.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
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

// The place of a LOAD or a STORE, in as many lanes as its other operands have:
// what lanes were folded into has their rank, too.
UOp* InEveryLane(Graph& graph, absl::Span<UOp* const> access, int64_t rank) {
  UOp* place = access[0];
  Shape lanes = place->shape();
  for (UOp* operand : access.subspan(1)) {
    if (lanes.empty()) lanes = operand->shape();
    for (size_t i = 0; i < operand->shape().size(); ++i) lanes[i] = std::max(lanes[i], operand->shape()[i]);
  }
  if (lanes == place->shape()) return place;
  UOp* index = place->src(1);
  if (index->shape().empty()) index = Reshape(graph, index, Shape(rank, 1));
  return graph.Make(Op::INDEX, {place->src(0), Expand(graph, index, lanes)});
}

// The LOADs that memory has along the rows of a square tile, and their indices with the
// two dimensions exchanged: what is loaded so is turned afterwards.
absl::flat_hash_map<UOp*, UOp*> TurnedIndices(Graph& graph, absl::Span<UOp* const> order) {
  absl::flat_hash_map<UOp*, UOp*> turned;
  UOp *rows = nullptr, *lanes = nullptr;
  for (UOp* uop : order) {
    if (!IsLane(uop)) continue;
    UOp*& of_dimension = LaneDimension(uop) == 0 ? rows : lanes;
    if (of_dimension != nullptr) return turned;
    of_dimension = uop;
  }
  if (rows == nullptr || lanes == nullptr || rows->src(0) != lanes->src(0)) return turned;
  const int64_t size = rows->src(0)->const_int();
  if ((size & (size - 1)) != 0) return turned;
  for (UOp* uop : order) {
    if (uop->op() != Op::LOAD || uop->src().size() > 1 || uop->src(0)->op() != Op::INDEX) continue;
    UOp* index = uop->src(0)->src(1);
    const std::optional<int64_t> across = StrideIn(index, lanes);
    if (StrideIn(index, rows) != 1 || !across.has_value() || *across == 0 || *across == 1) continue;
    turned[uop] = Substitute(index, {{rows, lanes}, {lanes, rows}}, graph);
  }
  return turned;
}

}  // namespace

UOp* Expand(Graph& graph, UOp* sink) {
  std::vector<UOp*> order = Toposort(sink);
  int64_t rank = 0;
  for (UOp* uop : order) {
    if (IsLane(uop)) rank = std::max(rank, LaneDimension(uop) + 1);
  }
  if (rank == 0) return sink;
  absl::flat_hash_map<UOp*, UOp*> turned;
  if (rank == 2) turned = TurnedIndices(graph, order);
  if (!turned.empty()) {
    std::vector<UOp*> roots;
    for (const auto& [load, index] : turned) roots.push_back(index);
    std::sort(roots.begin(), roots.end(), [](const UOp* a, const UOp* b) { return a->id() < b->id(); });
    roots.push_back(sink);
    order = Toposort(graph.Make(Op::GROUP, roots));
    order.pop_back();
  }

  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : order) {
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
        Shape shape = src[0]->shape().empty() ? Shape(rank, 1) : src[0]->shape();
        shape[LaneDimension(source)] = source->src(0)->const_int();
        src[0] =
            Expand(graph, Reshape(graph, src[0], src[0]->shape().empty() ? Shape(rank, 1) : src[0]->shape()), shape);
        std::get<ReduceArg>(arg).axes.push_back(LaneDimension(source));
      }
    }
    if (uop->op() == Op::LOAD || uop->op() == Op::STORE) src[0] = InEveryLane(graph, src, rank);
    if (const auto index = turned.find(uop); index != turned.end()) {
      UOp* place = graph.Make(Op::INDEX, {src[0]->src(0), done.at(index->second)});
      done[uop] = graph.Make(Op::PERMUTE, {graph.Make(Op::LOAD, {place})}, AxesArg{{1, 0}});
      continue;
    }
    done[uop] = graph.Make(uop->op(), src, std::move(arg));
  }
  UOp* expanded = done[sink];
  // An END that closed lanes alone is its body.
  absl::flat_hash_map<UOp*, UOp*> bare;
  for (UOp* uop : Toposort(expanded)) {
    if (uop->op() == Op::END && uop->src().size() == 1) bare[uop] = uop->src(0);
  }
  return bare.empty() ? expanded : Substitute(expanded, bare, graph);
}

}  // namespace kiln::compiler
