#include "compiler/program/list_rewrite.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/error.h"

namespace kiln::compiler {
namespace {

bool HasEffect(const UOp* uop) { return uop->op() == Op::STORE || uop->op() == Op::ATOMICADD; }

// Needs no place in a list.
bool IsLeaf(const UOp* uop) {
  return uop->op() == Op::CONST || uop->op() == Op::PARAM || uop->op() == Op::BUFFER || IsWeak(uop->dtype());
}

// The sources that must have a place before `uop`; the others only stood before
// what it was made from.
absl::Span<UOp* const> Needs(const UOp* uop) {
  switch (uop->op()) {
    case Op::AFTER:
    case Op::IF: return uop->src().first(1);
    case Op::END:
    case Op::ENDIF:
    case Op::BARRIER:
    case Op::SINK: return {};
    default: return uop->src();
  }
}

class ListRewriter {
 public:
  ListRewriter(Graph& graph, const NodeRule& rule) : graph_(graph), rule_(rule) { scopes_.emplace_back(); }

  absl::StatusOr<UOp*> Run(UOp* linear) {
    for (UOp* uop : linear->src()) ++listings_[uop];
    for (UOp* uop : linear->src()) KILN_RETURN_IF_ERROR(Rewrite(uop));
    return graph_.Make(Op::LINEAR, list_, linear->arg());
  }

 private:
  absl::Status Rewrite(UOp* uop) {
    KILN_ASSIGN_OR_RETURN(UOp * made, Replacement(uop));
    if (IsLeaf(made)) {
      list_.push_back(made);
      return absl::OkStatus();
    }
    if (uop->op() == Op::ENDIF) Close();
    if (uop->op() == Op::END) {
      for (size_t k = 1; k < uop->src().size(); ++k) Close();
    }
    List(made, uop);
    if (uop->op() == Op::RANGE || uop->op() == Op::IF) scopes_.emplace_back();
    return absl::OkStatus();
  }

  absl::StatusOr<UOp*> Replacement(UOp* uop) {
    if (auto known = done_.find(uop); known != done_.end()) return known->second;
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) {
      if (IsLeaf(source) && !done_.contains(source)) {
        KILN_ASSIGN_OR_RETURN(done_[source], rule_(source));
      }
      auto known = done_.find(source);
      src.push_back(known == done_.end() ? source : known->second);
    }
    absl::StatusOr<UOp*> made = rule_(graph_.Make(uop->op(), src, uop->arg()));
    if (!made.ok()) return graph_.Locate(made.status(), uop);
    return done_[uop] = *made;
  }

  // Puts what `made` needs and has no place yet into the list, then `made`.
  void List(UOp* made, UOp* origin) {
    UOp* again = listings_[origin] > 1 ? origin : nullptr;
    const bool value = IsElementwise(made->op()) || made->op() == Op::BITCAST || made->op() == Op::STACK;
    if (value && HasPlace(made, again)) return;
    // One store that became several: each is to run, even if the same one has run before.
    const bool expanded = made->op() == Op::GROUP && HasEffect(origin);
    absl::flat_hash_set<UOp*> seen;
    std::vector<std::pair<UOp*, size_t>> stack = {{made, 0}};
    while (!stack.empty()) {
      auto& [uop, next] = stack.back();
      if (next < Needs(uop).size()) {
        UOp* source = Needs(uop)[next++];
        const bool forced = expanded && uop == made && HasEffect(source);
        if (!IsLeaf(source) && (forced || !HasPlace(source, again)) && seen.insert(source).second)
          stack.emplace_back(source, 0);
        continue;
      }
      UOp* done = uop;
      stack.pop_back();
      list_.push_back(done);
      made_for_.emplace(done, origin);
      if (places_.insert(done).second) scopes_.back().push_back(done);
    }
  }

  // Whether an open scope has `uop`, other than by an earlier listing of `origin`.
  bool HasPlace(UOp* uop, UOp* origin) const {
    if (!places_.contains(uop)) return false;
    auto made_for = made_for_.find(uop);
    return origin == nullptr || made_for == made_for_.end() || made_for->second != origin;
  }

  void Close() {
    for (UOp* uop : scopes_.back()) places_.erase(uop);
    if (scopes_.size() > 1) scopes_.pop_back();
  }

  Graph& graph_;
  const NodeRule& rule_;
  absl::flat_hash_map<UOp*, int> listings_;
  absl::flat_hash_map<UOp*, UOp*> done_;
  absl::flat_hash_map<UOp*, UOp*> made_for_;  // the node whose replacement brought it first
  absl::flat_hash_set<UOp*> places_;
  std::vector<std::vector<UOp*>> scopes_;  // what each open scope has listed
  std::vector<UOp*> list_;
};

}  // namespace

absl::StatusOr<UOp*> RewriteList(Graph& graph, UOp* linear, const NodeRule& rule) {
  return ListRewriter(graph, rule).Run(linear);
}

UOp* PointedStorage(UOp* pointer) {
  while (pointer->op() == Op::AFTER || pointer->op() == Op::INDEX || pointer->op() == Op::SHRINK)
    pointer = pointer->src(0);
  const bool storage = pointer->op() == Op::PARAM || pointer->op() == Op::BUFFER;
  return storage && pointer->addrspace() != AddrSpace::kAlu ? pointer : nullptr;
}

}  // namespace kiln::compiler
