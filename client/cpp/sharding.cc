#include "client/cpp/sharding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cpp/movement.h"

namespace kiln::client {
namespace {

// With n rows of its own before its axes.
Sizes Rows(const Devices& devices, Sizes shape) {
  shape.insert(shape.begin(), static_cast<int64_t>(devices.size()));
  return shape;
}

// The order that puts axis `from` at `to`.
std::vector<int64_t> Moved(int64_t rank, int64_t from, int64_t to) {
  std::vector<int64_t> order;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis != from) order.push_back(axis);
  }
  order.insert(order.begin() + to, from);
  return order;
}

}  // namespace

Tensor WholeParam(Graph& graph, uint32_t slot, v1::DType dtype, const Sizes& shape, const Devices& devices,
                  absl::string_view name) {
  if (devices.size() < 2) return graph.Param(slot, dtype, shape, name, devices);
  return Replicated(graph.Param(slot, dtype, Rows(devices, shape), name, devices));
}

Tensor CopyTo(Tensor x, const Devices& devices) {
  if (!x.valid()) return x;
  Graph& graph = *x.graph();
  if (absl::Status status = CheckDevices("CopyTo", devices, x.sizes()); !status.ok()) return graph.Fail(status);
  v1::UOp uop;
  uop.set_op(v1::COPY);
  uop.add_src(x.node());
  uop.mutable_load()->mutable_device()->Assign(devices.begin(), devices.end());
  return graph.Node(std::move(uop), x.dtype(), x.sizes());
}

Tensor Shard(Tensor x, const Devices& devices, int64_t axis) {
  if (!x.valid()) return x;
  const int64_t at = CheckAxis(*x.graph(), "Shard", axis, x.rank());
  if (at < 0) return x.graph()->Fail(absl::OkStatus());
  const int64_t rank = x.rank();
  return Permute(CopyTo(Permute(x, Moved(rank, at, 0)), devices), Moved(rank, 0, at));
}

Tensor Replicate(Tensor x, const Devices& devices) {
  if (!x.valid()) return x;
  if (devices.size() < 2) return CopyTo(x, devices);
  return Replicated(CopyTo(BroadcastTo(x, Rows(devices, x.sizes())), devices));
}

Tensor Replicated(Tensor rows) {
  if (!rows.valid()) return rows;
  if (rows.rank() == 0) {
    return rows.graph()->Fail(v1::UNSUPPORTED_SHARD, "Replicated", "a tensor of shape () has no rows");
  }
  v1::UOp uop;
  uop.set_op(v1::REPLICATED);
  uop.add_src(rows.node());
  uop.set_index(0);
  return rows.graph()->Node(std::move(uop), rows.dtype(), Sizes(rows.sizes().begin() + 1, rows.sizes().end()));
}

Tensor AllReduce(Tensor x, int64_t parts, v1::Op op) {
  if (!x.valid()) return x;
  Graph& graph = *x.graph();
  if (op != v1::ADD && op != v1::MUL && op != v1::MAX) {
    return graph.Fail(v1::BAD_ARGUMENT, "AllReduce", absl::StrCat("by ADD, MUL or MAX, not ", v1::Op_Name(op)));
  }
  const std::optional<Size> share = parts < 1 ? std::nullopt : x.size(0).DividedBy(parts);
  if (x.rank() == 0 || !share) {
    return graph.Fail(v1::UNSUPPORTED_SHARD, "AllReduce",
                      absl::StrCat(ShapeText(x.sizes()), " has no first axis of ", parts, " equal shares"));
  }
  Sizes shape = x.sizes();
  shape[0] = *share;
  v1::UOp uop;
  uop.set_op(v1::ALLREDUCE);
  uop.add_src(x.node());
  uop.mutable_all_reduce()->set_op(op);
  return graph.Node(std::move(uop), x.dtype(), std::move(shape));
}

absl::StatusOr<v1::Graph> Spread(const v1::Graph& graph, const Devices& devices, std::set<uint32_t> split) {
  KILN_RETURN_IF_ERROR(CheckDevices("Spread", devices, {devices.size()}));
  const std::set<uint32_t> wanted = split;
  v1::Graph made;
  made.set_dialect(graph.dialect());
  std::vector<uint32_t> number;
  const auto last = [&made] { return static_cast<uint32_t>(made.nodes_size() - 1); };
  for (const v1::UOp& old : graph.nodes()) {
    if (old.op() == v1::FUNCTION || old.op() == v1::CALL) {
      return MakeError(v1::UNSUPPORTED_OP,
                       "Spread: a graph with calls in it; their bodies have parameters of their own");
    }
    v1::UOp uop = old;
    for (uint32_t& source : *uop.mutable_src()) {
      if (source >= number.size()) return MakeError(v1::BAD_ARGUMENT, "Spread: a node's sources come before it");
      source = number[source];
    }
    bool whole = false;
    if (uop.op() == v1::PARAM && uop.buffer().addrspace() != v1::ALU) {
      uop.mutable_buffer()->mutable_device()->Assign(devices.begin(), devices.end());
      split.erase(uop.buffer().slot());
      whole = !wanted.contains(uop.buffer().slot()) && devices.size() > 1;
    }
    if (whole && uop.src_size() == 0) return MakeError(v1::BAD_ARGUMENT, "Spread: a PARAM without a shape");
    if (whole) {  // a row each
      v1::UOp& rows = *made.add_nodes();
      rows.set_op(v1::CONST);
      rows.mutable_constant()->set_dtype(v1::WEAKINT);
      rows.mutable_constant()->set_i(static_cast<int64_t>(devices.size()));
      v1::UOp shape;
      shape.set_op(v1::STACK);
      shape.add_src(last());
      const v1::UOp& sizes = made.nodes(static_cast<int>(uop.src(0)));
      if (sizes.op() == v1::STACK) {
        shape.mutable_src()->MergeFrom(sizes.src());
      } else {
        shape.add_src(uop.src(0));  // one axis may stand alone
      }
      *made.add_nodes() = std::move(shape);
      uop.clear_src();
      uop.add_src(last());
    }
    *made.add_nodes() = std::move(uop);
    if (whole) {
      const uint32_t param = last();
      v1::UOp& replicated = *made.add_nodes();
      replicated.set_op(v1::REPLICATED);
      replicated.add_src(param);
      replicated.set_index(0);
    }
    number.push_back(last());
  }
  if (split.empty()) return made;
  return MakeError(v1::UNKNOWN_ARGUMENT, absl::StrCat("Spread: the graph has no parameter in slot ", *split.begin()));
}

}  // namespace kiln::client
