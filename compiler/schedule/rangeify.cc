#include "compiler/schedule/rangeify.h"

#include <algorithm>
#include <optional>
#include <queue>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/rules/symbolic.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/kernel_graph.h"

namespace kiln::compiler {
namespace {

// All kernels of a function under one choice of realised values.
class KernelSplit {
 public:
  KernelSplit(Graph& graph, UOp* sink, const StoreOrder& stores, const KernelBodies& bodies,
              absl::flat_hash_set<UOp*> realized, const Layouts& layouts)
      : graph_(graph),
        stores_(stores),
        bodies_(bodies),
        simplify_(SymbolicRules(), graph),
        order_(Toposort(sink)),
        realized_(std::move(realized)),
        layouts_(layouts) {}

  // The calls in order, or nothing if no order lets every read see its state.
  std::optional<std::vector<UOp*>> Run() {
    Drafts();
    return ReadsTwoStates() ? std::nullopt : Order();
  }

  const std::vector<KernelDraft>& drafts() const { return drafts_; }
  const std::vector<KernelDraft>& Drafts() {
    ChooseHomes();
    Draft();
    return drafts_;
  }

 private:
  bool IsResult(const UOp* storage) const { return storage->op() == Op::BUFFER; }

  // A value that is stored as it is lives where it is stored: in a result, or in
  // a parameter that nothing else is stored to. Others get a buffer of their own.
  void ChooseHomes() {
    for (UOp* uop : order_) {
      if (uop->op() != Op::STORE || !realized_.contains(uop->src(1))) continue;
      if (layouts_.contains(uop->src(1))) continue;  // a caller's storage lies as its shape says
      if (!IsResult(uop->src(0)) && !IsOnlyPlainStore(uop)) continue;
      if (homes_.emplace(uop->src(1), uop->src(0)).second) store_of_home_[uop->src(1)] = uop;
    }
    for (UOp* uop : order_) {
      if (!realized_.contains(uop) || homes_.contains(uop)) continue;
      homes_.emplace(uop, NewBuffer(uop));
    }
  }

  // To all of a parameter, at once, with no element left out.
  bool IsOnlyPlainStore(const UOp* store) const {
    const UOp* target = store->src(0);
    const bool plain =
        target->op() == Op::PARAM && target->shape() == store->src(1)->shape() && store->src().size() == 2;
    return plain && stores_.StoresTo(target).size() == 1;
  }

  UOp* NewBuffer(const UOp* value) {
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(graph_.NextId());
    arg.dtype = value->dtype();
    return graph_.Make(Op::BUFFER, {ShapeSource(graph_, value->shape())}, arg);
  }

  void Draft() {
    for (UOp* uop : order_) {
      if (homes_.contains(uop)) DraftHome(uop);
      if (uop->op() == Op::CALL) drafts_.push_back(DraftCall(graph_, stores_, homes_, uop, bodies_.at(uop->src(0))));
      if (uop->op() != Op::STORE) continue;
      const auto carried_out = store_of_home_.find(uop->src(1));
      if (carried_out != store_of_home_.end() && carried_out->second == uop) continue;
      KernelDraft draft = DraftStore(graph_, simplify_, stores_, homes_, layouts_, uop);
      if (draft.overlaps) {
        // The whole value (and gate) first, then the copy.
        for (UOp* source : ComputedSources(uop)) {
          if (!homes_.emplace(source, nullptr).second) continue;
          homes_[source] = NewBuffer(source);
          DraftHome(source);
        }
        draft = DraftStore(graph_, simplify_, stores_, homes_, layouts_, uop);
      }
      drafts_.push_back(std::move(draft));
    }
  }

  // What a STORE computes: its value, its gate, and the indices of its target.
  static std::vector<UOp*> ComputedSources(UOp* store) {
    std::vector<UOp*> sources(store->src().begin() + 1, store->src().end());
    const UOp* storage = StorageOf(store->src(0));
    for (UOp* target = store->src(0); target != storage; target = target->src(0)) {
      if (target->op() == Op::INDEX) sources.insert(sources.end(), target->src().begin() + 1, target->src().end());
    }
    return sources;
  }

  void DraftHome(UOp* value) {
    KernelDraft draft = DraftValue(graph_, simplify_, stores_, homes_, layouts_, value, homes_[value]);
    if (draft.overlaps) {
      // Its parameter cannot be its home after all; the STORE becomes a copy.
      store_of_home_.erase(value);
      homes_[value] = NewBuffer(value);
      draft = DraftValue(graph_, simplify_, stores_, homes_, layouts_, value, homes_[value]);
    }
    if (auto store = store_of_home_.find(value); store != store_of_home_.end()) draft.store = store->second;
    of_value_[value] = drafts_.size();
    drafts_.push_back(std::move(draft));
  }

  // Whether a kernel would have to run both before and after a STORE.
  bool ReadsTwoStates() const {
    for (const KernelDraft& draft : drafts_) {
      for (size_t i = 0; i < draft.reads.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          const UOp* storage = draft.reads[i].storage;
          if (storage == draft.reads[j].storage && stores_.all().contains(storage)) return true;
        }
      }
    }
    return false;
  }

  std::optional<std::vector<UOp*>> Order() {
    const size_t n = drafts_.size();
    absl::flat_hash_map<UOp*, size_t> of_store;
    for (size_t i = 0; i < n; ++i) {
      if (drafts_[i].store != nullptr) of_store[drafts_[i].store] = i;
    }
    std::vector<std::vector<size_t>> after(n);  // who must wait for kernel i
    std::vector<size_t> waits_for(n, 0);
    auto edge = [&](size_t first, size_t second) {
      if (first == second) return;
      after[first].push_back(second);
      ++waits_for[second];
    };
    for (size_t i = 0; i < n; ++i) {
      for (UOp* value : drafts_[i].homes_read) edge(of_value_.at(value), i);
      // After the STORE that makes the state it reads, before the next one.
      for (const auto& [storage, state] : drafts_[i].reads) {
        const std::vector<UOp*>& stores = stores_.StoresTo(storage);
        if (state > 0) edge(of_store.at(stores[state - 1]), i);
        if (state < stores.size()) edge(i, of_store.at(stores[state]));
      }
    }
    for (const auto& [storage, stores] : stores_.all()) {
      for (size_t k = 1; k < stores.size(); ++k) edge(of_store.at(stores[k - 1]), of_store.at(stores[k]));
    }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < n; ++i) {
      if (waits_for[i] == 0) ready.push(i);
    }
    std::vector<UOp*> calls;
    size_t done = 0;
    while (!ready.empty()) {
      const size_t i = ready.top();
      ready.pop();
      ++done;
      if (drafts_[i].call != nullptr) calls.push_back(drafts_[i].call);
      if (drafts_[i].sink != nullptr) calls.push_back(MakeCall(graph_, drafts_[i]));
      for (size_t next : after[i]) {
        if (--waits_for[next] == 0) ready.push(next);
      }
    }
    if (done < n) return std::nullopt;
    return calls;
  }

  Graph& graph_;
  const StoreOrder& stores_;
  const KernelBodies& bodies_;
  Rewriter simplify_;
  const std::vector<UOp*> order_;
  const absl::flat_hash_set<UOp*> realized_;
  const Layouts& layouts_;
  absl::flat_hash_map<UOp*, UOp*> homes_;
  absl::flat_hash_map<UOp*, UOp*> store_of_home_;  // the STORE that a value's own kernel carries out
  absl::flat_hash_map<UOp*, size_t> of_value_;     // the draft that fills a value's home
  std::vector<KernelDraft> drafts_;
};

// Every state of every storage that is written: with a copy of each, reads no
// longer constrain the order.
absl::flat_hash_set<UOp*> StatesOfWrittenStorage(UOp* sink, const StoreOrder& stores) {
  absl::flat_hash_set<UOp*> states;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::AFTER && uop->op() != Op::PARAM) continue;
    UOp* storage = StorageOf(uop);
    if (storage != nullptr && stores.all().contains(storage)) states.insert(uop);
  }
  return states;
}

}  // namespace

Layouts LayoutsFor(Graph& graph, UOp* sink, const KernelBodies& bodies, absl::flat_hash_set<UOp*>& realized) {
  if (std::none_of(realized.begin(), realized.end(), MayHaveLayout) || !HasProducts(sink)) return {};
  const StoreOrder stores(sink);
  const Layouts by_shape;
  KernelSplit split(graph, sink, stores, bodies, realized, by_shape);
  const absl::flat_hash_set<const UOp*> padded = PaddedFactors(split.Drafts());
  bool more = false;
  for (UOp* pad : PadsOfFactors(sink)) {
    if (padded.contains(pad->src(0)) && MayHaveLayout(pad) && IsLittlePadding(pad)) more |= realized.insert(pad).second;
  }
  if (!more) return ChooseLayouts(split.drafts());
  return ChooseLayouts(KernelSplit(graph, sink, stores, bodies, realized, by_shape).Drafts());
}

absl::StatusOr<UOp*> Rangeify(Graph& graph, UOp* sink, const KernelBodies& bodies, absl::flat_hash_set<UOp*> realized,
                              const Layouts& layouts) {
  const StoreOrder stores(sink);
  std::optional<std::vector<UOp*>> calls = KernelSplit(graph, sink, stores, bodies, realized, layouts).Run();
  if (!calls.has_value()) {
    const absl::flat_hash_set<UOp*> states = StatesOfWrittenStorage(sink, stores);
    realized.insert(states.begin(), states.end());
    calls = KernelSplit(graph, sink, stores, bodies, std::move(realized), layouts).Run();
    if (!calls.has_value()) {
      return MakeError(v1::UNSUPPORTED_OP,
                       "an AFTER reads a state of its storage at indices that are known only in a later state");
    }
  }
  return graph.Make(Op::LINEAR, *calls);
}

}  // namespace kiln::compiler
