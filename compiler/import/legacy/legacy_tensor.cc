#include "compiler/import/legacy/legacy_tensor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/import/legacy/views.h"
#include "compiler/ir/build.h"
#include "compiler/ir/devices.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/movement.h"

namespace kiln::compiler {
namespace {

absl::Status BadArgument(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

absl::Status WrongSources(absl::string_view takes, size_t have) {
  return MakeError(v1::WRONG_SOURCE_COUNT, absl::StrCat(takes, ", not ", have, " sources"));
}

// One node of the wire, with what its sources became.
struct Node {
  Graph& graph;
  const v1::Graph& wire;
  const v1::UOp& uop;
  const std::vector<UOp*>& src;
  const Arg& arg;

  const v1::UOp& source(size_t k) const { return wire.nodes(static_cast<int>(uop.src(static_cast<int>(k)))); }
};

// A VIEW of nothing, which tells a LOAD, STORE, CONST or VALID how to look.
bool IsBareView(const v1::Graph& wire, const v1::UOp& uop) {
  if (uop.op() != v1::VIEW) return false;
  for (const uint32_t source : uop.src()) {
    if (wire.nodes(static_cast<int>(source)).op() != v1::DEVICE) return false;
  }
  return true;
}

bool IsDescription(const v1::Graph& wire, const v1::UOp& uop) {
  return uop.op() == v1::DEVICE || uop.op() == v1::UNIQUE || IsBareView(wire, uop);
}

// The sources that are values.
std::vector<UOp*> Values(const Node& node) {
  std::vector<UOp*> values;
  for (size_t k = 0; k < node.src.size(); ++k) {
    if (!IsDescription(node.wire, node.source(k))) values.push_back(node.src[k]);
  }
  return values;
}

UOp* Nothing(const Node& node) { return node.graph.Make(Op::GROUP, {}); }

absl::StatusOr<UOp*> ReadView(const Node& node) {
  const std::vector<UOp*> values = Values(node);
  if (values.size() > 1) return WrongSources("VIEW takes one value", values.size());
  if (values.empty()) return Nothing(node);
  return ApplyViews(node.graph, values[0], node.uop.view());
}

absl::StatusOr<UOp*> ReadValid(const Node& node) {
  if (node.uop.has_view() && node.src.empty()) return MaskOfViews(node.graph, node.uop.view());
  if (node.src.size() == 1 && node.source(0).op() == v1::VIEW) return MaskOfViews(node.graph, node.source(0).view());
  return BadArgument("VALID takes a VIEW as its source, or views as its argument");
}

absl::StatusOr<UOp*> ReadConst(const Node& node) {
  if (node.src.empty()) return nullptr;
  if (node.src.size() > 1 || !IsDescription(node.wire, node.source(0)) || node.source(0).op() == v1::UNIQUE) {
    return WrongSources("CONST takes nothing, a DEVICE or a VIEW without a value", node.src.size());
  }
  KILN_ASSIGN_OR_RETURN(UOp * constant, node.graph.TryMake(Op::CONST, {}, node.arg));
  if (node.source(0).op() == v1::DEVICE) return constant;
  if (node.source(0).view().view_size() == 0) return constant;  // it only says where
  return ApplyViews(node.graph, constant, node.source(0).view());
}

// LOAD(buf, VIEW[, store]) and STORE(buf, VIEW, value).
absl::StatusOr<UOp*> ReadAccess(const Node& node) {
  if (node.src.size() < 2 || !IsBareView(node.wire, node.source(1))) return nullptr;
  const bool store = node.uop.op() == v1::STORE;
  if (node.src.size() > 3 || (store && node.src.size() != 3)) {
    return WrongSources(
        store ? "STORE takes (buffer, VIEW, value)" : "LOAD takes (buffer, VIEW) or (buffer, VIEW, STORE)",
        node.src.size());
  }
  UOp* buffer = node.src[0];
  if (!store && node.src.size() == 3) {
    KILN_ASSIGN_OR_RETURN(buffer, node.graph.TryMake(Op::AFTER, {buffer, node.src[2]}));
  }
  KILN_ASSIGN_OR_RETURN(UOp * seen, ApplyViews(node.graph, buffer, node.source(1).view()));
  return store ? node.graph.TryMake(Op::STORE, {seen, node.src[2]}) : seen;
}

absl::StatusOr<Shape> Ints(const AxesArg& axes, std::optional<size_t> count) {
  if (count.has_value() && axes.axes.size() != *count) {
    return BadArgument(absl::StrCat(axes.axes.size(), " numbers in its argument; it wants ", *count));
  }
  Shape ints(axes.axes.begin(), axes.axes.end());
  for (int64_t n : ints) {
    if (n < 0 || n > kMaxElements) return BadArgument(absl::StrCat("a size or offset of ", n, " in its argument"));
  }
  return ints;
}

// RESHAPE, EXPAND, PAD and SHRINK whose shapes stand in the argument.
absl::StatusOr<UOp*> ReadMovement(const Node& node) {
  const auto* axes = std::get_if<AxesArg>(&node.arg);
  if (axes == nullptr) return nullptr;
  if (node.src.size() != 1) {
    return WrongSources(absl::StrCat(v1::Op_Name(node.uop.op()), " with its shape as argument takes the tensor alone"),
                        node.src.size());
  }
  UOp* x = node.src[0];
  const Shape& shape = x->shape();
  const auto op = static_cast<Op>(node.uop.op());
  if (op == Op::RESHAPE || op == Op::EXPAND) {
    KILN_ASSIGN_OR_RETURN(const Shape to, Ints(*axes, std::nullopt));
    return node.graph.TryMake(op, {x, ShapeSource(node.graph, to)});
  }
  if (x->dtype() == DType::kVoid)
    return MakeError(v1::DTYPE_MISMATCH, absl::StrCat(v1::Op_Name(node.uop.op()), " of what is no value"));
  if (shape.empty() && axes->axes.empty()) return x;
  KILN_ASSIGN_OR_RETURN(const Shape pairs, Ints(*axes, 2 * shape.size()));
  Shape offset, to;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t first = pairs[2 * i], second = pairs[2 * i + 1];
    if (op == Op::SHRINK && second < first) return BadArgument(absl::StrCat("a box from ", first, " to ", second));
    offset.push_back(first);
    to.push_back(op == Op::PAD ? first + shape[i] + second : second - first);
  }
  // Older frontends mean 0 around a tensor, not Invalid.
  Arg fill = op == Op::PAD ? ConstNumber(node.graph, x->dtype(), 0)->arg() : Arg();
  return node.graph.TryMake(op, {x, ShapeSource(node.graph, offset), ShapeSource(node.graph, to)}, std::move(fill));
}

absl::StatusOr<UOp*> ReadReduceAxis(const Node& node) {
  if (!node.uop.has_reduce() || !IsCoreOp(node.uop.reduce().op())) {
    return BadArgument("REDUCE_AXIS wants ADD, MUL or MAX and the axes as its argument");
  }
  const v1::ReduceArg& reduce = node.uop.reduce();
  ReduceArg arg{static_cast<Op>(reduce.op()), {reduce.axis().begin(), reduce.axis().end()}};
  return node.graph.TryMake(Op::REDUCE, node.src, std::move(arg));
}

absl::StatusOr<UOp*> ReadBuffer(const Node& node) {
  const std::vector<UOp*> values = Values(node);
  const auto* given = std::get_if<BufferArg>(&node.arg);
  if (values.size() == node.src.size() || given == nullptr) return nullptr;
  if (values.size() != 1) return WrongSources("BUFFER takes its shape besides DEVICE and UNIQUE", values.size());
  BufferArg arg = *given;
  google::protobuf::RepeatedPtrField<std::string> names;
  for (size_t k = 0; k < node.src.size(); ++k) {
    const v1::UOp& source = node.source(k);
    if (source.op() == v1::DEVICE) *names.Add() = source.text();
    if (source.op() != v1::UNIQUE) continue;
    if (!source.has_index()) return BadArgument("UNIQUE wants an index as its argument, the slot");
    if (source.index() < 0 || source.index() >= 1 << 16) {
      return BadArgument(absl::StrCat("UNIQUE ", source.index(), " as a slot; slots are below 65536"));
    }
    arg.slot = static_cast<uint32_t>(source.index());
  }
  if (!names.empty()) {
    KILN_ASSIGN_OR_RETURN(arg.device, JoinDevices(names));
  }
  return node.graph.TryMake(Op::BUFFER, values, std::move(arg));
}

absl::StatusOr<UOp*> ReadBufferView(const Node& node) {
  if (node.src.size() != 1) return WrongSources("BUFFER_VIEW takes a buffer", node.src.size());
  if (!node.uop.has_axes()) return BadArgument("BUFFER_VIEW wants (size, offset) as its argument");
  KILN_ASSIGN_OR_RETURN(const Shape ints,
                        Ints(AxesArg{{node.uop.axes().axis().begin(), node.uop.axes().axis().end()}}, 2));
  UOp* flat = node.src[0];
  if (flat->dtype() == DType::kVoid) return MakeError(v1::DTYPE_MISMATCH, "BUFFER_VIEW of what is no value");
  flat = ReshapeTo(node.graph, flat, {NumElements(flat->shape())});
  const DType dtype = FromWire(node.uop.dtype());
  if (dtype != DType::kNone && dtype != flat->dtype()) {
    if (dtype == DType::kVoid || IsWeak(dtype) || !Info(dtype).supported)
      return MakeError(v1::DTYPE_MISMATCH, absl::StrCat("BUFFER_VIEW as ", Name(dtype)));
    KILN_ASSIGN_OR_RETURN(flat, node.graph.TryMake(Op::BITCAST, {flat}, dtype));
  }
  return node.graph.TryMake(Op::SHRINK, {flat, ShapeSource(node.graph, {ints[1]}), ShapeSource(node.graph, {ints[0]})});
}

absl::StatusOr<UOp*> ReadCopy(const Node& node) {
  const std::vector<UOp*> values = Values(node);
  if (values.size() == node.src.size()) return nullptr;
  if (values.size() != 1) return WrongSources("COPY takes one value besides the DEVICE", values.size());
  google::protobuf::RepeatedPtrField<std::string> names;
  for (size_t k = 0; k < node.src.size(); ++k) {
    if (node.source(k).op() == v1::DEVICE) *names.Add() = node.source(k).text();
  }
  KILN_ASSIGN_OR_RETURN(std::string device, JoinDevices(names));
  return node.graph.TryMake(Op::LOAD, values, device.empty() ? Arg() : Arg(TextArg{std::move(device)}));
}

absl::StatusOr<UOp*> ReadEmpty(const Node& node) {
  const std::vector<UOp*> values = Values(node);
  const DType dtype = FromWire(node.uop.dtype());
  if (dtype == DType::kNone || dtype == DType::kVoid || IsWeak(dtype) || !Info(dtype).supported)
    return BadArgument("EMPTY wants the dtype of its elements as the node's dtype");
  if (values.size() > 1) return WrongSources("EMPTY takes its shape, or nothing", values.size());
  Shape shape;
  if (!values.empty()) {
    KILN_ASSIGN_OR_RETURN(shape, ReadSizes(node.graph, values[0]));
    if (!IsConst(shape)) return MakeError(v1::UNSUPPORTED_OP, "EMPTY of a symbolic size is not supported yet");
  }
  KILN_RETURN_IF_ERROR(CheckElements(shape));
  if (shape.size() > kMaxRank) return MakeError(v1::SIZE_OVERFLOW, "EMPTY with too many axes");
  return Filled(node.graph, dtype, shape, 0);
}

}  // namespace

absl::StatusOr<UOp*> ReadLegacyTensor(Graph& graph, const v1::Graph& wire, uint32_t index, const std::vector<UOp*>& src,
                                      const Arg& arg) {
  const Node node{graph, wire, wire.nodes(static_cast<int>(index)), src, arg};
  switch (node.uop.op()) {
    case v1::DEVICE:
    case v1::UNIQUE:
      if (!src.empty()) return WrongSources(absl::StrCat(v1::Op_Name(node.uop.op()), " takes none"), src.size());
      return Nothing(node);
    case v1::VIEW: return ReadView(node);
    case v1::VALID: return ReadValid(node);
    case v1::CONST: return ReadConst(node);
    case v1::LOAD:
    case v1::STORE: return ReadAccess(node);
    case v1::RESHAPE:
    case v1::EXPAND:
    case v1::PAD:
    case v1::SHRINK: return ReadMovement(node);
    case v1::REDUCE_AXIS: return ReadReduceAxis(node);
    case v1::BUFFER: return ReadBuffer(node);
    case v1::BUFFER_VIEW: return ReadBufferView(node);
    case v1::COPY: return ReadCopy(node);
    case v1::EMPTY: return ReadEmpty(node);
    default: return nullptr;
  }
}

}  // namespace kiln::compiler
