#include "compiler/import/legacy/legacy_devices.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/devices.h"
#include "compiler/ir/movement.h"

namespace kiln::compiler {
namespace {

absl::Status BadArgument(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

absl::StatusOr<UOp*> CopyTo(Graph& graph, UOp* x, std::string device) {
  return graph.TryMake(Op::LOAD, {x}, TextArg{std::move(device)});
}

absl::StatusOr<UOp*> One(const v1::UOp& node, const std::vector<UOp*>& src) {
  if (!node.has_index() && node.op() != v1::ALLREDUCE) {
    return BadArgument(absl::StrCat(v1::Op_Name(node.op()), " wants an index as its argument: ",
                                    node.op() == v1::MSELECT ? "which of the devices" : "along which axis"));
  }
  if (src.size() == 1) return src[0];
  return MakeError(v1::WRONG_SOURCE_COUNT, absl::StrCat(v1::Op_Name(node.op()), " takes one source, not ", src.size()));
}

absl::StatusOr<UOp*> ReadStack(Graph& graph, const std::vector<UOp*>& src) {
  std::vector<UOp*> gathered;
  google::protobuf::RepeatedPtrField<std::string> names;
  for (UOp* shard : src) {
    if (shard->device().empty() || DeviceCount(shard->device()) > 1)
      return BadArgument("MSTACK takes values that are on one device each, and say on which");
    *names.Add() = shard->device();
  }
  KILN_ASSIGN_OR_RETURN(std::string device, JoinDevices(names));
  if (src.size() < 2) return BadArgument("MSTACK takes a value for each of two devices or more");
  for (UOp* shard : src) {
    KILN_ASSIGN_OR_RETURN(UOp * here, CopyTo(graph, shard, src[0]->device()));
    gathered.push_back(here);
  }
  KILN_ASSIGN_OR_RETURN(UOp * stack, graph.TryMake(Op::STACK, gathered));
  return CopyTo(graph, stack, std::move(device));
}

// (n, s0, s1, ...), split along axis 0, becomes (s0, ..., n * s_axis, ...).
absl::StatusOr<UOp*> Join(Graph& graph, UOp* stack, int64_t axis) {
  const Shape& shape = stack->shape();
  const int64_t devices = DeviceCount(stack->device());
  if (devices < 2 || stack->axis() != 0 || shape[0] != devices)
    return BadArgument("takes a stack of shards: one for each device of a tuple, along axis 0");
  if (axis < 0 || axis + 1 >= static_cast<int64_t>(shape.size()))
    return BadArgument(absl::StrCat("along axis ", axis, " of shards of ", shape.size() - 1, " axes"));
  std::vector<int64_t> order;
  Shape joined;
  for (int64_t i = 1; i < static_cast<int64_t>(shape.size()); ++i) {
    if (i == axis + 1) order.push_back(0);
    order.push_back(i);
    joined.push_back(i == axis + 1 ? Dim(shape[0] * shape[i]) : shape[i]);
  }
  return graph.TryMake(Op::RESHAPE, {PermuteTo(graph, stack, order), ShapeSource(graph, joined)});
}

absl::StatusOr<UOp*> Select(Graph& graph, UOp* x, int64_t number) {
  const std::vector<std::string> devices = SplitDevices(x->device());
  if (number < 0 || number >= static_cast<int64_t>(devices.size()))
    return BadArgument(absl::StrCat("MSELECT of device ", number, " of ", devices.size()));
  const int axis = x->axis();
  KILN_ASSIGN_OR_RETURN(UOp * here, CopyTo(graph, x, devices[static_cast<size_t>(number)]));
  if (axis < 0) return here;
  Shape offset(x->shape().size(), 0), share = x->shape();
  share[axis] = share[axis] / static_cast<int64_t>(devices.size());
  offset[axis] = number * share[axis];
  return graph.TryMake(Op::SHRINK, {here, ShapeSource(graph, offset), ShapeSource(graph, share)});
}

absl::StatusOr<UOp*> AllReduce(Graph& graph, UOp* x, const v1::UOp& node) {
  if (!node.has_all_reduce() || !IsCoreOp(node.all_reduce().op()))
    return BadArgument("ALLREDUCE wants ADD, MUL or MAX as its argument");
  const int axis = x->axis();
  const int64_t devices = DeviceCount(x->device());
  if (devices < 2 || axis < 0) return BadArgument("ALLREDUCE takes a value that is split over a tuple of devices");
  if (node.all_reduce().device_size() > 0 && absl::StrJoin(node.all_reduce().device(), ",") != x->device())
    return BadArgument(absl::StrCat("ALLREDUCE on other devices than its source's, ", x->device()));
  Shape apart, share = x->shape();
  for (int i = 0; i < static_cast<int>(x->shape().size()); ++i) {
    if (i == axis) apart.push_back(devices);
    apart.push_back(i == axis ? Dim(x->shape()[i] / devices) : x->shape()[i]);
  }
  share[axis] = share[axis] / devices;
  KILN_ASSIGN_OR_RETURN(UOp * shares, graph.TryMake(Op::RESHAPE, {x, ShapeSource(graph, apart)}));
  KILN_ASSIGN_OR_RETURN(
      UOp * reduced, graph.TryMake(Op::REDUCE, {shares}, ReduceArg{static_cast<Op>(node.all_reduce().op()), {axis}}));
  return graph.TryMake(Op::RESHAPE, {reduced, ShapeSource(graph, share)});
}

}  // namespace

absl::StatusOr<UOp*> ReadLegacyDevices(Graph& graph, const v1::UOp& node, const std::vector<UOp*>& src) {
  switch (node.op()) {
    case v1::MSTACK: return ReadStack(graph, src);
    case v1::MULTI:
    case v1::UNSHARD: {
      KILN_ASSIGN_OR_RETURN(UOp * stack, One(node, src));
      return Join(graph, stack, node.index());
    }
    case v1::MSELECT: {
      KILN_ASSIGN_OR_RETURN(UOp * x, One(node, src));
      return Select(graph, x, node.index());
    }
    case v1::ALLREDUCE: {
      KILN_ASSIGN_OR_RETURN(UOp * x, One(node, src));
      return AllReduce(graph, x, node);
    }
    default: return nullptr;
  }
}

}  // namespace kiln::compiler
