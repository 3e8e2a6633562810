#include "base/graph/canonical_arg.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/const_value.h"
#include "base/error.h"
#include "base/op_names.h"
#include "google/protobuf/repeated_field.h"

namespace kiln {
namespace {

// Kinds of a constant.
constexpr char kValue = 0;
constexpr char kInvalid = 1;
constexpr char kDecimal = 2;

void AppendU8(uint8_t value, std::string& out) { out.push_back(static_cast<char>(value)); }

void AppendU64(uint64_t value, std::string& out) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void AppendI64(int64_t value, std::string& out) { AppendU64(static_cast<uint64_t>(value), out); }

void AppendI64s(const google::protobuf::RepeatedField<int64_t>& values, std::string& out) {
  AppendU32(values.size(), out);
  for (int64_t value : values) AppendI64(value, out);
}

void AppendStrings(const google::protobuf::RepeatedPtrField<std::string>& values, std::string& out) {
  AppendU32(values.size(), out);
  for (const std::string& value : values) AppendString(value, out);
}

absl::Status AppendOp(v1::Op op, std::string& out) {
  const absl::string_view name = OpName(op);
  if (name.empty()) return MakeError(v1::BAD_ARGUMENT, absl::StrCat("op ", op, " of the reduction is unknown"));
  AppendString(name, out);
  return absl::OkStatus();
}

absl::Status AppendConst(const v1::ConstArg& arg, std::string& out) {
  KILN_ASSIGN_OR_RETURN(const ConstValue value, CanonicalConst(arg));
  AppendU32(value.dtype, out);
  if (value.invalid) {
    out.push_back(kInvalid);
  } else if (!value.decimal.empty()) {
    out.push_back(kDecimal);
    AppendString(value.decimal, out);
  } else {
    out.push_back(kValue);
    AppendU64(value.bits, out);
  }
  return absl::OkStatus();
}

v1::AddrSpace AddrSpaceOf(const v1::UOp& uop) {
  const v1::AddrSpace given = uop.buffer().addrspace();
  if (given != v1::ADDRSPACE_UNSPECIFIED) return given;
  switch (uop.op()) {
    case v1::DEFINE_LOCAL: return v1::LOCAL;
    case v1::DEFINE_REG:
    case v1::DEFINE_ACC: return v1::REG;
    case v1::DEFINE_VAR: return v1::ALU;
    default: return v1::GLOBAL;
  }
}

void AppendBuffer(const v1::UOp& uop, std::string& out) {
  const v1::BufferArg& arg = uop.buffer();
  const v1::AddrSpace addrspace = AddrSpaceOf(uop);
  AppendU32(arg.slot(), out);
  AppendU32(arg.dtype(), out);
  AppendStrings(arg.device(), out);
  AppendU32(addrspace, out);
  AppendString(addrspace == v1::ALU ? absl::string_view(arg.name()) : absl::string_view(), out);
  AppendU8(arg.has_min_value(), out);
  if (arg.has_min_value()) AppendI64(arg.min_value(), out);
  AppendU8(arg.has_max_value(), out);
  if (arg.has_max_value()) AppendI64(arg.max_value(), out);
}

void AppendOpt(const v1::OptOp& opt, std::string& out) {
  AppendU32(opt.kind(), out);
  AppendI64(opt.axis(), out);
  AppendI64s(opt.arg(), out);
}

void AppendKernel(const v1::KernelInfo& arg, std::string& out) {
  AppendU32(arg.opts_size(), out);
  for (const v1::OptOp& opt : arg.opts()) AppendOpt(opt, out);
  AppendU8(arg.dont_use_locals(), out);
}

void AppendWmma(const v1::WmmaArg& arg, std::string& out) {
  AppendI64(arg.n(), out);
  AppendI64(arg.m(), out);
  AppendI64(arg.k(), out);
  AppendU32(arg.dtype_in(), out);
  AppendU32(arg.dtype_out(), out);
  AppendI64(arg.threads(), out);
  AppendU32(arg.upcast_axes_size(), out);
  for (const v1::AxesArg& axes : arg.upcast_axes()) AppendI64s(axes.axis(), out);
  AppendI64s(arg.reduce_axes(), out);
}

void AppendView(const v1::ViewArg& arg, std::string& out) {
  AppendU32(arg.view_size(), out);
  for (const v1::ViewArg::View& view : arg.view()) {
    AppendI64s(view.shape(), out);
    AppendI64s(view.stride(), out);
    AppendI64(view.offset(), out);
    AppendI64s(view.mask_begin(), out);
    AppendI64s(view.mask_end(), out);
  }
}

// A form that says only what its absence says counts as absent.
v1::UOp::ArgCase FormOf(const v1::UOp& uop) {
  const v1::UOp::ArgCase form = uop.arg_case();
  if (form == v1::UOp::kPad && (!uop.pad().has_fill() || uop.pad().fill().invalid())) return v1::UOp::ARG_NOT_SET;
  if (form == v1::UOp::kLoad && uop.load().device().empty() && uop.load().addrspace() == v1::ADDRSPACE_UNSPECIFIED) {
    return v1::UOp::ARG_NOT_SET;
  }
  return form;
}

}  // namespace

void AppendU32(uint32_t value, std::string& out) {
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void AppendString(absl::string_view text, std::string& out) {
  AppendU32(static_cast<uint32_t>(text.size()), out);
  out.append(text.data(), text.size());
}

absl::Status AppendCanonicalArg(const v1::UOp& uop, std::string& out, absl::string_view& rest) {
  rest = {};
  const v1::UOp::ArgCase form = FormOf(uop);
  AppendU8(form, out);
  switch (form) {
    case v1::UOp::ARG_NOT_SET: break;
    case v1::UOp::kConstant: return AppendConst(uop.constant(), out);
    case v1::UOp::kBuffer: AppendBuffer(uop, out); break;
    case v1::UOp::kAxes: AppendI64s(uop.axes().axis(), out); break;
    case v1::UOp::kFlip:
      AppendU32(uop.flip().axis_size(), out);
      for (bool flag : uop.flip().axis()) AppendU8(flag, out);
      break;
    case v1::UOp::kReduce:
      KILN_RETURN_IF_ERROR(AppendOp(uop.reduce().op(), out));
      AppendI64s(uop.reduce().axis(), out);
      break;
    case v1::UOp::kPad: return AppendConst(uop.pad().fill(), out);
    case v1::UOp::kCastTo: AppendU32(uop.cast_to(), out); break;
    case v1::UOp::kIndex: AppendI64(uop.index(), out); break;
    case v1::UOp::kLoad:
      AppendStrings(uop.load().device(), out);
      AppendU32(uop.load().addrspace(), out);
      break;
    case v1::UOp::kRange:
      AppendI64s(uop.range().axis_id(), out);
      AppendU32(uop.range().type(), out);
      break;
    case v1::UOp::kSpecial: AppendString(uop.special().name(), out); break;
    case v1::UOp::kKernel: AppendKernel(uop.kernel(), out); break;
    case v1::UOp::kWmma: AppendWmma(uop.wmma(), out); break;
    case v1::UOp::kText:
    case v1::UOp::kData:
      rest = form == v1::UOp::kText ? uop.text() : uop.data();
      AppendU32(static_cast<uint32_t>(rest.size()), out);
      break;
    case v1::UOp::kView: AppendView(uop.view(), out); break;
    case v1::UOp::kAllReduce:
      KILN_RETURN_IF_ERROR(AppendOp(uop.all_reduce().op(), out));
      AppendStrings(uop.all_reduce().device(), out);
      break;
    case v1::UOp::kOpt: AppendOpt(uop.opt(), out); break;
  }
  return absl::OkStatus();
}

}  // namespace kiln
