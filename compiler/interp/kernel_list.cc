#include "compiler/interp/kernel_list.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {
namespace {

constexpr size_t kMaxListed = 200'000;

using Loops = std::set<const UOp*>;

absl::Status Unsupported(absl::string_view what) {
  return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("a kernel graph with ", what, " is not interpreted"));
}

bool IsEffect(const UOp* uop) {
  return uop->op() == Op::STORE || uop->op() == Op::ATOMICADD || uop->op() == Op::BARRIER || uop->op() == Op::END;
}

class Lister {
 public:
  explicit Lister(Graph& graph) : graph_(graph) {}

  absl::StatusOr<UOp*> Run(UOp* sink) {
    order_ = Toposort(sink);
    for (UOp* uop : order_) FindLoops(uop);
    const bool meets = std::any_of(order_.begin(), order_.end(), [](UOp* uop) { return uop->op() == Op::BARRIER; });
    for (UOp* uop : order_) {
      if (uop->op() == Op::IF || uop->op() == Op::ENDIF) return Unsupported("an IF");
      if (!meets || uop->op() != Op::RANGE) continue;
      const AxisType type = uop->arg_as<RangeArg>().type;
      if (type == AxisType::kLocal || type == AxisType::kWarp || type == AxisType::kGroupReduce)
        return Unsupported("a BARRIER in loops over LOCAL axes");
    }
    std::vector<std::pair<What, UOp*>> effects;
    for (UOp* effect : EffectsOf(sink)) effects.push_back({kVisit, Enclosed(effect)});
    PushAll(effects);
    while (!todo_.empty()) {
      const auto [what, uop] = todo_.back();
      todo_.pop_back();
      KILN_RETURN_IF_ERROR(Do(what, uop));
      if (list_.size() > kMaxListed || todo_.size() > 10 * kMaxListed) return Unsupported("so many instructions");
    }
    return graph_.TryMake(Op::LINEAR, list_, KernelArg());
  }

 private:
  enum What { kVisit, kList, kStart, kOpen, kReduce, kClose };

  // To be done in the order given.
  void PushAll(const std::vector<std::pair<What, UOp*>>& steps) {
    todo_.insert(todo_.end(), steps.rbegin(), steps.rend());
  }

  // The loops that END and REDUCE close.
  static absl::Span<UOp* const> Closed(const UOp* uop) {
    return uop->op() == Op::END || uop->op() == Op::REDUCE ? uop->src().subspan(1) : absl::Span<UOp* const>();
  }

  void FindLoops(UOp* uop) {
    Loops& loops = loops_[uop];
    for (UOp* source : uop->src()) loops.insert(loops_[source].begin(), loops_[source].end());
    for (UOp* closed : Closed(uop)) loops.erase(closed);
    if (uop->op() == Op::RANGE) loops.insert(uop);
  }

  // Under GROUPs and SINKs, in order.
  static std::vector<UOp*> EffectsOf(UOp* sink) {
    std::vector<UOp*> effects, stack = {sink};
    while (!stack.empty()) {
      UOp* uop = stack.back();
      stack.pop_back();
      if (uop->op() == Op::GROUP || uop->op() == Op::SINK) {
        stack.insert(stack.end(), uop->src().rbegin(), uop->src().rend());
      } else {
        effects.push_back(uop);
      }
    }
    return effects;
  }

  // `effect` in an END of the loops that it stands in and that nothing closes.
  UOp* Enclosed(UOp* effect) {
    if (loops_[effect].empty()) return effect;
    std::vector<UOp*> src = {effect};
    for (UOp* uop : order_) {
      if (loops_[effect].contains(uop)) src.push_back(uop);
    }
    return graph_.Make(Op::END, src);
  }

  absl::Status Do(What what, UOp* uop) {
    switch (what) {
      case kVisit: return Visit(uop);
      case kList: return List(uop);
      case kStart: return Start(uop);
      case kOpen: return Open(uop);
      case kReduce: return Reduce(uop);
      default: return Close(uop);
    }
  }

  absl::Status Visit(UOp* uop) {
    if (scopes_.Find(uop).has_value() || (IsEffect(uop) && scopes_.WasListed(uop))) return absl::OkStatus();
    if (uop->op() == Op::GROUP || uop->op() == Op::SINK) {
      std::vector<std::pair<What, UOp*>> steps;
      for (UOp* source : uop->src()) steps.push_back({kVisit, source});
      PushAll(steps);
      return absl::OkStatus();
    }
    if (uop->op() == Op::RANGE) return Unsupported("a loop's counter outside the loop");
    std::vector<std::pair<What, UOp*>> steps;
    if (!Closed(uop).empty()) {
      for (UOp* loop : Closed(uop)) {
        if (loop->op() != Op::RANGE) return Unsupported("an END of no RANGE");
      }
      // What does not depend on the loops comes before them.
      for (UOp* before : Toposort(uop->src(0))) {
        if (before->dtype() == DType::kVoid && !IsEffect(before)) continue;
        const bool inside = std::any_of(Closed(uop).begin(), Closed(uop).end(),
                                        [&](UOp* loop) { return loops_[before].contains(loop); });
        const bool here = std::all_of(loops_[before].begin(), loops_[before].end(),
                                      [&](const UOp* loop) { return scopes_.Find(loop).has_value(); });
        if (!inside && here) steps.push_back({kVisit, before});
      }
      steps.push_back({kStart, uop});
      for (UOp* loop : Closed(uop)) {
        steps.push_back({kVisit, loop->src(0)});
        steps.push_back({kOpen, loop});
      }
      steps.push_back({kVisit, uop->src(0)});
      steps.push_back({kReduce, uop});
      steps.push_back({kClose, uop});
    } else {
      for (size_t i = uop->src().size(); i-- > 0;) steps.push_back({kVisit, uop->src(i)});
      // Of an AFTER, what it waits for first.
      if (uop->op() != Op::AFTER) std::reverse(steps.begin(), steps.end());
      std::erase_if(steps, [](const auto& step) { return step.second->op() == Op::RANGE; });
      steps.push_back({kList, uop});
    }
    PushAll(steps);
    return absl::OkStatus();
  }

  void Append(UOp* original, UOp* made) {
    if (original != nullptr) {
      made_[original] = made;
      scopes_.List(original, static_cast<uint32_t>(list_.size()));
    }
    if (!NeedsNoListing(made) || made->op() == Op::PARAM || made->op() == Op::BUFFER) list_.push_back(made);
  }

  absl::StatusOr<UOp*> Made(UOp* source) const {
    const auto found = made_.find(source);
    if (found == made_.end()) return Unsupported("a loop's counter outside the loop");
    return found->second;
  }

  // A source as the list has it; memory that is wanted as a value is loaded.
  absl::StatusOr<UOp*> ValueOf(UOp* source) {
    if (source->op() == Op::WHERE && source->src(2)->IsInvalid()) return Unsupported("Invalid outside an INDEX");
    KILN_ASSIGN_OR_RETURN(UOp * made, Made(source));
    if (!IsMemory(made) || IsBareStorage(made)) return made;
    std::vector<UOp*> parts = {made};
    if (UOp* gate = gates_[source]; gate != nullptr)
      parts.insert(parts.end(), {ConstNumber(graph_, made->dtype(), 0), gate});
    KILN_ASSIGN_OR_RETURN(UOp * load, graph_.TryMake(Op::LOAD, parts));
    list_.push_back(load);
    return load;
  }

  // The gate of an INDEX with WHERE(gate, index, Invalid) in it, and the index.
  absl::StatusOr<UOp*> Ungated(UOp* index, UOp*& gate) {
    if (index->op() != Op::WHERE || !index->src(2)->IsInvalid()) return ValueOf(index);
    KILN_ASSIGN_OR_RETURN(UOp * holds, ValueOf(index->src(0)));
    if (gate != nullptr) {
      holds = graph_.Make(Op::AND, {gate, holds});
      list_.push_back(holds);
    }
    gate = holds;
    return ValueOf(index->src(1));
  }

  absl::Status List(UOp* uop) {
    if (uop->op() == Op::WHERE && uop->src(2)->IsInvalid()) {
      // Only an INDEX looks at it, and then at its parts.
      scopes_.List(uop, static_cast<uint32_t>(list_.size()));
      return absl::OkStatus();
    }
    const bool points = (uop->op() == Op::INDEX || uop->op() == Op::SHRINK || uop->op() == Op::AFTER) && IsMemory(uop);
    const bool accesses = uop->op() == Op::LOAD || uop->op() == Op::STORE || uop->op() == Op::ATOMICADD;
    UOp* gate = points ? gates_[uop->src(0)] : nullptr;
    std::vector<UOp*> src;
    for (size_t i = 0; i < uop->src().size(); ++i) {
      UOp* source = uop->src(i);
      if (source->op() == Op::GROUP || source->op() == Op::SINK) {
        src.push_back(graph_.Make(Op::GROUP, {}));
      } else if (i >= ValueSources(uop) || ((points || accesses) && i == 0) || NeedsNoListing(source)) {
        KILN_ASSIGN_OR_RETURN(UOp * same, Made(source));
        src.push_back(same);
      } else if (points && uop->op() == Op::INDEX) {
        KILN_ASSIGN_OR_RETURN(UOp * index, Ungated(source, gate));
        src.push_back(index);
      } else {
        KILN_ASSIGN_OR_RETURN(UOp * value, ValueOf(source));
        src.push_back(value);
      }
    }
    if (points && gate != nullptr) gates_[uop] = gate;
    if (UOp* masked = accesses ? gates_[uop->src(0)] : nullptr; masked != nullptr) {
      if (uop->op() == Op::ATOMICADD) return Unsupported("a gated ATOMICADD");
      if (uop->op() == Op::LOAD && src.size() == 1) src.push_back(ConstNumber(graph_, uop->dtype(), 0));
      if (src.size() > 2) {
        masked = graph_.Make(Op::AND, {src[2], masked});
        list_.push_back(masked);
        src.pop_back();
      }
      src.push_back(masked);
    }
    KILN_ASSIGN_OR_RETURN(UOp * made, graph_.TryMake(uop->op(), src, uop->arg()));
    Append(uop, made);
    return absl::OkStatus();
  }

  // -- Loops
  absl::Status Start(UOp* uop) {
    if (uop->op() == Op::REDUCE) {
      BufferArg arg;
      arg.slot = next_slot_++;
      arg.dtype = IsNarrowFloat(uop->dtype()) ? DType::kFloat32 : uop->dtype();
      arg.addrspace = AddrSpace::kReg;
      UOp* place = graph_.Make(Op::INDEX, {graph_.Make(Op::BUFFER, {ShapeSource(graph_, {1})}, arg), Idx(graph_, 0)});
      accumulators_[uop] = place;
      list_.push_back(place);
      list_.push_back(graph_.Make(Op::STORE, {place, Identity(graph_, uop->arg_as<ReduceArg>().op, place->dtype())}));
    }
    return absl::OkStatus();
  }

  absl::Status Open(UOp* loop) {
    KILN_ASSIGN_OR_RETURN(UOp * bound, ValueOf(loop->src(0)));
    UOp* made = graph_.Make(Op::RANGE, {bound}, loop->arg());
    scopes_.Open(made);
    Append(loop, made);
    return absl::OkStatus();
  }

  absl::Status Reduce(UOp* uop) {
    if (uop->op() != Op::REDUCE) return absl::OkStatus();
    KILN_ASSIGN_OR_RETURN(UOp * value, ValueOf(uop->src(0)));
    if (!value->shape().empty()) return Unsupported("a REDUCE of lanes");
    UOp* place = accumulators_.at(uop);
    UOp* wide = Cast(graph_, value, place->dtype());
    UOp* before = graph_.Make(Op::LOAD, {place});
    UOp* after = graph_.Make(uop->arg_as<ReduceArg>().op, {before, wide});
    for (UOp* step : {wide, before, after, graph_.Make(Op::STORE, {place, after})}) {
      if (step != value) list_.push_back(step);
    }
    return absl::OkStatus();
  }

  absl::Status Close(UOp* uop) {
    std::vector<UOp*> src = {graph_.Make(Op::GROUP, {})};
    for (UOp* loop : Closed(uop)) {
      KILN_ASSIGN_OR_RETURN(UOp * same, Made(loop));
      src.push_back(same);
      scopes_.Close();
    }
    UOp* end = graph_.Make(Op::END, src);
    if (uop->op() == Op::END) {
      Append(uop, end);
      return absl::OkStatus();
    }
    list_.push_back(end);
    UOp* sum = graph_.Make(Op::LOAD, {accumulators_.at(uop)});
    if (sum->dtype() == uop->dtype()) {
      Append(uop, sum);
    } else {
      list_.push_back(sum);
      Append(uop, graph_.Make(Op::CAST, {sum}, uop->dtype()));
    }
    return absl::OkStatus();
  }

  Graph& graph_;
  std::vector<UOp*> order_;
  absl::flat_hash_map<const UOp*, Loops> loops_;  // that a node stands in
  std::vector<std::pair<What, UOp*>> todo_;
  ProgramScopes scopes_;  // of nodes as they came
  absl::flat_hash_map<UOp*, UOp*> made_;
  absl::flat_hash_map<UOp*, UOp*> gates_;
  absl::flat_hash_map<UOp*, UOp*> accumulators_;
  std::vector<UOp*> list_;
  uint32_t next_slot_ = 1u << 23;
};

}  // namespace

absl::StatusOr<UOp*> ListKernelPlainly(Graph& graph, UOp* sink) { return Lister(graph).Run(sink); }

}  // namespace kiln::compiler
