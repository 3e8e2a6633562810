#include "compiler/program/kernel_form.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rules/linear.h"
#include "compiler/spec/spec.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

bool Accesses(const UOp* uop) { return uop->op() == Op::LOAD || uop->op() == Op::STORE || uop->op() == Op::ATOMICADD; }
bool IsEffect(const UOp* uop) { return uop->dtype() == DType::kVoid; }

class Normaliser {
 public:
  explicit Normaliser(Graph& graph) : graph_(graph) {}

  absl::StatusOr<UOp*> Run(UOp* sink) {
    for (UOp* uop : Toposort(sink)) {
      absl::StatusOr<UOp*> made = Rebuilt(uop);
      if (!made.ok()) return graph_.Locate(made.status(), uop);
      graph_.InheritOrigin(*made, uop);
      done_[uop] = *made;
    }
    return done_[sink];
  }

 private:
  absl::StatusOr<UOp*> Rebuilt(UOp* uop) {
    if (uop->op() == Op::PARAM || uop->op() == Op::BUFFER) {
      if (uop->addrspace() == AddrSpace::kAlu) return uop;
      if (!IsConst(uop->shape())) {
        return MakeError(v1::UNSUPPORTED_OP,
                         absl::StrCat("storage of shape ", ToString(uop->shape()),
                                      "; in a kernel it has the greatest size that it may need, a number"));
      }
      return graph_.Make(uop->op(), {ShapeSource(graph_, {NumElements(uop->shape())})}, uop->arg());
    }
    if (uop->op() == Op::RANGE || uop->op() == Op::SPECIAL) return Counter(uop);
    if (uop->op() == Op::RESHAPE && IsMemory(uop)) return done_[uop->src(0)];
    if (uop->op() == Op::INDEX && IsMemory(uop->src(0))) return Pointer(uop);
    if (Accesses(uop)) return Access(uop);
    std::vector<UOp*> src;
    for (size_t i = 0; i < uop->src().size(); ++i) {
      // What only says what comes first, and what AFTER and SHRINK are about, may be memory.
      const bool value = i < ValueSources(uop) && !((uop->op() == Op::AFTER || uop->op() == Op::SHRINK) && i == 0);
      KILN_ASSIGN_OR_RETURN(src.emplace_back(), value ? Value(uop->src(i)) : done_[uop->src(i)]);
    }
    if (uop->op() == Op::AFTER) Inherit(uop, uop->src(0));
    if (uop->op() == Op::REDUCE) src[0] = WithoutGaps(src[0], uop->arg_as<ReduceArg>().op);
    const bool narrow = uop->op() == Op::REDUCE && IsNarrowFloat(src[0]->dtype());
    if (narrow) src[0] = Cast(graph_, src[0], DType::kFloat32);  // rounded once, at the end
    KILN_ASSIGN_OR_RETURN(UOp * made, graph_.TryMake(uop->op(), src, uop->arg()));
    return narrow ? Cast(graph_, made, uop->dtype()) : made;
  }

  absl::StatusOr<UOp*> Counter(UOp* uop) {
    KILN_ASSIGN_OR_RETURN(UOp * bound, Value(uop->src(0)));
    return graph_.TryMake(uop->op(), {AsIndex(bound)}, uop->arg());
  }

  absl::StatusOr<UOp*> Value(UOp* uop) {
    UOp* made = done_[uop];
    if (!IsMemory(made)) return made;
    if (IsBareStorage(made)) {
      if (!uop->shape().empty())
        return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("storage of shape ", ToString(uop->shape()),
                                                          " as one value; INDEX takes an element of it"));
      made = graph_.Make(Op::INDEX, {made, Idx(graph_, 0)});
    }
    return MakeLoad(made, nullptr, GateOf(uop));
  }

  UOp* AsIndex(UOp* x) {
    const bool fits = x->IsConst() && IsInt(x->dtype()) && x->bounds().max <= BoundsOf(kIndexType).max;
    return fits ? Idx(graph_, x->const_int()) : Cast(graph_, x, kIndexType);
  }

  UOp* MakeLoad(UOp* pointer, UOp* alt, UOp* gate) {
    std::vector<UOp*> src = {pointer};
    if (gate != nullptr) src.insert(src.end(), {alt != nullptr ? alt : ConstNumber(graph_, pointer->dtype(), 0), gate});
    return graph_.Make(Op::LOAD, src);
  }

  // -- Gates, by the client's own node: two gates may share one place.

  UOp* GateOf(UOp* uop) const {
    const auto found = gates_.find(uop);
    return found == gates_.end() ? nullptr : found->second;
  }
  void Inherit(UOp* uop, UOp* from) {
    if (UOp* gate = GateOf(from)) gates_[uop] = gate;
  }
  UOp* Both(UOp* a, UOp* b) { return a == nullptr ? b : b == nullptr ? a : And(graph_, a, b); }

  // `x` without the choices between it and Invalid; `gate` gets what they say.
  UOp* WithoutInvalid(UOp* x, UOp*& gate) {
    while (x->op() == Op::WHERE && (x->src(1)->IsInvalid() != x->src(2)->IsInvalid())) {
      const bool otherwise = x->src(1)->IsInvalid();
      gate = Both(gate, otherwise ? Not(graph_, x->src(0)) : x->src(0));
      x = x->src(otherwise ? 2 : 1);
    }
    return x;
  }

  // What a reduction by `reduce_op` takes of `x`: it skips what is Invalid.
  UOp* WithoutGaps(UOp* x, Op reduce_op) {
    UOp* gate = nullptr;
    UOp* valid = WithoutInvalid(x, gate);
    return gate == nullptr ? x : graph_.Make(Op::WHERE, {gate, valid, Identity(graph_, reduce_op, valid->dtype())});
  }

  absl::StatusOr<UOp*> Pointer(UOp* uop) {
    const Shape& shape = uop->src(0)->shape();
    if (uop->src().size() != shape.size() + 1 || !uop->shape().empty()) {
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("an INDEX of storage of shape ", ToString(shape), " that gives ",
                                    ToString(uop->shape()), "; in a kernel it gives one element"));
    }
    UOp* gate = nullptr;
    UOp* flat = Idx(graph_, 0);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      KILN_ASSIGN_OR_RETURN(UOp * given, Value(uop->src(axis + 1)));
      UOp* index = AsIndex(WithoutInvalid(given, gate));
      // In one dimension the bounds pass sees to it.
      if (shape.size() > 1 && index->bounds().min < 0)
        gate = Both(gate, Not(graph_, Lt(graph_, index, Idx(graph_, 0))));
      if (shape.size() > 1 && index->bounds().max >= shape[axis])
        gate = Both(gate, Lt(graph_, index, Idx(graph_, shape[axis])));
      flat = axis == 0 ? index : Add(graph_, Mul(graph_, flat, Idx(graph_, shape[axis])), index);
    }
    Inherit(uop, uop->src(0));
    if (gate != nullptr) gates_[uop] = Both(GateOf(uop), gate);
    return graph_.TryMake(Op::INDEX, {done_[uop->src(0)], flat});
  }

  absl::StatusOr<UOp*> Access(UOp* uop) {
    UOp* pointer = done_[uop->src(0)];
    if (!IsMemory(pointer)) {
      if (uop->op() == Op::LOAD) return pointer;  // of a value: the value
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat(Name(uop->op()), " writes to ", Name(pointer->op()),
                                                      ", which is no place in memory"));
    }
    if (IsBareStorage(pointer) && uop->src(0)->shape().empty())
      pointer = graph_.Make(Op::INDEX, {pointer, Idx(graph_, 0)});
    UOp* gate = GateOf(uop->src(0));
    UOp* operand = nullptr;
    if (uop->src().size() > 1) {
      KILN_ASSIGN_OR_RETURN(operand, Value(uop->src(1)));
    }
    if (uop->src().size() > 2) {
      KILN_ASSIGN_OR_RETURN(UOp * given, Value(uop->src(2)));
      gate = Both(given, gate);
    }
    if (uop->op() == Op::LOAD) return MakeLoad(pointer, operand, gate);
    if (uop->op() == Op::STORE) operand = WithoutInvalid(operand, gate);
    std::vector<UOp*> src = {pointer, operand};
    if (gate == nullptr) return graph_.TryMake(uop->op(), src);
    if (uop->op() == Op::ATOMICADD) return MakeError(v1::UNSUPPORTED_OP, "an ATOMICADD through an index with a gate");
    src.push_back(gate);
    return graph_.TryMake(uop->op(), src);
  }

  Graph& graph_;
  absl::flat_hash_map<UOp*, UOp*> done_, gates_;
};

bool ClosesLoops(const UOp* uop) { return uop->op() == Op::END || uop->op() == Op::REDUCE; }

constexpr int kMaxCopies = 64;
constexpr size_t kMaxNodes = 50'000;
constexpr int kMaxLoops = 256;

// `top` with `range` as `own`, down to where another END or REDUCE closes it.
UOp* WithOwnLoop(Graph& graph, UOp* top, UOp* range, UOp* own) {
  absl::flat_hash_map<UOp*, UOp*> copy = {{range, own}};
  for (UOp* uop : Toposort(top)) {
    if (uop == range) continue;
    const auto loops = ClosesLoops(uop) ? uop->src().subspan(1) : absl::Span<UOp* const>();
    if (uop != top && std::find(loops.begin(), loops.end(), range) != loops.end()) {
      copy[uop] = uop;
      continue;
    }
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(copy[source]);
    copy[uop] = graph.Make(uop->op(), src, uop->arg());
    graph.InheritOrigin(copy[uop], uop);
  }
  return copy[top];
}

// Gives each END and REDUCE loops of its own: the second one that closes a loop gets
// a copy of it, and of all that runs in it.
absl::StatusOr<UOp*> OwnLoops(Graph& graph, UOp* sink) {
  absl::flat_hash_set<UOp*> closed;
  absl::flat_hash_map<UOp*, UOp*> done;
  int copies = 0;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    UOp* made = graph.Make(uop->op(), src, uop->arg());
    if (ClosesLoops(uop)) {
      for (UOp* range : made->src().subspan(1)) {
        if (closed.insert(range).second) continue;
        if (++copies > kMaxCopies)
          return graph.Locate(
              MakeError(v1::UNSUPPORTED_OP, "a kernel whose loops are closed by very many ENDs and REDUCEs"), uop);
        UOp* own = graph.Make(Op::RANGE, range->src(), RangeArg{graph.NextId(), range->arg_as<RangeArg>().type});
        closed.insert(own);
        made = WithOwnLoop(graph, made, range, own);
      }
    }
    graph.InheritOrigin(made, uop);
    done[uop] = made;
  }
  return done[sink];
}

// SINK over effects with no loop open.
UOp* CloseLoops(Graph& graph, UOp* sink) {
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  std::vector<UOp*> effects;
  for (UOp* effect : sink->src()) {
    std::vector<UOp*> src = {effect};
    for (UOp* range : open.at(effect)) src.push_back(range);
    effects.push_back(src.size() == 1 ? effect : graph.Make(Op::END, src));
  }
  return graph.Make(Op::SINK, effects, sink->arg());
}

absl::Status CheckEffects(const Graph& graph, UOp* sink) {
  const std::vector<UOp*> order = Toposort(sink);
  const auto loops = std::count_if(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::RANGE; });
  if (order.size() > kMaxNodes || loops > kMaxLoops) {
    const char* limit = loops > kMaxLoops ? "loops of a kernel" : "nodes of a kernel";
    const size_t limit_value = loops > kMaxLoops ? kMaxLoops : kMaxNodes;
    return TooLarge(limit, limit_value, loops > kMaxLoops ? loops : order.size(),
                    absl::StrCat("more than ", limit_value, " ", limit));
  }
  for (UOp* uop : order) {
    absl::Status fault;
    if (uop->op() == Op::END && uop->src().size() == 1)
      fault =
          MakeError(v1::WRONG_SOURCE_COUNT, "an END that closes no RANGE; it takes an effect and one RANGE or more");
    if (ClosesLoops(uop)) {
      for (UOp* range : uop->src().subspan(1)) {
        if (range->op() != Op::RANGE)
          fault = MakeError(v1::BAD_ARGUMENT, absl::StrCat(Name(uop->op()), " closes RANGEs, not ", Name(range->op())));
      }
    }
    if (uop == sink) {
      for (UOp* source : uop->src()) {
        if (!IsEffect(source))
          fault = MakeError(v1::BAD_ROOT, absl::StrCat("a kernel's SINK has a source ", Name(source->op()),
                                                       ", which is a value; a kernel has effects alone"));
      }
    }
    if (!fault.ok()) return graph.Locate(fault, uop);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UOp*> NormaliseKernel(Graph& graph, UOp* sink) {
  KILN_RETURN_IF_ERROR(CheckEffects(graph, sink));
  KILN_ASSIGN_OR_RETURN(UOp * normal, Normaliser(graph).Run(sink));
  KILN_ASSIGN_OR_RETURN(normal, OwnLoops(graph, CloseLoops(graph, normal)));
  graph.InheritOrigin(normal, sink);
  return normal;
}

bool IsPlainKernel(UOp* sink) {
  if (sink->src().size() != 1) return false;
  UOp* body = sink->src(0)->op() == Op::END ? sink->src(0)->src(0) : sink->src(0);
  if (body->op() != Op::STORE) return false;
  for (UOp* uop : Toposort(sink)) {
    if (!kKernelSpec.Allows(uop->op()) || kKernelSpec.fault(uop) != nullptr || uop->IsInvalid()) return false;
    if ((uop->op() == Op::END && uop != sink->src(0)) || (uop->op() == Op::STORE && uop != body)) return false;
    if (uop->op() == Op::REDUCE && !uop->arg_as<ReduceArg>().axes.empty()) return false;
    if (uop->op() == Op::RANGE && (!uop->src(0)->IsConst() || uop->src(0)->const_int() < 1)) return false;
    if (uop->op() == Op::STACK && !IsWeak(uop->dtype())) return false;
    // Out of range, a LOAD gives its alternative; the rules for plain kernels take it to be 0.
    const bool other = uop->op() == Op::LOAD && uop->src().size() > 1 &&
                       !(uop->src(1)->IsConst() && uop->src(1)->arg_as<ConstArg>().bits == 0);
    if (other) return false;
    // Iterations may be reordered only if none reads what another one writes.
    if (uop->op() == Op::LOAD && StorageUnder(uop->src(0)) == StorageUnder(body->src(0)) && uop->src(0) != body->src(0))
      return false;
  }
  return IterationsStoreApart(sink);
}

bool IterationsStoreApart(UOp* sink) {
  if (sink->src().size() != 1) return false;
  const UOp* store = sink->src(0)->op() == Op::END ? sink->src(0)->src(0) : sink->src(0);
  if (store->op() != Op::STORE || store->src(0)->op() != Op::INDEX) return false;
  LinearForm form = ToLinear(store->src(0)->src(1));
  std::sort(form.terms.begin(), form.terms.end(),
            [](const auto& a, const auto& b) { return a.coefficient < b.coefficient; });
  __int128 span = 1;  // places that the terms so far reach
  absl::flat_hash_set<const UOp*> moving;
  for (const auto& [node, coefficient] : form.terms) {
    const bool counts = node->op() == Op::RANGE && node->src(0)->IsConst();
    if (!counts || coefficient < span) return false;
    span += __int128{coefficient} * (node->src(0)->const_int() - 1);
    moving.insert(node);
  }
  const std::vector<UOp*> loops = OutputRanges(sink);
  return std::all_of(loops.begin(), loops.end(),
                     [&](UOp* loop) { return moving.contains(loop) || loop->src(0)->IsConstInt(1); });
}

}  // namespace kiln::compiler
