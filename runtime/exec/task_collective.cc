#include "runtime/exec/task_collective.h"

#include <algorithm>
#include <set>

namespace kiln::runtime {
namespace {

using collective::Kind;

std::optional<Kind> ToKind(v1::TransferStep::Kind kind) {
  switch (kind) {
    case v1::TransferStep::BROADCAST: return Kind::kBroadcast;
    case v1::TransferStep::SCATTER: return Kind::kScatter;
    case v1::TransferStep::GATHER: return Kind::kGather;
    case v1::TransferStep::REDUCE: return Kind::kReduce;
    case v1::TransferStep::ALL_GATHER: return Kind::kAllGather;
    case v1::TransferStep::REDUCE_SCATTER: return Kind::kReduceScatter;
    case v1::TransferStep::ALL_REDUCE: return Kind::kAllReduce;
    default: return std::nullopt;
  }
}

// Whether the shares are a collective's parts, or wholes: parts lie one behind the other
// in the whole, and are of one length.
bool IsLaidOut(const ValueLayout& layout, bool parts) {
  if (!parts) return layout.axis < 0;
  if (layout.axis < 0) return false;
  return std::all_of(layout.shape.begin(), layout.shape.begin() + layout.axis, [](int64_t size) { return size == 1; });
}

}  // namespace

std::optional<collective::ReduceOp> ToReduceOp(v1::Op op) {
  switch (op) {
    case v1::ADD: return collective::ReduceOp::kSum;
    case v1::MUL: return collective::ReduceOp::kProd;
    case v1::MAX: return collective::ReduceOp::kMax;
    default: return std::nullopt;
  }
}

std::optional<TaskCollective> CollectiveOf(const v1::TransferStep& step, v1::DType dtype, const TransferEnd& from,
                                           const TransferEnd& to) {
  const std::optional<Kind> kind = ToKind(step.kind());
  if (!kind.has_value() || collective::Reduces(*kind) != (step.reduce_op() != v1::OP_UNSPECIFIED)) return std::nullopt;
  TaskCollective made;
  made.kind = *kind;
  if (collective::Reduces(*kind)) made.op = *ToReduceOp(step.reduce_op());
  made.dtype = dtype;
  const bool one_input = collective::OneInput(*kind), one_output = collective::OneOutput(*kind);
  // A value on one device is whole and a part at once.
  if (!(one_input && from.devices.size() == 1) && !IsLaidOut(*from.layout, collective::InputsAreParts(*kind)))
    return std::nullopt;
  if (!(one_output && to.devices.size() == 1) && !IsLaidOut(*to.layout, collective::OutputsAreParts(*kind)))
    return std::nullopt;
  made.devices = one_input ? to.devices : from.devices;
  if (made.devices.size() < 2 || made.devices.size() > collective::kMaxRanks) return std::nullopt;
  if (std::set<hal::Device*>(made.devices.begin(), made.devices.end()).size() != made.devices.size())
    return std::nullopt;
  if (one_input || one_output) {
    const TransferEnd& one = one_input ? from : to;
    const auto root = std::find(made.devices.begin(), made.devices.end(), one.devices[0]);
    if (one.devices.size() != 1 || root == made.devices.end()) return std::nullopt;
    made.root = static_cast<uint32_t>(root - made.devices.begin());
  } else if (from.devices != to.devices) {
    return std::nullopt;
  }
  made.count = 1;
  for (int64_t size : from.layout->shape) made.count *= static_cast<uint64_t>(size);
  made.inputs = from.slices;
  made.outputs = to.slices;
  return made;
}

}  // namespace kiln::runtime
