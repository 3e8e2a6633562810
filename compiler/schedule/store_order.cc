#include "compiler/schedule/store_order.h"

#include <set>

#include "compiler/schedule/callify.h"
#include "compiler/schedule/opaque_calls.h"

namespace kiln::compiler {
namespace {

// A set of STOREs, by their number in the walk.
using StoreBits = std::vector<uint64_t>;

bool Has(const StoreBits& bits, size_t i) { return (bits[i / 64] >> (i % 64) & 1) != 0; }

bool Stores(const UOp* uop) { return uop->op() == Op::STORE || uop->op() == Op::CALL; }

}  // namespace

StoreOrder::StoreOrder(UOp* sink) {
  const std::vector<UOp*> order = Toposort(sink);
  absl::flat_hash_map<const UOp*, size_t> number;
  for (UOp* uop : order) {
    if (!Stores(uop)) continue;
    number.emplace(uop, number.size());
    if (uop->op() == Op::STORE) {
      stores_[StorageOf(uop->src(0))].push_back(uop);
    } else {
      for (UOp* storage : StorageWrittenBy(uop)) stores_[storage].push_back(uop);
    }
  }
  // Which STOREs each node reaches. Nodes share their sets: few differ.
  std::set<StoreBits> sets;
  const StoreBits* none = &*sets.insert(StoreBits((number.size() + 63) / 64, 0)).first;
  absl::flat_hash_map<const UOp*, const StoreBits*> reached;
  for (UOp* uop : order) {
    if (uop->op() == Op::AFTER && StorageOf(uop->src(0)) != nullptr) {
      const std::vector<UOp*>& stores = StoresTo(StorageOf(uop));
      StoreBits deps = *none;
      const StoreBits* last = none;  // deps that stand side by side often reach the same
      for (UOp* dep : uop->src().subspan(1)) {
        if (reached[dep] == last) continue;
        last = reached[dep];
        for (size_t i = 0; i < deps.size(); ++i) deps[i] |= (*last)[i];
      }
      size_t state = stores.size();
      while (state > 0 && !Has(deps, number[stores[state - 1]])) --state;
      state_of_[uop] = state;
    }
    const StoreBits* all = none;
    for (UOp* source : uop->src()) {
      const StoreBits* other = reached[source];
      if (other == all || other == none) continue;
      if (all == none) {
        all = other;
        continue;
      }
      StoreBits both = *all;
      for (size_t i = 0; i < both.size(); ++i) both[i] |= (*other)[i];
      all = &*sets.insert(std::move(both)).first;
    }
    if (Stores(uop)) {
      StoreBits with_self = *all;
      const size_t i = number[uop];
      with_self[i / 64] |= uint64_t{1} << (i % 64);
      all = &*sets.insert(std::move(with_self)).first;
    }
    reached[uop] = all;
  }
}

size_t StoreOrder::StateOf(const UOp* after) const {
  const auto found = state_of_.find(after);
  return found == state_of_.end() ? 0 : found->second;
}

const std::vector<UOp*>& StoreOrder::StoresTo(const UOp* storage) const {
  static const std::vector<UOp*>& none = *new std::vector<UOp*>();
  const auto found = stores_.find(storage);
  return found == stores_.end() ? none : found->second;
}

}  // namespace kiln::compiler
