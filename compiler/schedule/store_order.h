// In which order a function's STOREs happen, and which of them a read sees.
//
// STOREs to one storage happen in the order of a walk from the root, sources
// first, so the order is the same however the nodes were numbered. A CALL of a
// kernel is a STORE to each storage that it writes. The storage is in state k once
// its first k STOREs have happened. A read sees state 0 unless it is behind AFTERs:
// then it sees the last STORE to its storage that their deps reach, and with it all
// that came before.
#ifndef KILN_COMPILER_SCHEDULE_STORE_ORDER_H_
#define KILN_COMPILER_SCHEDULE_STORE_ORDER_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

class StoreOrder {
 public:
  // Of the graph under `sink`, a Callify'd SINK.
  explicit StoreOrder(UOp* sink);

  // The state in which `after`, an AFTER over a movement chain, shows the
  // storage under it, as far as its own deps go.
  size_t StateOf(const UOp* after) const;

  // All STOREs to `storage`, in order.
  const std::vector<UOp*>& StoresTo(const UOp* storage) const;
  const absl::flat_hash_map<const UOp*, std::vector<UOp*>>& all() const { return stores_; }

 private:
  absl::flat_hash_map<const UOp*, std::vector<UOp*>> stores_;  // by storage
  absl::flat_hash_map<const UOp*, size_t> state_of_;           // by AFTER
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_STORE_ORDER_H_
