#include "compiler/schedule/store_order.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <set>

#include "compiler/schedule/callify.h"
#include "compiler/schedule/opaque_calls.h"

namespace kiln::compiler {
namespace {

// A set of STOREs, by their number in the walk.
using StoreBits = std::vector<uint64_t>;

void Set(StoreBits& bits, size_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }

// The greatest number that is in both; none if there is none.
std::optional<size_t> LastOf(const StoreBits& a, const StoreBits& b) {
  for (size_t word = a.size(); word > 0; --word) {
    const uint64_t both = a[word - 1] & b[word - 1];
    if (both != 0) return 64 * word - 1 - static_cast<size_t>(std::countl_zero(both));
  }
  return std::nullopt;
}

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
  // Those to one storage, once an AFTER shows it: many may, of many STOREs, so none looks at them one by one.
  absl::flat_hash_map<const UOp*, StoreBits> to;
  for (UOp* uop : order) {
    if (uop->op() == Op::AFTER && StorageOf(uop->src(0)) != nullptr) {
      const UOp* const storage = StorageOf(uop);
      const std::vector<UOp*>& stores = StoresTo(storage);
      StoreBits deps = *none;
      const StoreBits* last = none;  // deps that stand side by side often reach the same
      for (UOp* dep : uop->src().subspan(1)) {
        if (reached[dep] == last) continue;
        last = reached[dep];
        for (size_t i = 0; i < deps.size(); ++i) deps[i] |= (*last)[i];
      }
      const auto [found, first] = to.try_emplace(storage, *none);
      if (first) {
        for (const UOp* store : stores) Set(found->second, number[store]);
      }
      size_t state = 0;
      if (const std::optional<size_t> seen = LastOf(deps, found->second); seen.has_value()) {
        const auto end = std::partition_point(stores.begin(), stores.end(),
                                              [&](const UOp* store) { return number[store] <= *seen; });
        state = static_cast<size_t>(end - stores.begin());
      }
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
      Set(with_self, number[uop]);
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
