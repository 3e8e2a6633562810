#include "compiler/schedule/realize.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/fused_cost.h"

namespace kiln::compiler {
namespace {

// One way in which a kernel reaches a value: through which movement ops, and
// how many times in all it evaluates it.
struct Access {
  uint64_t path;  // equal for accesses that use equal indices in one kernel
  double evaluations;
  bool inside_reduce;
};

// More accesses than this are not told apart: the value is realised if it costs
// anything. This bounds the work of lowering, too: without it, a chain of
// x[i] + x[i+1] doubles its accesses at every link.
constexpr size_t kMaxAccesses = 8;

double Size(const UOp* uop) { return static_cast<double>(MaxElements(uop->shape())); }

void Merge(std::vector<Access>& accesses, const Access& access) {
  for (Access& known : accesses) {
    if (known.path == access.path) return;
  }
  accesses.push_back(access);
}

// How `user`'s access becomes an access of its source number `slot`; a user that
// needs several elements of it has several copies.
// A REDUCE that collapses needs its source in one place only.
Access Through(const UOp* user, size_t slot, int copy, const Access& access, bool collapses) {
  const UOp* source = user->src(slot);
  Access result = access;
  const bool same_indices = (IsElementwise(user->op()) && source->shape() == user->shape()) ||
                            user->op() == Op::AFTER || user->op() == Op::GETTUPLE;
  if (!same_indices) result.path = absl::HashOf(access.path, user, slot, copy);
  if (user->op() == Op::REDUCE && !collapses) {
    result.evaluations *= std::max(1.0, Size(source) / std::max(1.0, Size(user)));
    result.inside_reduce = true;
  }
  return result;
}

}  // namespace

UOp* TakeMarks(Graph& graph, UOp* sink, absl::flat_hash_set<UOp*>& marked) {
  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    const bool mark = uop->op() == Op::AFTER && src.size() == 1;
    if (mark && StorageOf(src[0]) == nullptr) marked.insert(src[0]);
    done[uop] = mark ? src[0] : graph.Make(uop->op(), src, uop->arg());
  }
  return done[sink];
}

absl::flat_hash_set<UOp*> ChooseRealized(Graph& graph, UOp* sink, const StoreOrder& stores,
                                         const absl::flat_hash_set<UOp*>& marked) {
  const std::vector<UOp*> order = Toposort(sink);
  absl::flat_hash_set<UOp*> realized;
  for (UOp* uop : order) {
    if (marked.contains(uop) && (CanBeRealized(uop) || uop->op() == Op::REDUCE || Is(uop->op(), kMovement)))
      realized.insert(uop);
  }
  const Fusion fusion = AnalyseFusion(graph, order, stores, realized);
  realized = fusion.realized;
  absl::flat_hash_map<UOp*, int> users;
  absl::flat_hash_set<UOp*> stored_as_is;
  for (UOp* uop : order) {
    for (UOp* source : DataSources(uop)) ++users[source];
    if (uop->op() == Op::STORE && uop->src(0)->shape() == uop->src(1)->shape()) stored_as_is.insert(uop->src(1));
  }

  absl::flat_hash_map<UOp*, std::vector<Access>> accesses;
  for (size_t i = order.size(); i-- > 0;) {  // users before their sources
    UOp* uop = order[i];
    std::vector<Access>& mine = accesses[uop];
    if (uop->op() == Op::STORE) {
      mine = {{absl::HashOf(uop), Size(uop->src(0)), false}};
    } else if (uop->op() == Op::CALL) {
      // What a kernel reads is there whole (opaque_calls.h).
      for (size_t k = 1; k < uop->src().size(); ++k) {
        UOp* source = uop->src(k);
        if (source->op() == Op::LOAD) Merge(accesses[source], {absl::HashOf(uop, k), Size(source), false});
      }
    } else if (uop->dtype() != DType::kVoid && !mine.empty()) {
      double evaluations = 0;
      bool inside_reduce = false;
      for (const Access& access : mine) {
        evaluations += access.evaluations;
        inside_reduce |= access.inside_reduce;
      }
      const double size = Size(uop);
      bool realize = realized.contains(uop);
      if (uop->op() == Op::LOAD) {
        realize = true;
      } else if (uop->op() == Op::REDUCE && !fusion.collapsed.contains(uop)) {
        realize |= mine.size() > 1 || evaluations > size || inside_reduce;
      } else if (!realize && !fusion.pinned.contains(uop) && (CanBeRealized(uop) || uop->op() == Op::REDUCE)) {
        const double once = fusion.costs.at(uop).cost;
        const double recompute = evaluations * (once - 2 * kLoadCost);
        const double store = size * (once + kStoreCost + 2 * kLoadCost);
        realize = (evaluations > size && recompute > store) || (mine.size() > kMaxAccesses && once > kLoadCost) ||
                  // It is stored anyway: others may as well read it.
                  (stored_as_is.contains(uop) && mine.size() > 1 && once > kLoadCost);
      }
      // A LOAD that is only stored needs no buffer in between.
      if (uop->op() == Op::LOAD && users[uop] == 1 && stored_as_is.contains(uop)) realize = false;
      if (realize) {
        realized.insert(uop);
        mine = {{absl::HashOf(uop, 1), size, false}};
      }
    }
    if (mine.size() > kMaxAccesses) mine.resize(kMaxAccesses + 1);
    const absl::Span<UOp* const> sources = DataSources(uop);
    const std::vector<Access> passed_on = mine;
    for (size_t slot = 0; slot < sources.size(); ++slot) {
      if (uop->op() == Op::STORE && slot == 0) continue;  // the target is not read
      if (uop->op() == Op::AFTER && slot > 0) continue;   // order only
      for (const Access& access : passed_on) {
        for (int copy = 0; copy < Fanout(uop); ++copy)
          Merge(accesses[sources[slot]], Through(uop, slot, copy, access, fusion.collapsed.contains(uop)));
      }
    }
  }
  return realized;
}

}  // namespace kiln::compiler
