#include "compiler/import/wire_args.h"

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/const_value.h"
#include "base/error.h"
#include "compiler/import/spellings.h"
#include "compiler/ir/devices.h"

namespace kiln::compiler {
namespace {

absl::Status BadArgument(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, text); }

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

}  // namespace

absl::StatusOr<Arg> ReadBuffer(const v1::BufferArg& wire) {
  BufferArg arg;
  arg.slot = wire.slot();
  // Storage inside a kernel may be the importer's own (program_importer.cc), numbered higher.
  const uint32_t slots = wire.addrspace() == v1::LOCAL || wire.addrspace() == v1::REG ? 1u << 25 : 1u << 16;
  if (wire.slot() >= slots) return BadArgument(absl::StrCat("slot ", wire.slot(), "; slots are below ", slots));
  KILN_ASSIGN_OR_RETURN(arg.dtype, ReadDType(wire.dtype()));
  if (arg.dtype == DType::kVoid || IsWeak(arg.dtype))
    return BadArgument(absl::StrCat("storage of dtype ", Name(arg.dtype)));
  KILN_ASSIGN_OR_RETURN(arg.device, JoinDevices(wire.device()));
  switch (wire.addrspace()) {
    case v1::ADDRSPACE_UNSPECIFIED:
    case v1::GLOBAL: break;
    case v1::LOCAL:
    case v1::REG: arg.addrspace = static_cast<AddrSpace>(wire.addrspace()); break;
    case v1::ALU:
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("address space ", v1::AddrSpace_Name(wire.addrspace()), " is not supported yet"));
    default: return BadArgument("an unknown address space");
  }
  arg.name = wire.name();
  return Arg(arg);
}

namespace {

Arg ReadKernel(const v1::UOp& wire) {
  const v1::KernelInfo& info = wire.kernel();
  if (wire.op() == v1::CALL) return TextArg{info.name()};
  KernelArg arg{info.name(), {}, info.dont_use_locals(), {}};
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
    case v1::UOp::kAxes:  // older ones have their shapes there
      return op == v1::PERMUTE || op == v1::RESHAPE || op == v1::EXPAND || op == v1::PAD || op == v1::SHRINK;
    case v1::UOp::kFlip: return op == v1::FLIP;
    case v1::UOp::kReduce: return op == v1::REDUCE;
    case v1::UOp::kPad: return op == v1::PAD;
    case v1::UOp::kCastTo: return op == v1::CAST || op == v1::BITCAST;
    case v1::UOp::kIndex: return op == v1::GETTUPLE || op == v1::REPLICATED;
    case v1::UOp::kLoad: return op == v1::LOAD || op == v1::COPY || op == v1::CONTIGUOUS;
    case v1::UOp::kRange: return op == v1::RANGE;
    case v1::UOp::kSpecial: return op == v1::SPECIAL;
    case v1::UOp::kWmma: return op == v1::WMMA;
    case v1::UOp::kData: return op == v1::BINARY;
    case v1::UOp::kKernel: return op == v1::SINK || op == v1::CALL || op == v1::LINEAR;
    default: return false;
  }
}

}  // namespace

absl::StatusOr<Arg> ReadArg(const v1::UOp& wire) {
  if (!IsCoreOp(wire.op()) && !IsSpelling(wire.op())) return Arg();       // not built yet, as MakeSpelled will say
  if (wire.op() == v1::CUSTOM || wire.op() == v1::CUSTOMI) return Arg();  // program_importer.cc reads it, where allowed
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
      if (!IsCoreOp(wire.reduce().op())) return BadArgument("REDUCE takes ADD, MUL or MAX");
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
      KILN_ASSIGN_OR_RETURN(std::string device, JoinDevices(wire.load().device()));
      if (wire.load().addrspace() > v1::GLOBAL)
        return MakeError(v1::UNSUPPORTED_OP, "a LOAD into another address space is not supported yet");
      return device.empty() ? Arg() : Arg(TextArg{std::move(device)});
    }
    case v1::UOp::kRange: return Arg();
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
          for (std::string& device : SplitDevices(value.device)) buffer->add_device(std::move(device));
          buffer->set_addrspace(static_cast<v1::AddrSpace>(value.addrspace));
          buffer->set_name(value.name);
          if (value.addrspace == AddrSpace::kAlu) {
            buffer->set_min_value(value.min);
            buffer->set_max_value(value.max);
          }
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
          } else if (uop.op() == Op::LOAD) {
            for (std::string& device : SplitDevices(value.text)) wire.mutable_load()->add_device(std::move(device));
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
        } else if constexpr (std::is_same_v<T, CodeArg>) {
          wire.set_text(value.text);
        } else if constexpr (std::is_same_v<T, DType>) {
          wire.set_cast_to(ToWire(value));
        } else if constexpr (std::is_same_v<T, int64_t>) {
          wire.set_index(value);
        }
      },
      uop.arg());
}

}  // namespace kiln::compiler
