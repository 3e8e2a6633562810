#include "compiler/program/program_bounds.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/program/program_tree.h"
#include "compiler/rules/facts.h"

namespace kiln::compiler {
namespace {

// More conditions than this around one access are not looked at.
constexpr size_t kMaxFacts = 64;

class Prover {
 public:
  Prover(Graph& graph, bool strict) : graph_(graph), strict_(strict) {}

  absl::StatusOr<UOp*> Run(UOp* linear) {
    for (UOp* uop : linear->src()) KILN_RETURN_IF_ERROR(Take(uop));
    return graph_.Make(Op::LINEAR, list_, linear->arg());
  }

  uint32_t gates() const { return gates_; }

 private:
  struct Access {
    UOp* pointer;
    UOp* gate;  // null: always inside
  };

  absl::Status Take(UOp* uop) {
    switch (uop->op()) {
      case Op::IF: {
        UOp* opened = graph_.Make(Op::IF, {Updated(uop->src(0))});
        open_.push_back(opened);
        outer_facts_.push_back(facts_);
        Learn(opened->src(0), facts_);
        list_.push_back(opened);
        return absl::OkStatus();
      }
      case Op::RANGE: {
        UOp* loop = graph_.Make(Op::RANGE, {Updated(uop->src(0))}, uop->arg());
        done_[uop] = loop;
        open_.push_back(loop);
        list_.push_back(loop);
        return absl::OkStatus();
      }
      case Op::END:
      case Op::ENDIF:
        list_.push_back(Closing(graph_, open_.back()));
        open_.pop_back();
        if (uop->op() == Op::ENDIF) {
          facts_ = std::move(outer_facts_.back());
          outer_facts_.pop_back();
        }
        return absl::OkStatus();
      case Op::AFTER: return TakeRead(uop);
      case Op::STORE: return TakeStore(uop);
      case Op::ATOMICADD: return TakeAtomic(uop);
      case Op::BARRIER: list_.push_back(uop); return absl::OkStatus();
      case Op::CUSTOM: list_.push_back(Updated(uop)); return absl::OkStatus();
      default: return absl::OkStatus();  // a read that turned out to be a value
    }
  }

  absl::Status TakeRead(UOp* uop) {
    UOp* load = uop->src(0);
    if (load->op() == Op::WMMA) {
      done_[uop] = graph_.Make(Op::AFTER, {Updated(load), uop->src(1)});
      list_.push_back(done_[uop]);
      return absl::OkStatus();
    }
    if (load->op() != Op::LOAD) return absl::OkStatus();
    graph_.InheritOrigin(load, uop);
    UOp* gate = load->src().size() > 2 ? Updated(load->src(2)) : nullptr;
    KILN_ASSIGN_OR_RETURN(const Access access, Guard(load, gate));
    std::vector<UOp*> src = {access.pointer};
    if (access.gate != nullptr) {
      src.push_back(load->src().size() > 1 ? Updated(load->src(1)) : ConstNumber(graph_, load->dtype(), 0));
      src.push_back(access.gate);
    }
    UOp* made = graph_.Make(Op::AFTER, {graph_.Make(Op::LOAD, src), uop->src(1)});
    graph_.InheritOrigin(made, load);
    done_[uop] = made;
    list_.push_back(made);
    return absl::OkStatus();
  }

  absl::Status TakeStore(UOp* uop) {
    UOp* gate = uop->src().size() > 2 ? Updated(uop->src(2)) : nullptr;
    KILN_ASSIGN_OR_RETURN(const Access access, Guard(uop, gate));
    std::vector<UOp*> src = {access.pointer, Updated(uop->src(1))};
    if (access.gate != nullptr) src.push_back(access.gate);
    list_.push_back(graph_.Make(Op::STORE, src));
    graph_.InheritOrigin(list_.back(), uop);
    return absl::OkStatus();
  }

  absl::Status TakeAtomic(UOp* uop) {
    KILN_ASSIGN_OR_RETURN(const Access access, Guard(uop, nullptr));
    UOp* value = Updated(uop->src(1));
    if (access.gate == nullptr) {
      list_.push_back(graph_.Make(Op::ATOMICADD, {access.pointer, value}));
      return absl::OkStatus();
    }
    const Shape& shape = access.pointer->shape();
    for (int64_t lane = 0; lane < (shape.empty() ? 1 : int64_t{shape[0]}); ++lane) {
      auto element = [&](UOp* x) { return x->shape().empty() ? x : graph_.Make(Op::INDEX, {x, Idx(graph_, lane)}); };
      UOp* place = graph_.Make(Op::INDEX, {access.pointer->src(0), element(access.pointer->src(1))});
      UOp* open = graph_.Make(Op::IF, {element(access.gate)});
      list_.insert(list_.end(), {open, graph_.Make(Op::ATOMICADD, {place, element(value)}), Closing(graph_, open)});
    }
    return absl::OkStatus();
  }

  static void Learn(const UOp* gate, std::vector<Fact>& facts) {
    if (facts.size() >= kMaxFacts) return;
    const std::vector<Fact> more = FactsFrom(gate);
    facts.insert(facts.end(), more.begin(), more.end());
  }

  // The place that LOAD, STORE or ATOMICADD `uop` accesses if `gate` holds (null: in
  // any case), in one dimension.
  absl::StatusOr<Access> Guard(UOp* uop, UOp* gate) {
    UOp* pointer = uop->src(0);
    UOp* storage = pointer->src(0);
    std::vector<Fact> facts;
    bool learned = false;
    UOp* flat = Idx(graph_, 0);
    UOp* inside = nullptr;
    auto require = [&](UOp* condition) { inside = inside == nullptr ? condition : And(graph_, inside, condition); };
    for (size_t axis = 0; axis < storage->shape().size(); ++axis) {
      const int64_t size = storage->shape()[axis];
      UOp* index = Updated(pointer->src(axis + 1));
      Bounds bounds = index->bounds();
      if (bounds.min < 0 || bounds.max >= size) {
        if (!std::exchange(learned, true)) {
          facts = facts_;
          if (gate != nullptr) Learn(gate, facts);
        }
        bounds = NarrowedBounds(index, facts);
      }
      if (bounds.min < 0) require(Not(graph_, Lt(graph_, index, Idx(graph_, 0))));
      if (bounds.max >= size) require(Lt(graph_, index, Idx(graph_, size)));
      flat = axis == 0 ? index : Add(graph_, Mul(graph_, flat, Idx(graph_, size)), index);
    }
    if (inside != nullptr && strict_) {
      return graph_.Locate(
          MakeError(v1::OUT_OF_BOUNDS,
                    absl::StrCat(Name(uop->op()), " of storage of shape ", ToString(storage->shape()),
                                 ": an index cannot be proved in range, and `strict` forbids a guard")),
          uop);
    }
    if (inside != nullptr) ++gates_;
    if (inside != nullptr) gate = gate == nullptr ? inside : And(graph_, gate, inside);
    return Access{graph_.Make(Op::INDEX, {Flat(storage), flat}), gate};
  }

  UOp* Flat(UOp* storage) {
    return graph_.Make(storage->op(), {ShapeSource(graph_, {NumElements(storage->shape())})}, storage->arg());
  }

  // `uop` over the reads and loops as they are now.
  UOp* Updated(UOp* uop) {
    std::vector<UOp*> stack = {uop};
    while (!stack.empty()) {
      UOp* top = stack.back();
      if (done_.contains(top)) {
        stack.pop_back();
        continue;
      }
      // A read that is no LOAD any more is what it reads.
      const bool value = top->op() == Op::AFTER;
      bool ready = true;
      for (UOp* source : top->src().subspan(0, value ? 1 : top->src().size())) {
        if (done_.contains(source)) continue;
        stack.push_back(source);
        ready = false;
      }
      if (!ready) continue;
      std::vector<UOp*> src;
      for (UOp* source : top->src().subspan(0, value ? 1 : top->src().size())) src.push_back(done_[source]);
      done_[top] = value ? src[0] : graph_.Make(top->op(), src, top->arg());
      stack.pop_back();
    }
    return done_[uop];
  }

  Graph& graph_;
  const bool strict_;
  uint32_t gates_ = 0;
  std::vector<UOp*> list_;
  std::vector<UOp*> open_;                      // loops and IFs around
  std::vector<Fact> facts_;                     // what the IFs around say
  std::vector<std::vector<Fact>> outer_facts_;  // and what those around each IF say
  absl::flat_hash_map<UOp*, UOp*> done_;
};

}  // namespace

absl::StatusOr<UOp*> ProveProgramBounds(Graph& graph, UOp* linear, bool strict, uint32_t* gates) {
  Prover prover(graph, strict);
  absl::StatusOr<UOp*> proved = prover.Run(linear);
  if (gates != nullptr) *gates = prover.gates();
  return proved;
}

}  // namespace kiln::compiler
