#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/graph/const_text.h"
#include "base/graph/enum_text.h"
#include "base/graph/graph_text.h"

namespace kiln {
namespace {

std::string Quote(absl::string_view text) { return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\""); }

template <typename Repeated>
std::string Ints(const Repeated& values) {
  return absl::StrCat("(", absl::StrJoin(values, ", "), ")");
}

template <typename Repeated>
std::string Strings(const Repeated& values) {
  return absl::StrCat(
      "(", absl::StrJoin(values, ", ", [](std::string* out, const std::string& value) { out->append(Quote(value)); }),
      ")");
}

std::string Constant(const v1::ConstArg& arg, v1::DType check) {
  if (arg.dtype() == check && check != v1::DTYPE_UNSPECIFIED) return PrintConstValue(arg);
  return absl::StrCat(PrintDType(arg.dtype()), " ", PrintConstValue(arg));
}

std::string Space(v1::AddrSpace space) {
  return space == v1::ADDRSPACE_UNSPECIFIED ? "" : absl::StrCat(" space=", PrintEnum(space));
}

template <typename Repeated>
std::string Device(const Repeated& device) {
  return device.empty() ? "" : absl::StrCat(" device=", Strings(device));
}

std::string Buffer(const v1::BufferArg& arg, v1::DType check) {
  std::string text = absl::StrCat("slot=", arg.slot());
  if (arg.dtype() != check) absl::StrAppend(&text, " dtype=", PrintDType(arg.dtype()));
  absl::StrAppend(&text, Device(arg.device()), Space(arg.addrspace()));
  if (!arg.name().empty()) absl::StrAppend(&text, " name=", Quote(arg.name()));
  if (arg.has_min_value()) absl::StrAppend(&text, " min=", arg.min_value());
  if (arg.has_max_value()) absl::StrAppend(&text, " max=", arg.max_value());
  return text;
}

std::string Opt(const v1::OptOp& opt) {
  return absl::StrCat(PrintEnum(opt.kind()), " ", opt.axis(), " ", Ints(opt.arg()));
}

std::string Kernel(const v1::KernelInfo& arg) {
  std::string text = "kernel";
  if (!arg.name().empty()) absl::StrAppend(&text, " name=", Quote(arg.name()));
  if (!arg.opts().empty()) {
    absl::StrAppend(
        &text, " opts=(",
        absl::StrJoin(arg.opts(), ", ", [](std::string* out, const v1::OptOp& opt) { out->append(Opt(opt)); }), ")");
  }
  return arg.dont_use_locals() ? text + " nolocals" : text;
}

std::string Wmma(const v1::WmmaArg& arg) {
  std::string text = absl::StrCat("wmma=(", arg.n(), ", ", arg.m(), ", ", arg.k(), ")");
  if (arg.dtype_in() != v1::DTYPE_UNSPECIFIED) absl::StrAppend(&text, " in=", PrintDType(arg.dtype_in()));
  if (arg.dtype_out() != v1::DTYPE_UNSPECIFIED) absl::StrAppend(&text, " out=", PrintDType(arg.dtype_out()));
  if (arg.threads() != 0) absl::StrAppend(&text, " threads=", arg.threads());
  if (!arg.upcast_axes().empty()) {
    absl::StrAppend(&text, " upcast=(",
                    absl::StrJoin(arg.upcast_axes(), ", ",
                                  [](std::string* out, const auto& axes) { out->append(Ints(axes.axis())); }),
                    ")");
  }
  if (!arg.reduce_axes().empty()) absl::StrAppend(&text, " reduce=", Ints(arg.reduce_axes()));
  return text;
}

std::string View(const v1::ViewArg::View& view) {
  std::string text =
      absl::StrCat("{shape=", Ints(view.shape()), " stride=", Ints(view.stride()), " offset=", view.offset());
  if (!view.mask_begin().empty()) absl::StrAppend(&text, " begin=", Ints(view.mask_begin()));
  if (!view.mask_end().empty()) absl::StrAppend(&text, " end=", Ints(view.mask_end()));
  return text + "}";
}

std::string Range(const v1::RangeArg& arg) {
  std::string text = absl::StrCat("range=", Ints(arg.axis_id()));
  if (arg.type() != v1::AXIS_TYPE_UNSPECIFIED) absl::StrAppend(&text, " type=", PrintEnum(arg.type(), "AXIS_"));
  return text;
}

}  // namespace

std::string PrintArg(const v1::UOp& uop) {
  switch (uop.arg_case()) {
    case v1::UOp::kConstant: return Constant(uop.constant(), uop.dtype());
    case v1::UOp::kBuffer: return Buffer(uop.buffer(), uop.dtype());
    case v1::UOp::kAxes: return absl::StrCat("axes=", Ints(uop.axes().axis()));
    case v1::UOp::kFlip: return absl::StrCat("flip=", Ints(uop.flip().axis()));
    case v1::UOp::kReduce: return absl::StrCat(PrintEnum(uop.reduce().op()), " axes=", Ints(uop.reduce().axis()));
    case v1::UOp::kPad:
      return uop.pad().has_fill() ? absl::StrCat("fill=", Constant(uop.pad().fill(), uop.dtype())) : "fill=";
    case v1::UOp::kCastTo: return absl::StrCat("to=", PrintDType(uop.cast_to()));
    case v1::UOp::kIndex: return absl::StrCat("index=", uop.index());
    case v1::UOp::kLoad: return absl::StrCat("load", Device(uop.load().device()), Space(uop.load().addrspace()));
    case v1::UOp::kRange: return Range(uop.range());
    case v1::UOp::kSpecial: return absl::StrCat("special=", Quote(uop.special().name()));
    case v1::UOp::kKernel: return Kernel(uop.kernel());
    case v1::UOp::kWmma: return Wmma(uop.wmma());
    case v1::UOp::kText: return absl::StrCat("text=", Quote(uop.text()));
    case v1::UOp::kData:
      // Every byte that is not ASCII is escaped: data need not be UTF-8.
      return absl::StrCat("data=\"", absl::CEscape(uop.data()), "\"");
    case v1::UOp::kView:
      return absl::StrCat(
          "views=(",
          absl::StrJoin(uop.view().view(), ", ", [](std::string* out, const auto& view) { out->append(View(view)); }),
          ")");
    case v1::UOp::kAllReduce:
      return absl::StrCat("allreduce=", PrintEnum(uop.all_reduce().op()), Device(uop.all_reduce().device()));
    case v1::UOp::kOpt: return absl::StrCat("opt=", Opt(uop.opt()));
    case v1::UOp::ARG_NOT_SET: break;
  }
  return "";
}

std::string PrintGraph(const v1::Graph& graph, const std::function<std::string(int)>& annotate) {
  std::string text;
  if (graph.dialect() != v1::DIALECT_UNSPECIFIED) absl::StrAppend(&text, "dialect ", PrintEnum(graph.dialect()), "\n");
  const size_t width = absl::StrCat(graph.nodes_size() - 1).size();
  for (int i = 0; i < graph.nodes_size(); ++i) {
    const v1::UOp& uop = graph.nodes(i);
    const std::string index = absl::StrCat(i);
    absl::StrAppend(&text, std::string(width - index.size(), ' '), index, " ", PrintEnum(uop.op()));
    if (uop.dtype() != v1::DTYPE_UNSPECIFIED) absl::StrAppend(&text, " : ", PrintDType(uop.dtype()));
    absl::StrAppend(&text, " [", absl::StrJoin(uop.src(), ", "), "]");
    if (const std::string arg = PrintArg(uop); !arg.empty()) absl::StrAppend(&text, " ", arg);
    if (!uop.tag().empty()) absl::StrAppend(&text, " @", Quote(uop.tag()));
    if (annotate != nullptr) {
      if (const std::string note = annotate(i); !note.empty()) absl::StrAppend(&text, "  # ", note);
    }
    text.push_back('\n');
  }
  return text;
}

}  // namespace kiln
