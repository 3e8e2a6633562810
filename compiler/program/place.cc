#include "compiler/program/place.h"

#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln::compiler {
namespace {

// A loop, an IF, or the program itself.
struct Scope {
  Scope* parent = nullptr;
  size_t depth = 0;
  bool loop = true;
  bool open = true;
  struct Item {
    UOp* instruction;        // or null:
    Scope* inner = nullptr;  // what stands in a scope
    bool pure = false;       // arithmetic, which is the same wherever it is done
  };
  std::vector<Item> items;
};

class Placer {
 public:
  absl::StatusOr<std::vector<UOp*>> Run(absl::Span<UOp* const> instructions) {
    here_ = &scopes_.emplace_back();
    for (UOp* uop : instructions) {
      Take(uop);
      if (listed_ > kMaxInstructions) return TooLong();
    }
    KILN_CHECK(here_ == &scopes_.front());
    return Flatten();
  }

 private:
  static absl::Status TooLong() {
    return TooLarge("instructions of a kernel", kMaxInstructions, kMaxInstructions + 1,
                    absl::StrCat("a kernel has more than ", kMaxInstructions, " instructions"));
  }

  void List(UOp* uop, Scope* scope, bool pure = false) {
    scope->items.push_back({uop, nullptr, pure});
    placed_[uop] = scope;
    ++listed_;
  }

  bool IsPlaced(UOp* uop) const {
    const auto known = placed_.find(uop);
    return known != placed_.end() && known->second->open;
  }

  void Take(UOp* uop) {
    if (uop->op() == Op::END || uop->op() == Op::ENDIF) {
      here_->items.push_back({uop});
      Scope* closed = here_;
      closed->open = false;
      here_ = here_->parent;
      here_->items.push_back({nullptr, closed});
      return;
    }
    if (uop->op() == Op::BUFFER) return List(uop, here_);
    // What happens at this place: a read, and what the items of a warp do together.
    UOp* done = uop->op() == Op::AFTER && (uop->src(0)->op() == Op::LOAD || uop->src(0)->op() == Op::WMMA) ? uop->src(0)
                                                                                                           : nullptr;
    if (uop->op() == Op::AFTER && done == nullptr) {
      Place(uop->src(0));
    } else {
      for (UOp* source : (done != nullptr ? done : uop)->src()) Place(source);
    }
    if (done != nullptr) List(done, here_);
    if (uop->op() == Op::RANGE || uop->op() == Op::IF) {
      Scope& inner = scopes_.emplace_back();
      inner.parent = here_;
      inner.depth = here_->depth + 1;
      inner.loop = uop->op() == Op::RANGE;
      here_ = &inner;
    }
    List(uop, here_);
  }

  // Lists what `root` needs and is not listed yet.
  void Place(UOp* root) {
    std::vector<UOp*> stack = {root};
    while (!stack.empty()) {
      UOp* top = stack.back();
      if (IsPlaced(top)) {
        stack.pop_back();
        continue;
      }
      if (top->op() == Op::PARAM || top->op() == Op::CONST) {
        List(top, &scopes_.front(), true);
        continue;
      }
      bool ready = true;
      Scope* home = &scopes_.front();
      for (UOp* source : top->src()) {
        if (!IsPlaced(source)) {
          stack.push_back(source);
          ready = false;
        } else if (placed_[source]->depth > home->depth) {
          home = placed_[source];
        }
      }
      if (!ready) continue;
      stack.pop_back();
      List(top, FarthestOut(home), true);
    }
  }

  // From here outwards to `home`, but not out of an IF.
  Scope* FarthestOut(Scope* home) const {
    Scope* best = here_;
    while (best != home && best->loop) best = best->parent;
    return best;
  }

  // What was needed in an IF first, and farther out later, stands there twice: once
  // is enough.
  std::vector<UOp*> Flatten() const {
    struct Place {
      const Scope* scope;
      size_t next = 0;
      std::vector<UOp*> listed;
    };
    std::vector<UOp*> list;
    absl::flat_hash_set<UOp*> known;
    std::vector<Place> stack = {{&scopes_.front()}};
    while (!stack.empty()) {
      Place& here = stack.back();
      if (here.next == here.scope->items.size()) {
        for (UOp* uop : here.listed) known.erase(uop);
        stack.pop_back();
        continue;
      }
      const Scope::Item& item = here.scope->items[here.next++];
      if (item.inner != nullptr) {
        stack.push_back({item.inner});
        continue;
      }
      if (item.pure && !known.insert(item.instruction).second) continue;
      if (item.pure) here.listed.push_back(item.instruction);
      list.push_back(item.instruction);
    }
    return list;
  }

  std::deque<Scope> scopes_;
  Scope* here_ = nullptr;
  absl::flat_hash_map<UOp*, Scope*> placed_;
  size_t listed_ = 0;
};

}  // namespace

absl::StatusOr<UOp*> PlaceValues(Graph& graph, UOp* linear) {
  KILN_ASSIGN_OR_RETURN(const std::vector<UOp*> list, Placer().Run(linear->src()));
  return graph.Make(Op::LINEAR, list, linear->arg());
}

}  // namespace kiln::compiler
