#include "compiler/ir/wire.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/const_value.h"
#include "base/error.h"
#include "compiler/ir/functions.h"
#include "compiler/ir/settle.h"
#include "compiler/ir/spellings.h"

namespace kiln::compiler {
namespace {

absl::Status BadArgument(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

absl::Status TooLarge(absl::string_view limit, uint64_t limit_value, uint64_t used) {
  v1::ErrorDetail detail;
  detail.set_code(v1::GRAPH_TOO_LARGE);
  detail.set_limit(std::string(limit));
  detail.set_limit_value(limit_value);
  detail.set_used(used);
  return MakeError(std::move(detail),
                   absl::StrCat("the graph has ", used, " ", limit, "; this server takes at most ", limit_value));
}

absl::StatusOr<DType> ReadDType(v1::DType wire) {
  const DType dtype = FromWire(wire);
  if (dtype == DType::kNone)
    return BadArgument(absl::StrCat("a dtype is missing or unknown (", static_cast<int>(wire), ")"));
  if (!Info(dtype).supported) {
    return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("dtype ", Name(dtype), " is not supported yet"));
  }
  return dtype;
}

absl::StatusOr<ConstArg> ReadConst(const v1::ConstArg& wire) {
  KILN_ASSIGN_OR_RETURN(const DType dtype, ReadDType(wire.dtype()));
  if (dtype == DType::kVoid) return BadArgument("a CONST of dtype void");
  KILN_ASSIGN_OR_RETURN(const ConstValue value, CanonicalConst(wire));
  if (!value.decimal.empty()) return MakeError(v1::UNSUPPORTED_OP, "weak integers beyond int64 are not supported yet");
  return ConstArg{dtype, value.bits, value.invalid};
}

absl::StatusOr<std::string> ReadDevice(const google::protobuf::RepeatedPtrField<std::string>& device) {
  if (device.empty()) return std::string();
  if (device.size() == 1) return device.Get(0);
  return MakeError(v1::UNSUPPORTED_OP, "tuple devices are not supported yet");
}

absl::StatusOr<Arg> ReadBuffer(const v1::BufferArg& wire) {
  BufferArg arg;
  arg.slot = wire.slot();
  if (wire.slot() >= 1u << 16) return BadArgument(absl::StrCat("slot ", wire.slot(), "; slots are below 65536"));
  KILN_ASSIGN_OR_RETURN(arg.dtype, ReadDType(wire.dtype()));
  if (arg.dtype == DType::kVoid || IsWeak(arg.dtype))
    return BadArgument(absl::StrCat("storage of dtype ", Name(arg.dtype)));
  KILN_ASSIGN_OR_RETURN(arg.device, ReadDevice(wire.device()));
  switch (wire.addrspace()) {
    case v1::ADDRSPACE_UNSPECIFIED:
    case v1::GLOBAL: break;
    case v1::LOCAL:
    case v1::REG:
    case v1::ALU:
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("address space ", v1::AddrSpace_Name(wire.addrspace()), " is not supported yet"));
    default: return BadArgument("an unknown address space");
  }
  arg.name = wire.name();
  return Arg(arg);
}

Arg ReadKernel(const v1::UOp& wire) {
  const v1::KernelInfo& info = wire.kernel();
  if (wire.op() == v1::CALL) return TextArg{info.name()};
  KernelArg arg{info.name(), {}, info.dont_use_locals()};
  for (const v1::OptOp& opt : info.opts())
    arg.opts.push_back({opt.kind(), opt.axis(), {opt.arg().begin(), opt.arg().end()}});
  return arg;
}

// Whether graph.proto gives `op` this form of argument. An op that wants one and
// has none is found out by inference.
bool TakesForm(v1::Op op, v1::UOp::ArgCase form) {
  switch (form) {
    case v1::UOp::ARG_NOT_SET: return true;
    case v1::UOp::kConstant: return op == v1::CONST;
    case v1::UOp::kBuffer: return op == v1::PARAM || op == v1::BUFFER;
    case v1::UOp::kAxes: return op == v1::PERMUTE;
    case v1::UOp::kFlip: return op == v1::FLIP;
    case v1::UOp::kReduce: return op == v1::REDUCE;
    case v1::UOp::kPad: return op == v1::PAD;
    case v1::UOp::kCastTo: return op == v1::CAST || op == v1::BITCAST;
    case v1::UOp::kIndex: return op == v1::GETTUPLE;
    case v1::UOp::kLoad: return op == v1::LOAD || op == v1::COPY || op == v1::CONTIGUOUS;
    case v1::UOp::kRange: return op == v1::RANGE;
    case v1::UOp::kSpecial: return op == v1::SPECIAL;
    case v1::UOp::kWmma: return op == v1::WMMA;
    case v1::UOp::kData: return op == v1::BINARY;
    case v1::UOp::kKernel: return op == v1::SINK || op == v1::CALL || op == v1::LINEAR;
    default: return false;
  }
}

// The argument of a wire node as the core IR has it.
absl::StatusOr<Arg> ReadArg(const v1::UOp& wire) {
  if (!IsCoreOp(wire.op()) && !IsSpelling(wire.op())) return Arg();  // not built yet, as MakeSpelled will say
  if (!TakesForm(wire.op(), wire.arg_case())) {
    return BadArgument(absl::StrCat("this form of argument is not one that ", v1::Op_Name(wire.op()),
                                    " takes; graph.proto says which op takes which"));
  }
  switch (wire.arg_case()) {
    case v1::UOp::ARG_NOT_SET: return Arg();
    case v1::UOp::kConstant: {
      KILN_ASSIGN_OR_RETURN(ConstArg value, ReadConst(wire.constant()));
      return Arg(value);
    }
    case v1::UOp::kBuffer: return ReadBuffer(wire.buffer());
    case v1::UOp::kAxes: return Arg(AxesArg{{wire.axes().axis().begin(), wire.axes().axis().end()}});
    case v1::UOp::kFlip: return Arg(AxesArg{{wire.flip().axis().begin(), wire.flip().axis().end()}});
    case v1::UOp::kReduce: {
      if (!IsCoreOp(wire.reduce().op())) return BadArgument("REDUCE folds with ADD, MUL or MAX");
      return Arg(
          ReduceArg{static_cast<Op>(wire.reduce().op()), {wire.reduce().axis().begin(), wire.reduce().axis().end()}});
    }
    case v1::UOp::kPad: {
      if (!wire.pad().has_fill()) return Arg();
      KILN_ASSIGN_OR_RETURN(ConstArg fill, ReadConst(wire.pad().fill()));
      if (fill.invalid) return Arg();
      return Arg(fill);
    }
    case v1::UOp::kCastTo: {
      KILN_ASSIGN_OR_RETURN(DType dtype, ReadDType(wire.cast_to()));
      if (dtype == DType::kVoid || IsWeak(dtype)) return BadArgument(absl::StrCat("a cast to ", Name(dtype)));
      return Arg(dtype);
    }
    case v1::UOp::kIndex: return Arg(wire.index());
    case v1::UOp::kLoad: {
      KILN_RETURN_IF_ERROR(ReadDevice(wire.load().device()).status());
      if (wire.load().addrspace() > v1::GLOBAL)
        return MakeError(v1::UNSUPPORTED_OP, "a LOAD into another address space is not supported yet");
      return Arg();
    }
    case v1::UOp::kRange: {
      const auto& range = wire.range();
      if (range.axis_id_size() != 1 || range.type() < 0 || range.type() > v1::AXIS_OUTER)
        return BadArgument("RANGE wants one axis id and a type");
      return Arg(RangeArg{range.axis_id(0), static_cast<AxisType>(range.type())});
    }
    case v1::UOp::kSpecial: return Arg(TextArg{wire.special().name()});
    case v1::UOp::kWmma: {
      KILN_ASSIGN_OR_RETURN(const DType in, ReadDType(wire.wmma().dtype_in()));
      KILN_ASSIGN_OR_RETURN(const DType out, ReadDType(wire.wmma().dtype_out()));
      return Arg(WmmaArg{wire.wmma().n(), wire.wmma().m(), wire.wmma().k(), in, out, wire.wmma().threads()});
    }
    case v1::UOp::kData: return Arg(TextArg{wire.data()});
    case v1::UOp::kKernel: return ReadKernel(wire);
    default:
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("this argument of ", v1::Op_Name(wire.op()), " is not supported yet"));
  }
}

bool IsElementwiseSpelling(v1::Op op) {
  return (IsCoreOp(op) && IsElementwise(static_cast<Op>(op))) || op == v1::SUB || op == v1::MULACC || op == v1::IDIV ||
         op == v1::MOD || (op >= v1::CMPGT && op <= v1::CMPEQ);
}

// What reading one graph remembers from node to node.
struct Reading {
  Reading(const v1::Graph& wire, const Limits& limits, Graph& graph)
      : wire(wire), limits(limits), graph(graph), inliner(graph, limits.max_nodes) {
    for (const v1::UOp& node : wire.nodes()) {
      if (node.op() == v1::FUNCTION && node.src_size() > 0) ++uses_of_body[node.src(0)];
    }
  }

  const v1::Graph& wire;
  const Limits& limits;
  Graph& graph;
  FunctionInliner inliner;
  absl::flat_hash_map<uint32_t, int> uses_of_body;  // by FUNCTIONs
  std::vector<UOp*> made;                           // by node
};

// FUNCTION, CALL and GETTUPLE, resolved; nullptr for any other op.
absl::StatusOr<UOp*> ResolveCall(Reading& reading, const v1::UOp& node, absl::Span<UOp* const> src, const Arg& arg) {
  if (node.op() == v1::FUNCTION && !src.empty())
    return reading.inliner.Function(src[0], src.subspan(1), reading.uses_of_body[node.src(0)] > 1);
  if (node.op() == v1::CALL && !src.empty()) return reading.inliner.Call(src[0], src.subspan(1));
  if (node.op() != v1::GETTUPLE) return nullptr;
  KILN_ASSIGN_OR_RETURN(UOp * element, reading.graph.TryMake(Op::GETTUPLE, src, arg));
  return element->src(0)->src(static_cast<size_t>(std::get<int64_t>(arg)));
}

absl::StatusOr<UOp*> ReadNode(Reading& reading, uint32_t index) {
  const v1::Graph& wire = reading.wire;
  const std::vector<UOp*>& made = reading.made;
  const Limits& limits = reading.limits;
  Graph& graph = reading.graph;
  const v1::UOp& node = wire.nodes(index);
  if (!v1::Op_IsValid(node.op()) || node.op() == v1::OP_UNSPECIFIED) {
    return MakeError(v1::UNKNOWN_OP,
                     absl::StrCat("op number ", static_cast<int>(node.op()), " is not one this server knows"));
  }
  std::vector<UOp*> src;
  src.reserve(node.src_size());
  for (uint32_t source : node.src()) {
    if (source >= static_cast<uint32_t>(wire.nodes_size())) {
      return MakeError(v1::SOURCE_OUT_OF_RANGE,
                       absl::StrCat("source ", source, " of a graph of ", wire.nodes_size(), " nodes"));
    }
    if (source >= index) {
      return MakeError(v1::GRAPH_CYCLE,
                       absl::StrCat("source ", source, " is not before its user; nodes must be in topological order"));
    }
    src.push_back(made[source]);
  }
  KILN_ASSIGN_OR_RETURN(Arg arg, ReadArg(node));
  if (IsElementwiseSpelling(node.op())) KILN_RETURN_IF_ERROR(MeetSources(graph, src, node.op() == v1::WHERE ? 1 : 0));
  if (node.op() == v1::STACK) {
    if (src.size() > limits.max_stack_sources)
      return TooLarge("sources of a STACK", limits.max_stack_sources, src.size());
    KILN_RETURN_IF_ERROR(MeetSources(graph, src, 0));
  }
  KILN_RETURN_IF_ERROR(SettleWeak(graph, node.op(), src));
  KILN_ASSIGN_OR_RETURN(UOp * uop, ResolveCall(reading, node, src, arg));
  if (uop == nullptr) {
    KILN_ASSIGN_OR_RETURN(uop, MakeSpelled(graph, node.op(), wire.dialect(), std::move(src), std::move(arg)));
  }
  if (node.dtype() != v1::DTYPE_UNSPECIFIED && FromWire(node.dtype()) != uop->dtype()) {
    return MakeError(v1::DTYPE_MISMATCH, absl::StrCat("the node says it is ", v1::DType_Name(node.dtype()),
                                                      " but derives as ", Name(uop->dtype())));
  }
  return uop;
}

void WriteArg(const UOp& uop, v1::UOp& wire) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, ConstArg>) {
          v1::ConstArg* constant = uop.op() == Op::PAD ? wire.mutable_pad()->mutable_fill() : wire.mutable_constant();
          constant->set_dtype(ToWire(value.dtype));
          if (value.invalid) {
            constant->set_invalid(true);
          } else if (value.dtype == DType::kBool) {
            constant->set_b(value.bits != 0);
          } else if (IsSigned(value.dtype)) {
            constant->set_i(static_cast<int64_t>(value.bits));
          } else if (IsUnsigned(value.dtype)) {
            constant->set_u(value.bits);
          } else {
            constant->set_bits(value.bits);
          }
        } else if constexpr (std::is_same_v<T, BufferArg>) {
          v1::BufferArg* buffer = wire.mutable_buffer();
          buffer->set_slot(value.slot);
          buffer->set_dtype(ToWire(value.dtype));
          if (!value.device.empty()) buffer->add_device(value.device);
          buffer->set_addrspace(static_cast<v1::AddrSpace>(value.addrspace));
          buffer->set_name(value.name);
        } else if constexpr (std::is_same_v<T, AxesArg>) {
          if (uop.op() == Op::FLIP) {
            for (int64_t flag : value.axes) wire.mutable_flip()->add_axis(flag != 0);
            wire.mutable_flip();
          } else {
            wire.mutable_axes()->mutable_axis()->Add(value.axes.begin(), value.axes.end());
          }
        } else if constexpr (std::is_same_v<T, ReduceArg>) {
          wire.mutable_reduce()->set_op(static_cast<v1::Op>(value.op));
          wire.mutable_reduce()->mutable_axis()->Add(value.axes.begin(), value.axes.end());
        } else if constexpr (std::is_same_v<T, RangeArg>) {
          wire.mutable_range()->add_axis_id(value.id);
          wire.mutable_range()->set_type(static_cast<v1::AxisType>(value.type));
        } else if constexpr (std::is_same_v<T, TextArg>) {
          if (uop.op() == Op::BINARY) {
            wire.set_data(value.text);
          } else if (uop.op() == Op::SPECIAL) {
            wire.mutable_special()->set_name(value.text);
          } else {
            wire.mutable_kernel()->set_name(value.text);
          }
        } else if constexpr (std::is_same_v<T, KernelArg>) {
          v1::KernelInfo* info = wire.mutable_kernel();
          info->set_name(value.name);
          info->set_dont_use_locals(value.dont_use_locals);
          for (const OptArg& opt : value.opts) {
            v1::OptOp* made = info->add_opts();
            made->set_kind(static_cast<v1::OptOp::Kind>(opt.kind));
            made->set_axis(opt.axis);
            made->mutable_arg()->Add(opt.arg.begin(), opt.arg.end());
          }
        } else if constexpr (std::is_same_v<T, WmmaArg>) {
          v1::WmmaArg* wmma = wire.mutable_wmma();
          wmma->set_n(value.n);
          wmma->set_m(value.m);
          wmma->set_k(value.k);
          wmma->set_dtype_in(ToWire(value.in));
          wmma->set_dtype_out(ToWire(value.out));
          wmma->set_threads(value.threads);
        } else if constexpr (std::is_same_v<T, DType>) {
          wire.set_cast_to(ToWire(value));
        } else if constexpr (std::is_same_v<T, int64_t>) {
          wire.set_index(value);
        }
      },
      uop.arg());
}

}  // namespace

absl::StatusOr<UOp*> FromWire(const v1::Graph& wire, const Limits& limits, Graph& graph) {
  if (wire.nodes_size() == 0) return MakeError(v1::GRAPH_EMPTY, "the graph has no nodes; its last node is its root");
  if (static_cast<uint32_t>(wire.nodes_size()) > limits.max_nodes)
    return TooLarge("nodes", limits.max_nodes, wire.nodes_size());
  if (wire.ByteSizeLong() > limits.max_bytes) return TooLarge("bytes", limits.max_bytes, wire.ByteSizeLong());
  if (!v1::Dialect_IsValid(wire.dialect())) return BadArgument("an unknown dialect");

  Reading reading(wire, limits, graph);
  reading.made.reserve(wire.nodes_size());
  std::vector<uint64_t> depth(wire.nodes_size(), 1);
  for (int i = 0; i < wire.nodes_size(); ++i) {
    absl::StatusOr<UOp*> uop = ReadNode(reading, i);
    if (!uop.ok()) {
      const v1::UOp& node = wire.nodes(i);
      const std::string name =
          v1::Op_IsValid(node.op()) ? v1::Op_Name(node.op()) : absl::StrCat(static_cast<int>(node.op()));
      return Annotate(WithNode(uop.status(), i, name, node.tag()), absl::StrCat("node ", i, " (", name, ")"));
    }
    reading.made.push_back(*uop);
    graph.SetOrigin(*uop, static_cast<uint32_t>(i));
    const v1::UOp& node = wire.nodes(i);
    // The arguments of a function come to stand below its body.
    const bool call = node.op() == v1::FUNCTION || node.op() == v1::CALL;
    for (int k = call ? 1 : 0; k < node.src_size(); ++k) depth[i] = std::max(depth[i], depth[node.src(k)] + 1);
    if (call) depth[i] += depth[node.src(0)];
    if (depth[i] > limits.max_depth) return TooLarge("levels of depth", limits.max_depth, depth[i]);
  }
  UOp* root = reading.made.back();
  // A program may be one CALL: then its STOREs are all there is.
  return wire.nodes(wire.nodes_size() - 1).op() == v1::CALL && root->op() == Op::GROUP ? graph.Make(Op::SINK, {root})
                                                                                       : root;
}

v1::Graph ToWire(UOp* root) {
  v1::Graph wire;
  absl::flat_hash_map<UOp*, uint32_t> number;
  for (UOp* uop : Toposort(root)) {
    number[uop] = wire.nodes_size();
    v1::UOp* node = wire.add_nodes();
    node->set_op(static_cast<v1::Op>(uop->op()));
    node->set_dtype(ToWire(uop->dtype()));
    for (UOp* source : uop->src()) node->add_src(number[source]);
    WriteArg(*uop, *node);
  }
  return wire;
}

}  // namespace kiln::compiler
