#include "compiler/opt/local_buffer.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/dots.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/hoist.h"
#include "compiler/opt/walked_axes.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/linear.h"

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

// The ranges around the REDUCE, loops from the outside: those of the output, or of the nest in which it is reduced
// into memory.
std::vector<UOp*> RangesAround(UOp* sink, const UOp* reduce) {
  const std::vector<UOp*> outputs = OutputRanges(sink);
  for (UOp* nest : OuterReduces(sink)) {
    const std::vector<UOp*> below = Toposort(nest);
    if (!Has(below, reduce)) continue;
    std::vector<UOp*> around;
    const RangeSet open = OpenRanges(nest).at(nest);
    std::copy_if(outputs.begin(), outputs.end(), std::back_inserter(around),
                 [&](const UOp* range) { return Has(open, range); });
    around.insert(around.end(), nest->src().begin() + 1, nest->src().end());
    return around;
  }
  return outputs;
}

bool ReadsMemory(UOp* root) {
  const std::vector<UOp*> order = Toposort(root);
  return std::any_of(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::LOAD; });
}

// The dimension of lanes that vector registers hold, and how many those are; (-1, 1) if the kernel has none.
std::pair<int64_t, int64_t> VectorOf(UOp* sink) {
  std::pair<int64_t, int64_t> vector = {-1, 1};
  for (const UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::RANGE && IsLane(uop))
      vector = std::max(vector, {LaneDimension(uop), uop->src(0)->const_int()});
  }
  return vector;
}

// What a copy holds: the places along its axes, outermost first, and then what each lane reads.
struct Layout {
  std::vector<WalkedAxis> axes;
  std::vector<UOp*> lanes;  // by dimension, if vectors are read; else they are parts of the axes
  bool constant = true;     // sizes are numbers; nothing else holds if not

  int64_t Elements() const {
    int64_t elements = 1;
    for (const WalkedAxis& axis : axes) elements = std::min(elements, kMaxLocalBytes) * axis.extent;
    for (const UOp* lane : lanes) elements = std::min(elements, kMaxLocalBytes) * lane->src(0)->const_int();
    return elements;
  }
};

// By how much the place of the only LOAD in `operand` moves with `range`; 0 if there is no such number.
int64_t StepOfLoad(UOp* operand, UOp* range) {
  std::optional<int64_t> step = 0;
  size_t loads = 0;
  for (const UOp* uop : Toposort(operand)) {
    if (uop->op() != Op::LOAD) continue;
    step = StrideIn(uop->src(0)->src(1), range);
    ++loads;
  }
  return loads == 1 ? step.value_or(0) : 0;
}

// Of what `operand` is in all iterations of the loops inside `level`.
Layout LayoutOf(UOp* sink, UOp* operand, UOp* level, const UOp* along = nullptr) {
  Layout layout;
  const RangeSet open = OpenRanges(operand).at(operand);
  std::vector<UOp*> walked;
  const auto add = [&](UOp* range) {
    if (!Has(open, range)) return;
    layout.constant &= range->src(0)->IsConst();
    (IsLane(range) ? layout.lanes : walked).push_back(range);
  };
  bool inside = false;
  UOp* reduce = OnlyReduce(sink);
  for (UOp* range : RangesAround(sink, reduce)) {
    if (inside || IsLane(range)) add(range);
    inside = inside || range == level;
  }
  for (UOp* range : reduce->src().subspan(1)) add(range);
  if (!layout.constant) return layout;
  std::sort(layout.lanes.begin(), layout.lanes.end(),
            [](const UOp* a, const UOp* b) { return LaneDimension(a) < LaneDimension(b); });
  if (layout.lanes.empty() || LaneDimension(layout.lanes.back()) != VectorOf(sink).first) {
    walked.insert(walked.end(), layout.lanes.begin(), layout.lanes.end());
    layout.lanes.clear();
  }
  if (!layout.lanes.empty() && OfConstants(operand)) {
    // Made once, for loops that then read it from end to end.
    for (UOp* range : walked)
      layout.axes.push_back({{{range, 1}}, range->src(0)->const_int(), StepOfLoad(operand, range)});
    return layout;
  }
  layout.axes = WalkedAxes(operand, walked);
  if (layout.lanes.empty() && along != nullptr) {
    std::stable_partition(layout.axes.begin(), layout.axes.end(),
                          [&](const WalkedAxis& axis) { return axis.parts.size() > 1 || axis.unit() != along; });
  }
  return layout;
}

// Whether the kernel writes `storage`, of which there may be several PARAMs, of several dtypes.
bool Writes(UOp* sink, const UOp* storage) {
  const auto same = [&](const UOp* other) {
    const bool params = other->op() == Op::PARAM && storage->op() == Op::PARAM;
    return other == storage || (params && other->arg_as<BufferArg>().slot == storage->arg_as<BufferArg>().slot);
  };
  const std::vector<UOp*> order = Toposort(sink);
  return std::any_of(order.begin(), order.end(),
                     [&](const UOp* uop) { return uop->op() == Op::STORE && same(uop->src(0)->src(0)); });
}

// The loops and lanes that fill a copy. They walk the operand as memory has it: vectors along its last axis where
// that is contiguous, whichever lanes will read them. If those are along another, each square of elements is transposed
// on its way (kernel/expand.h).
class Filler {
 public:
  Filler(Graph& graph, UOp* sink, UOp* operand, const Layout& layout) : graph_(graph) {
    const auto [dimension, lanes] = VectorOf(sink);
    const WalkedAxis* last = layout.axes.empty() ? nullptr : &layout.axes.back();
    const int64_t vector =
        last == nullptr || last->stride != 1
            ? 1
            : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(last->extent, 1, lanes))));
    const bool transposed =
        vector >= kMinVector && !layout.lanes.empty() && dimension > 0 && Transposes(operand, layout.lanes);
    const bool vectors = vector >= kMinVector && (layout.lanes.empty() || transposed);
    // Along the vectors last: a processor fetches ahead what it is asked for in equal steps.
    for (UOp* lane : layout.lanes) {
      const bool loop = transposed && lane != layout.lanes.back();
      const int64_t id = graph.NextId();
      own_[lane] = loop ? Loop(lane->src(0)->const_int(), AxisType::kLoop, id)
                        : Lane(lane->src(0)->const_int(), lane->arg_as<RangeArg>().type, LaneDimension(lane));
    }
    for (const WalkedAxis& axis : layout.axes) {
      for (const WalkedAxis::Part& part : axis.parts) own_[part.range] = Idx(graph, 0);
      own_[axis.unit()] = vectors && &axis == last ? Along(axis.extent, vector, transposed ? 0 : dimension)
                                                   : Loop(axis.extent, AxisType::kLoop, graph.NextId());
    }
    std::stable_partition(closed_.begin(), closed_.end(), [](const UOp* range) { return !IsLane(range); });
  }

  // What stands for each range of the operand while it is copied.
  const absl::flat_hash_map<UOp*, UOp*>& own() const { return own_; }
  // The ranges of these, outermost first.
  const std::vector<UOp*>& closed() const { return closed_; }

 private:
  static constexpr int64_t kMinVector = 4;

  // Whether memory lies across the lanes: no two of them are neighbours.
  static bool Transposes(UOp* operand, absl::Span<UOp* const> lanes) {
    if (lanes.size() > 1 && LaneDimension(lanes[0]) == 0) return false;  // rows have that dimension
    for (UOp* uop : Toposort(operand)) {
      if (uop->op() != Op::LOAD) continue;
      const std::optional<int64_t> across = StrideIn(uop->src(0)->src(1), lanes.back());
      return across != 0 && across != 1;  // of the only one
    }
    return false;
  }

  UOp* Loop(int64_t iterations, AxisType type, int64_t id) {
    if (iterations == 1) return Idx(graph_, 0);
    closed_.push_back(graph_.Make(Op::RANGE, {Idx(graph_, iterations)}, RangeArg{id, type}));
    return closed_.back();
  }
  UOp* Lane(int64_t size, AxisType type, int64_t dimension) {
    return Loop(size, type, kLaneIds + dimension + graph_.NextId() * kLaneDimensions);
  }

  // Vectors along an axis of `extent` places; the last begins where it still fits, and copies some of them again.
  UOp* Along(int64_t extent, int64_t vector, int64_t dimension) {
    UOp* first =
        Mul(graph_, Loop((extent + vector - 1) / vector, AxisType::kLoop, graph_.NextId()), Idx(graph_, vector));
    if (extent % vector != 0) first = AtMost(graph_, first, extent - vector);
    return Add(graph_, first, Lane(vector, AxisType::kUpcast, dimension));
  }

  Graph& graph_;
  absl::flat_hash_map<UOp*, UOp*> own_;
  std::vector<UOp*> closed_;
};

// Numbers along `lanes`, neighbours in memory, as one LOAD of the word that they are; null if they are none. A
// parameter may be read in words wherever it lies; a slice that is none yet (lower/chain_nests.h) may not.
UOp* WordInMemory(Graph& graph, const UOp* numbers, const UOp* lanes) {
  if (numbers->op() != Op::LOAD || numbers->src().size() != 1 || numbers->src(0)->op() != Op::INDEX) return nullptr;
  UOp* storage = numbers->src(0)->src(0);
  if (storage->op() != Op::PARAM || !storage->shape()[0].IsConst() || !storage->arg_as<BufferArg>().name.empty())
    return nullptr;
  // A gate is then of a whole word: none may be half inside.
  const int64_t terms = DotTerms(numbers->dtype());
  if (int64_t{storage->shape()[0]} % terms != 0) return nullptr;
  LinearForm place = ToLinear(numbers->src(0)->src(1));
  bool along = false;
  std::erase_if(place.terms, [&](const LinearForm::Term& term) {
    const bool is_lanes = term.node == lanes && term.coefficient == 1;
    along = along || is_lanes;
    return is_lanes;
  });
  const bool even = std::all_of(place.terms.begin(), place.terms.end(), [&](const LinearForm::Term& term) {
    return term.coefficient % terms == 0 && !Has(Toposort(term.node), lanes);
  });
  if (!along || !even || place.constant % terms != 0) return nullptr;
  for (LinearForm::Term& term : place.terms) term.coefficient /= terms;
  place.constant /= terms;
  BufferArg arg = storage->arg_as<BufferArg>();
  arg.dtype = DType::kUint32;
  UOp* words = graph.Make(Op::PARAM, {ShapeSource(graph, {int64_t{storage->shape()[0]} / terms})}, arg);
  return graph.Make(Op::LOAD, {graph.Make(Op::INDEX, {words, FromLinear(graph, place)})});
}

// The loop of the REDUCE that walks the words of which `lanes` are the numbers; null if there is none.
UOp* LoopOfWords(UOp* sink, UOp* numbers, UOp* lanes) {
  for (const UOp* uop : Toposort(numbers)) {
    if (uop->op() != Op::LOAD) continue;
    const std::optional<int64_t> step = StrideIn(uop->src(0)->src(1), lanes);
    if (!step.has_value() || *step == 0) continue;
    for (UOp* range : OnlyReduce(sink)->src().subspan(1)) {
      const std::optional<int64_t> of_loop = StrideIn(uop->src(0)->src(1), range);
      const int64_t terms = lanes->src(0)->const_int();
      if (!IsLane(range) && of_loop.has_value() && *of_loop % terms == 0 && *of_loop / terms == *step) return range;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<UOp*> OperandsOf(UOp* sink) {
  UOp* reduce = OnlyReduce(sink);
  if (reduce == nullptr || sink->src().size() != 1) return {};
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  const RangeSet& all = open.at(reduce);
  const std::vector<UOp*> around = RangesAround(sink, reduce);
  if (!std::all_of(all.begin(), all.end(), [&](const UOp* range) { return Has(around, range); })) return {};
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

std::optional<Packed> PackInWords(Graph& graph, UOp* sink, UOp* operand) {
  if (operand->op() != Op::CAST) return std::nullopt;
  UOp* numbers = operand->src(0);
  UOp* lanes = DotLanesIn(numbers);
  if (lanes == nullptr) return std::nullopt;
  UOp* word = WordInMemory(graph, numbers, lanes);
  if (word == nullptr) word = ToWord(graph, numbers, lanes);
  UOp* unpacked = Cast(graph, FromWord(graph, word, lanes, numbers->dtype()), operand->dtype());
  return Packed{Substitute(sink, {{operand, unpacked}}, graph), word, LoopOfWords(sink, numbers, lanes)};
}

int64_t LocalBytes(UOp* sink, UOp* operand, UOp* level) {
  const Layout layout = LayoutOf(sink, operand, level);
  if (!layout.constant) return 0;
  for (const UOp* uop : Toposort(operand)) {
    if (uop->op() == Op::LOAD && Writes(sink, uop->src(0)->src(0))) return 0;
  }
  return layout.Elements() * ItemSize(operand->dtype());
}

int64_t LocalBytes(UOp* sink) {
  int64_t bytes = 0;
  for (const UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::BUFFER && uop->addrspace() == AddrSpace::kLocal)
      bytes += NumElements(uop->shape()) * ItemSize(uop->dtype());
  }
  return bytes;
}

UOp* CopyToLocal(Graph& graph, UOp* sink, UOp* operand, UOp* level, UOp* along) {
  const Layout layout = LayoutOf(sink, operand, level, along);
  UOp* place = Idx(graph, 0);
  for (const WalkedAxis& axis : layout.axes) {
    place = Mul(graph, place, Idx(graph, axis.extent));
    for (const auto& [range, step] : axis.parts) place = Add(graph, place, Mul(graph, range, Idx(graph, step)));
  }
  for (UOp* lane : layout.lanes) place = Add(graph, Mul(graph, place, lane->src(0)), lane);
  BufferArg arg;
  arg.slot = static_cast<uint32_t>(graph.NextId());
  arg.dtype = operand->dtype();
  arg.addrspace = AddrSpace::kLocal;
  UOp* buffer = graph.Make(Op::BUFFER, {ShapeSource(graph, {layout.Elements()})}, arg);

  const Filler filler(graph, sink, operand, layout);
  UOp* target = graph.Make(Op::INDEX, {buffer, Substitute(place, filler.own(), graph)});
  UOp* fill = graph.Make(Op::STORE, {target, Substitute(operand, filler.own(), graph)});
  if (!filler.closed().empty()) {
    std::vector<UOp*> src = {fill};
    src.insert(src.end(), filler.closed().begin(), filler.closed().end());
    fill = graph.Make(Op::END, src);
  }
  UOp* filled = graph.Make(Op::AFTER, {buffer, fill});
  UOp* copy = graph.Make(Op::LOAD, {graph.Make(Op::INDEX, {filled, place})});
  return Substitute(sink, {{operand, copy}}, graph);
}

}  // namespace kiln::compiler
