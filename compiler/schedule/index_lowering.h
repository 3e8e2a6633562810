// Turns a value and indices into one scalar expression: movement ops become
// index arithmetic, pads become gates, REDUCEs loop over RANGEs.
#ifndef KILN_COMPILER_SCHEDULE_INDEX_LOWERING_H_
#define KILN_COMPILER_SCHEDULE_INDEX_LOWERING_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/graph.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/schedule/layouts.h"
#include "compiler/schedule/store_order.h"

namespace kiln::compiler {

using Indices = absl::InlinedVector<UOp*, 6>;

// A read of caller-visible storage, as it is once its first `state` STOREs have
// happened (store_order.h).
struct StateRead {
  UOp* storage;
  size_t state;
  bool operator==(const StateRead&) const = default;
};

// One kernel's lowering. Beyond it, no movement op is left and every node has
// the shape ().
class IndexLowering {
 public:
  // `homes`: each realised value and the storage that holds it, as `layouts` says; reads of these
  // become loads. `root` itself is computed, even if it has a home. All
  // arguments must outlive the object.
  IndexLowering(Graph& graph, Rewriter& simplify, const StoreOrder& stores,
                const absl::flat_hash_map<UOp*, UOp*>& homes, const Layouts& layouts, UOp* root)
      : graph_(graph), simplify_(simplify), stores_(stores), homes_(homes), layouts_(layouts), root_(root) {}

  // `value`, of which nothing may be Invalid, at `indices` (one a dimension).
  UOp* Lower(UOp* value, const Indices& indices);

  // The flat position in its storage that a movement chain `target` names at
  // `indices`, and whether there is one (null for always).
  struct Place {
    UOp* flat = nullptr;
    UOp* inside = nullptr;
  };
  Place LowerTarget(UOp* target, const Indices& indices);

  // What was loaded: homes, and states of the caller's storage.
  const absl::flat_hash_set<UOp*>& homes_read() const { return homes_read_; }
  const std::vector<StateRead>& reads() const { return reads_; }

  // The row-major position of `indices` in a tensor of `shape`.
  UOp* Flatten(const Shape& shape, const Indices& indices);

 private:
  struct Request {
    UOp* uop;
    Indices indices;
    UOp* gate;         // null: always needed
    size_t state = 0;  // of the storage, if `uop` is a movement chain over it
    bool operator==(const Request&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Request& r) {
      return H::combine(std::move(h), r.uop, r.indices, r.gate, r.state);
    }
  };
  struct Frame {
    Request request;
    std::vector<UOp*> got;
    std::vector<UOp*> ranges;  // REDUCE: the loops made for it
  };

  // The next source the frame needs, or its result.
  bool NextRequest(Frame& frame, Request& next);
  UOp* Finish(Frame& frame);

  bool NextMovement(Frame& frame, Request& next);
  bool NextIndex(Frame& frame, Request& next);
  bool NextStack(Frame& frame, Request& next);
  bool NextBitcast(Frame& frame, Request& next);
  bool NextReduce(Frame& frame, Request& next);
  bool NextElementwise(Frame& frame, Request& next);

  UOp* FinishPad(Frame& frame);
  UOp* FinishIndex(Frame& frame);
  UOp* FinishStack(Frame& frame);
  UOp* FinishBitcast(Frame& frame);
  UOp* FinishReduce(Frame& frame);
  UOp* FinishElementwise(Frame& frame);

  // Where the request's value is already, or null.
  UOp* HomeOf(const Request& request) const;
  UOp* LoadFrom(UOp* storage, const Shape& shape, const Indices& indices, UOp* gate);

  // -- Index arithmetic, simplified as it is made.
  UOp* S(UOp* uop) { return simplify_.Rewrite(uop); }
  UOp* Plus(UOp* a, const Dim& b);
  UOp* Minus(UOp* a, const Dim& b);
  UOp* Times(UOp* a, const Dim& b);
  UOp* InRange(UOp* index, const Dim& size);  // null: always
  bool IsBelow(UOp* index, const Dim& size);  // proved
  UOp* Both(UOp* a, UOp* b);                  // of gates, where null is true

  // Indices of a RESHAPE's source.
  Indices Unreshape(const Shape& from, const Shape& to, const Indices& indices);
  Indices UnreshapeSymbolic(const Shape& from, const Shape& to, const Indices& indices);
  // Where a PAD's source lies, and in `inside` whether the indices are in it.
  Indices Unpad(const UOp* pad, const Indices& indices, UOp*& inside);

  Graph& graph_;
  Rewriter& simplify_;
  const StoreOrder& stores_;
  const absl::flat_hash_map<UOp*, UOp*>& homes_;
  const Layouts& layouts_;
  UOp* root_;
  absl::flat_hash_map<Request, UOp*> done_;
  absl::flat_hash_set<UOp*> homes_read_;
  std::vector<StateRead> reads_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_INDEX_LOWERING_H_
