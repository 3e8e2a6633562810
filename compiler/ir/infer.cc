#include "compiler/ir/infer.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::compiler {
namespace {

absl::Status CheckSourceCount(const UOp& uop) {
  const OpInfo& info = Info(uop.op());
  const int count = static_cast<int>(uop.src().size());
  if (count >= info.min_sources && (info.max_sources < 0 || count <= info.max_sources)) return absl::OkStatus();
  std::string expected = info.max_sources == info.min_sources ? absl::StrCat(info.min_sources)
                         : info.max_sources < 0 ? absl::StrCat(info.min_sources, " or more")
                                                : absl::StrCat(info.min_sources, " to ", info.max_sources);
  return MakeError(v1::WRONG_SOURCE_COUNT, absl::StrCat(info.name, " takes ", expected, " sources, not ", count));
}

bool Fits(ArgForm form, const Arg& arg) {
  const bool none = std::holds_alternative<std::monostate>(arg);
  switch (form) {
    case ArgForm::kNoArg: return none;
    case ArgForm::kBuffer: return std::holds_alternative<BufferArg>(arg);
    case ArgForm::kConst: return std::holds_alternative<ConstArg>(arg);
    case ArgForm::kText: return std::holds_alternative<TextArg>(arg);
    case ArgForm::kCode: return std::holds_alternative<CodeArg>(arg);
    case ArgForm::kWmma: return std::holds_alternative<WmmaArg>(arg);
    case ArgForm::kAxes: return std::holds_alternative<AxesArg>(arg);
    case ArgForm::kReduce: return std::holds_alternative<ReduceArg>(arg);
    case ArgForm::kDType: return std::holds_alternative<DType>(arg);
    case ArgForm::kInteger: return std::holds_alternative<int64_t>(arg);
    case ArgForm::kRange: return std::holds_alternative<RangeArg>(arg);
    case ArgForm::kConstOrNone: return none || std::holds_alternative<ConstArg>(arg);
    case ArgForm::kKernelOrNone: return none || std::holds_alternative<KernelArg>(arg);
    case ArgForm::kTextOrNone: return none || std::holds_alternative<TextArg>(arg);
  }
  return false;
}

absl::Status CheckArg(const UOp& uop) {
  if (Fits(Info(uop.op()).arg, uop.arg())) return absl::OkStatus();
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(Name(uop.op()),
                                                  " has an argument of the wrong form, or lacks its own; "
                                                  "graph.proto says which form each op takes"));
}

// Of a shape with symbolic sizes: a pass may flatten any tensor.
absl::Status CheckFlatSize(Graph& graph, const Shape& shape) {
  Polynomial product(1);
  for (const Dim& size : shape) product = product * PolynomialOf(graph, size);
  const std::optional<Bounds> range = product.Range();
  if (range.has_value() && range->max <= kMaxElements && IsSize(graph, product)) return absl::OkStatus();
  return MakeError(v1::SIZE_OVERFLOW, absl::StrCat("the number of elements of shape ", ToString(shape),
                                                   " is too large, or too long an expression"));
}

absl::Status CheckSize(Graph& graph, const Shape& shape) {
  if (shape.size() > kMaxRank) {
    return MakeError(v1::SIZE_OVERFLOW,
                     absl::StrCat("a tensor of ", shape.size(), " axes; at most ", kMaxRank, " are allowed"));
  }
  __int128 elements = 1;
  bool empty = false;
  for (const Dim& size : shape) {
    empty |= size == 0;
    elements *= std::max<int64_t>(size.max(), 1);
    if (elements > kMaxElements) break;
  }
  // Counted without the zeros, so that no other shape of the same tensor overflows.
  if (elements <= kMaxElements) return IsConst(shape) ? absl::OkStatus() : CheckFlatSize(graph, shape);
  return MakeError(v1::SIZE_OVERFLOW, absl::StrCat("shape ", ToString(shape), empty ? " (but for its empty axes)" : "",
                                                   " has more than ", kMaxElements, " elements"));
}

}  // namespace

absl::Status Inference::Run(Graph& graph, UOp& uop) {
  KILN_RETURN_IF_ERROR(CheckSourceCount(uop));
  KILN_RETURN_IF_ERROR(CheckArg(uop));
  KILN_ASSIGN_OR_RETURN(uop.dtype_, InferDType(uop));
  KILN_ASSIGN_OR_RETURN(uop.shape_, InferShape(graph, uop));
  KILN_RETURN_IF_ERROR(CheckSize(graph, uop.shape_));

  if (const auto* buffer = std::get_if<BufferArg>(&uop.arg_)) {
    uop.addrspace_ = buffer->addrspace;
  } else if (Is(uop.op_, kMovement | kMarker) || uop.op_ == Op::AFTER) {
    if (!uop.src_.empty()) uop.addrspace_ = uop.src_[0]->addrspace();
  }
  uop.bounds_ = InferBounds(uop);
  return Place(graph, uop);
}

}  // namespace kiln::compiler
