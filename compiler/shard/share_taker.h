// How shares.cc takes a graph apart; of no use to others.
#ifndef KILN_COMPILER_SHARD_SHARE_TAKER_H_
#define KILN_COMPILER_SHARD_SHARE_TAKER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/schedule/store_order.h"
#include "compiler/shard/shares.h"

namespace kiln::compiler {

class ShareTaker {
 public:
  // `order` is of `root`, whose storages are PARAMs.
  ShareTaker(Graph& graph, UOp* root, Shares& shares) : graph_(graph), order_(root), shares_(shares) {}

  // Sources before users.
  absl::Status Take(UOp* uop);

  struct Share {
    UOp* node = nullptr;
    const std::string* devices = nullptr;  // null: the same on any device
    int axis = -1;
  };
  const Share& Of(UOp* uop) const { return shares_of_.at(uop); }

 private:
  // A value before it is reduced: what each device gives to it.
  struct Part {
    UOp* node;
    const std::string* devices;
    Op reduce_op;
  };

  absl::StatusOr<Share> Taken(UOp* uop);
  absl::StatusOr<Share> TakeStorage(UOp* uop);
  absl::StatusOr<Share> TakeLoad(UOp* uop);
  absl::StatusOr<Share> TakeReplicated(UOp* uop);
  absl::StatusOr<Share> TakeReduce(UOp* uop);
  absl::StatusOr<Share> TakeStore(UOp* uop);
  absl::StatusOr<Share> TakeCall(UOp* uop);
  absl::StatusOr<Share> TakeAfter(UOp* uop);
  // Of ops that stay where their sources are.
  absl::StatusOr<Share> TakeInPlace(UOp* uop);

  // The part of REDUCE `uop` that a device has before the COPY under it, and where the
  // value goes; nothing if a reduction of the copies is all it can be.
  absl::StatusOr<bool> ReducesCopies(UOp* uop, Share& share);

  // `x` in another layout. On a tuple, split along axis 0 or whole.
  absl::StatusOr<Share> Move(UOp* x, const std::string& devices, int axis);
  Share AddTransfer(UOp* source, const Shape& whole, Layout from, const std::string& devices, int axis,
                    std::optional<Op> reduce_op);
  // `x` as an operand on `devices` whose axis `axis` is split (-1: none is).
  absl::StatusOr<Share> Fit(UOp* x, const std::string* devices, int axis);
  // One device's share of a value that it has whole.
  absl::StatusOr<UOp*> Slice(UOp* node, const std::string& devices, int axis);
  Shape ShareShape(const UOp* uop) const;
  UOp* DeviceNumber(const std::string& devices);

  Graph& graph_;
  const StoreOrder order_;
  Shares& shares_;
  absl::flat_hash_map<const UOp*, Share> shares_of_;
  absl::flat_hash_map<const UOp*, Part> parts_;  // of REDUCEs
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SHARD_SHARE_TAKER_H_
