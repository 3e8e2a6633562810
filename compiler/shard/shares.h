// From a graph of whole values on tuples of devices to what one device computes.
//
// A value on a tuple of devices is whole on each of them, or split along an axis in
// equal shares (ir/infer_placement.cc). All devices of the tuple compute the same with
// what they have, so one graph says it for all: the same ops, on shapes whose split
// axis is a share long. Where a share of a whole value is wanted, it is a SHRINK at an
// offset that depends on the number of the device, which is a variable.
//
// What no device can compute alone is a transfer: a value that changes its layout. A
// COPY is one. A REDUCE along the split axis is another: each device reduces its own
// share, and the value is the reduction of these parts. That view finds the collectives of
// tinyspec however they are composed:
//   REDUCE along the axis that was split before a COPY   a reduction of parts, not of copies
//   REPLICATED of a COPY of an EXPAND                    whole to all, not n rows split
#ifndef KILN_COMPILER_SHARD_SHARES_H_
#define KILN_COMPILER_SHARD_SHARES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

struct Layout {
  std::string devices;  // one name or several, joined by commas; none: the request's device
  int axis = -1;        // split along it; -1: each device has the whole
  bool operator==(const Layout&) const = default;
};

struct Transfer {
  UOp* source;  // one device's share of the value, or its part
  UOp* target;  // a PARAM: one device's share of the value afterwards
  Shape shape;  // of the whole
  Layout from;
  Layout to;
  std::optional<Op> reduce_op;  // of the parts of `from`, each as large as the whole
};

struct Shares {
  struct Result {
    UOp* value;                     // one device's share
    std::optional<size_t> aliases;  // the parameter that it is, updated in place
    UOp* whole;
    Layout layout;
  };
  // A PARAM of the program.
  struct Parameter {
    UOp* whole;
    UOp* share;
    Layout layout;
    std::vector<UOp*> stores;  // of shares, and CALLs, in the order in which they happen
  };
  std::vector<Parameter> parameters;  // in ascending order of slot
  std::vector<UOp*> variables;        // likewise
  std::vector<UOp*> stores;           // all of them
  std::vector<Result> results;        // of the root's sources
  std::vector<Transfer> transfers;    // each behind those it depends on; some may be of no use
  // By devices: the variable that is a device's place among them.
  absl::flat_hash_map<std::string, UOp*> device_numbers;

  // Of the PARAMs in the shares' graph that are storage: what is over them is computed
  // there.
  absl::flat_hash_map<const UOp*, std::string> devices;
};

// `root` is a TUPLE or SINK as FromWire gives it, without the bodies of its CALLs (HideBodies). UNSUPPORTED_SHARD, with
// the node, for what cannot be taken apart; UNSUPPORTED_OP for what no program on several devices may have in it.
absl::StatusOr<Shares> TakeShares(Graph& graph, UOp* root);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SHARD_SHARES_H_
