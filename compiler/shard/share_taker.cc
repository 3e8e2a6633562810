#include "compiler/shard/share_taker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/devices.h"
#include "compiler/ir/infer.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/opaque_calls.h"

namespace kiln::compiler {
namespace {

const std::string& RequestsDevice() {
  static const std::string& none = *new std::string();
  return none;
}

absl::Status Unsupported(absl::string_view text) { return MakeError(v1::UNSUPPORTED_SHARD, text); }

bool IsTuple(const std::string& devices) { return DeviceCount(devices) > 1; }

// A COPY: a LOAD to devices by name.
bool IsCopy(const UOp* uop) { return uop->op() == Op::LOAD && std::holds_alternative<TextArg>(uop->arg()); }

bool Has(const std::vector<int64_t>& axes, int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

UOp* UnderReshapes(UOp* uop) {
  while (uop->op() == Op::RESHAPE) uop = uop->src(0);
  return uop;
}

}  // namespace

absl::Status ShareTaker::Take(UOp* uop) {
  KILN_ASSIGN_OR_RETURN(const Share share, Taken(uop));
  if (share.node != uop) graph_.InheritOrigin(share.node, uop);
  shares_of_[uop] = share;
  return absl::OkStatus();
}

absl::StatusOr<ShareTaker::Share> ShareTaker::Taken(UOp* uop) {
  if (IsElementwise(uop->op())) return TakeInPlace(uop);
  switch (uop->op()) {
    case Op::CONST:
    case Op::BINARY: return Share{uop};
    case Op::PARAM: return TakeStorage(uop);
    case Op::LOAD: return TakeLoad(uop);
    case Op::REPLICATED: return TakeReplicated(uop);
    case Op::REDUCE: return TakeReduce(uop);
    case Op::STORE: return TakeStore(uop);
    case Op::CALL: return TakeCall(uop);
    case Op::AFTER: return TakeAfter(uop);
    case Op::GROUP:
    case Op::TUPLE:
    case Op::SINK: return Share{uop};  // SINK: what HideBodies puts in the place of a CALL's body
    case Op::GETTUPLE: return Of(uop->src(0)->src(static_cast<size_t>(uop->arg_as<int64_t>())));
    case Op::DETACH:
    case Op::CONTIGUOUS_BACKWARD: return Of(uop->src(0));
    case Op::PERMUTE:
    case Op::FLIP:
    case Op::RESHAPE:
    case Op::EXPAND:
    case Op::PAD:
    case Op::SHRINK:
    case Op::BITCAST:
    case Op::INDEX:
    case Op::STACK: return TakeInPlace(uop);
    default: break;
  }
  return MakeError(v1::UNSUPPORTED_OP, absl::StrCat(Name(uop->op()), " in a program for several devices"));
}

absl::StatusOr<ShareTaker::Share> ShareTaker::TakeStorage(UOp* uop) {
  if (uop->IsVariable()) return Share{uop};
  BufferArg arg = uop->arg_as<BufferArg>();
  arg.device.clear();
  UOp* share = graph_.Make(Op::PARAM, {ShapeSource(graph_, ShareShape(uop))}, std::move(arg));
  shares_.devices[share] = uop->device();
  return Share{share, &uop->device(), uop->axis()};
}

absl::StatusOr<ShareTaker::Share> ShareTaker::TakeLoad(UOp* uop) {
  if (!IsCopy(uop)) return TakeInPlace(uop);
  if (uop->src().size() > 1) return Unsupported("COPY with a gate");
  return Move(uop->src(0), uop->device(), IsTuple(uop->device()) ? 0 : -1);
}

absl::StatusOr<ShareTaker::Share> ShareTaker::Move(UOp* x, const std::string& devices, int axis) {
  const Share from = Of(x);
  const bool same = from.devices == nullptr || *from.devices == devices;
  if (same && (from.axis == axis || from.axis < 0)) {
    UOp* here = from.node;
    if (from.axis != axis) {
      KILN_ASSIGN_OR_RETURN(here, Slice(from.node, devices, axis));
    }
    return Share{graph_.Make(Op::LOAD, {here}), &devices, axis};
  }
  if (const auto part = parts_.find(x); part != parts_.end())
    return AddTransfer(part->second.node, x->shape(), {*part->second.devices, -1}, devices, axis,
                       part->second.reduce_op);
  return AddTransfer(from.node, x->shape(), {*from.devices, from.axis}, devices, axis, std::nullopt);
}

ShareTaker::Share ShareTaker::AddTransfer(UOp* source, const Shape& whole, Layout from, const std::string& devices,
                                          int axis, std::optional<Op> reduce_op) {
  Shape shape = whole;
  if (axis >= 0) shape[axis] = *ShareOf(graph_, shape[axis], DeviceCount(devices));
  BufferArg arg;
  arg.slot = static_cast<uint32_t>(graph_.NextId());
  arg.dtype = source->dtype();
  UOp* target = graph_.Make(Op::PARAM, {ShapeSource(graph_, shape)}, std::move(arg));
  shares_.devices[target] = devices;
  shares_.transfers.push_back({source, target, whole, std::move(from), {devices, axis}, reduce_op});
  return {target, &devices, axis};
}

// The equal rows of an EXPAND, one to a device of a tuple: the row, whole to all.
absl::StatusOr<ShareTaker::Share> ShareTaker::TakeReplicated(UOp* uop) {
  UOp* copy = uop->src(0);
  UOp* row = IsCopy(copy) && copy->src(0)->op() == Op::EXPAND ? copy->src(0)->src(0) : nullptr;
  const auto drop_axis = [&](const Share& share) {
    return Share{Reshape(graph_, share.node, ShareShape(uop)), share.devices, -1};
  };
  if (row == nullptr || uop->arg_as<int64_t>() != 0 || row->shape()[0] != 1 ||
      ElementsOf(graph_, row->shape()) != ElementsOf(graph_, uop->shape())) {
    return drop_axis(Of(copy));
  }
  // A reduction of parts that went to the devices in shares only to be gathered again.
  UOp* reduced = UnderReshapes(row);
  const auto part = parts_.find(reduced);
  if (part != parts_.end() && *part->second.devices == copy->device()) {
    return drop_axis(AddTransfer(part->second.node, reduced->shape(), {*part->second.devices, -1}, copy->device(), -1,
                                 part->second.reduce_op));
  }
  KILN_ASSIGN_OR_RETURN(const Share whole, Move(row, copy->device(), -1));
  return drop_axis(whole);
}

absl::StatusOr<ShareTaker::Share> ShareTaker::TakeReduce(UOp* uop) {
  if (uop->src().size() > 1)
    return MakeError(v1::UNSUPPORTED_OP, "REDUCE over RANGEs in a program for several devices");
  Share share;
  KILN_ASSIGN_OR_RETURN(const bool reduces_copies, ReducesCopies(uop, share));
  if (reduces_copies) return share;
  UOp* x = uop->src(0);
  const ReduceArg& arg = uop->arg_as<ReduceArg>();
  if (Of(x).axis < 0 || !Has(arg.axes, Of(x).axis)) return TakeInPlace(uop);
  const Part part = {graph_.Make(Op::REDUCE, {Of(x).node}, arg), Of(x).devices, arg.op};
  graph_.InheritOrigin(part.node, uop);
  parts_[uop] = part;
  return AddTransfer(part.node, uop->shape(), {*part.devices, -1}, *part.devices, -1, arg.op);
}

absl::StatusOr<bool> ShareTaker::ReducesCopies(UOp* uop, Share& share) {
  UOp* copy = UnderReshapes(uop->src(0));
  if (!IsCopy(copy) || copy->src().size() > 1 || Of(copy->src(0)).axis < 0) return false;
  // The value before the COPY, in the shape that is reduced.
  UOp* before = copy->src(0);
  if (copy != uop->src(0)) {
    if (IsTuple(copy->device())) return false;
    const auto reshaped = graph_.TryMake(Op::RESHAPE, {before, ShapeSource(graph_, uop->src(0)->shape())});
    if (!reshaped.ok()) return false;
    before = *reshaped;
    if (!shares_of_.contains(before)) KILN_RETURN_IF_ERROR(Take(before));
  }
  const Share from = Of(before);
  const ReduceArg& arg = uop->arg_as<ReduceArg>();
  const bool to_tuple = IsTuple(copy->device());
  if (!Has(arg.axes, from.axis) || (to_tuple && Has(arg.axes, 0))) return false;
  const Part part = {graph_.Make(Op::REDUCE, {from.node}, arg), from.devices, arg.op};
  graph_.InheritOrigin(part.node, uop);
  parts_[uop] = part;
  share = AddTransfer(part.node, uop->shape(), {*part.devices, -1}, copy->device(), to_tuple ? 0 : -1, arg.op);
  return true;
}

absl::StatusOr<ShareTaker::Share> ShareTaker::TakeStore(UOp* uop) {
  UOp* target = uop->src(0);
  const Share& storage = Of(target);
  for (UOp* below = target; below->op() != Op::PARAM && !below->src().empty(); below = below->src(0)) {
    if (below->op() != Op::INDEX || Of(below->src(0)).axis >= 0) continue;
    for (UOp* index : below->src().subspan(1)) {
      if (Of(index).axis >= 0)
        return Unsupported("STORE by an index that is split over devices into storage that each of them has whole");
    }
  }
  std::vector<UOp*> sources = {storage.node};
  for (UOp* operand : uop->src().subspan(1)) {
    const int lead = static_cast<int>(target->shape().size() - operand->shape().size());
    KILN_ASSIGN_OR_RETURN(const Share fitted,
                          Fit(operand, storage.devices, storage.axis < 0 ? -1 : storage.axis - lead));
    if (storage.axis < 0 && fitted.axis >= 0)
      return Unsupported("STORE of a share into storage that each device has whole");
    sources.push_back(fitted.node);
  }
  UOp* store = graph_.Make(Op::STORE, sources);
  shares_.stores.push_back(store);
  return Share{store, storage.devices, -1};
}

// Each device runs the body with its shares, as ReadKernelCall has found them to fit.
absl::StatusOr<ShareTaker::Share> ShareTaker::TakeCall(UOp* uop) {
  const std::vector<UOp*> written = StorageWrittenBy(uop);
  if (written.empty()) return Share{uop};
  const std::string* devices = Of(written[0]).devices;
  std::vector<UOp*> sources = {uop->src(0)};
  for (UOp* argument : uop->src().subspan(1)) {
    const Share& share = Of(argument);
    if (share.devices != nullptr && *share.devices != *devices) {
      const auto name = [](const std::string& on) { return on.empty() ? "the request's device" : on; };
      return MakeError(v1::BAD_ARGUMENT, absl::StrCat("CALL of arguments on ", name(*devices), " and on ",
                                                      name(*share.devices), "; COPY first"));
    }
    sources.push_back(share.node);
  }
  UOp* call = graph_.Make(Op::CALL, sources, uop->arg());
  shares_.stores.push_back(call);
  return Share{call, devices, -1};
}

// A read sees the last STORE to its storage that its deps reach: that one is all that
// has to stand behind it.
absl::StatusOr<ShareTaker::Share> ShareTaker::TakeAfter(UOp* uop) {
  Share share = Of(uop->src(0));
  const size_t state = StorageOf(uop->src(0)) == nullptr ? 0 : order_.StateOf(uop);
  if (state == 0) return share;
  UOp* store = Of(order_.StoresTo(StorageOf(uop))[state - 1]).node;
  share.node = graph_.Make(Op::AFTER, {share.node, store});
  return share;
}

absl::StatusOr<ShareTaker::Share> ShareTaker::TakeInPlace(UOp* uop) {
  const bool spelled =
      uop->op() == Op::RESHAPE || uop->op() == Op::EXPAND || uop->op() == Op::PAD || uop->op() == Op::SHRINK;
  bool anywhere = true;
  for (UOp* source : uop->src().subspan(0, spelled ? 1 : uop->src().size())) anywhere &= Of(source).devices == nullptr;
  if (anywhere) return Share{uop};
  const std::string* devices = uop->device().empty() ? &RequestsDevice() : &uop->device();

  std::vector<UOp*> sources;
  const bool aligned = IsElementwise(uop->op()) || uop->op() == Op::STACK || uop->op() == Op::LOAD;
  for (size_t i = 0; i < uop->src().size(); ++i) {
    UOp* source = uop->src(i);
    if (spelled && i > 0) {
      sources.push_back(i + 1 == uop->src().size() ? ShapeSource(graph_, ShareShape(uop)) : source);
      continue;
    }
    int axis = -1;
    if (aligned && uop->axis() >= 0)
      axis = uop->axis() - static_cast<int>(uop->shape().size() - source->shape().size());
    KILN_ASSIGN_OR_RETURN(const Share fitted, Fit(source, devices, axis));
    if (uop->op() == Op::LOAD && fitted.axis >= 0 && uop->axis() < 0)
      return Unsupported("LOAD of a value that each device has whole, by a gate that is split");
    sources.push_back(fitted.node);
  }
  KILN_ASSIGN_OR_RETURN(UOp * share, graph_.TryMake(uop->op(), sources, uop->arg()));
  if (share->shape() != ShareShape(uop)) {
    return Unsupported(absl::StrCat(Name(uop->op()), " of ", ToString(uop->shape()), ", split along axis ", uop->axis(),
                                    ", cannot be computed share by share"));
  }
  return Share{share, devices, uop->axis()};
}

absl::StatusOr<ShareTaker::Share> ShareTaker::Fit(UOp* x, const std::string* devices, int axis) {
  Share share = Of(x);
  if (share.devices != nullptr && *share.devices != *devices) {
    KILN_ASSIGN_OR_RETURN(share, Move(x, *devices, -1));
  }
  const bool wanted = axis >= 0 && axis < static_cast<int>(x->shape().size()) && x->shape()[axis] != 1;
  if (!wanted || share.axis >= 0) return share;
  KILN_ASSIGN_OR_RETURN(UOp * slice, Slice(share.node, *devices, axis));
  return Share{slice, devices, axis};
}

absl::StatusOr<UOp*> ShareTaker::Slice(UOp* node, const std::string& devices, int axis) {
  Shape shape = node->shape(), offset(node->shape().size(), 0);
  shape[axis] = *ShareOf(graph_, shape[axis], DeviceCount(devices));
  // Of equal slices, any will do.
  if (node->op() == Op::EXPAND && node->src(0)->shape()[axis] == 1) return Expand(graph_, node->src(0), shape);
  const Polynomial begin = PolynomialOf(graph_, DeviceNumber(devices)) * PolynomialOf(graph_, shape[axis]);
  if (!begin.Range().has_value()) {
    return Unsupported(absl::StrCat("a share of ", ToString(node->shape()), " along axis ", axis,
                                    ": where it begins is a product of more than 6 variables"));
  }
  offset[axis] = DimOf(graph_, begin);
  return graph_.Make(Op::SHRINK, {node, ShapeSource(graph_, offset), ShapeSource(graph_, shape)});
}

Shape ShareTaker::ShareShape(const UOp* uop) const {
  Shape shape = uop->shape();
  if (uop->axis() >= 0) shape[uop->axis()] = *ShareOf(graph_, shape[uop->axis()], DeviceCount(uop->device()));
  return shape;
}

UOp* ShareTaker::DeviceNumber(const std::string& devices) {
  UOp*& number = shares_.device_numbers[devices];
  if (number != nullptr) return number;
  BufferArg arg;
  arg.slot = static_cast<uint32_t>(graph_.NextId());
  arg.dtype = DType::kInt64;
  arg.addrspace = AddrSpace::kAlu;
  arg.name = "device";
  arg.max = DeviceCount(devices) - 1;
  number = graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, std::move(arg));
  return number;
}

}  // namespace kiln::compiler
