#include "compiler/target/cstyle/alu_text.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

std::string Call(const std::string& function, absl::Span<const Expression> operands) {
  std::string text = absl::StrCat(function, "(", operands[0].text);
  for (const Expression& operand : operands.subspan(1)) absl::StrAppend(&text, ",", operand.text);
  return text + ")";
}

std::string Infix(const char* sign, const std::string& a, const std::string& b) {
  // A slash and the star of what is read from memory would begin a comment.
  const bool comment = absl::string_view(sign) == "/" && absl::StartsWith(b, "*");
  return absl::StrCat("(", a, sign, comment ? " " : "", b, ")");
}

// -- Which operator an op is, where it is one.

const char* SignOf(Op op) {
  switch (As<AluOp>(op)) {
    case AluOp::ADD: return "+";
    case AluOp::MUL: return "*";
    case AluOp::XOR: return "^";
    case AluOp::OR: return "|";
    case AluOp::AND: return "&";
    case AluOp::CMPLT: return "<";
    case AluOp::CMPNE: return "!=";
    case AluOp::FDIV:
    case AluOp::CDIV:
    case AluOp::FLOORDIV: return "/";
    case AluOp::CMOD:
    case AluOp::FLOORMOD: return "%";
    case AluOp::SHL: return "<<";
    case AluOp::SHR: return ">>";
    // Functions, choices and casts.
    case AluOp::RECIPROCAL:
    case AluOp::TRUNC:
    case AluOp::CAST:
    case AluOp::EXP2:
    case AluOp::LOG2:
    case AluOp::SIN:
    case AluOp::SQRT:
    case AluOp::MAX:
    case AluOp::POW:
    case AluOp::THREEFRY:
    case AluOp::WHERE: break;
  }
  return nullptr;
}

// Whether C's operator gives what the op means for every value the operands can have.
bool OperatorWillDo(const UOp& uop) {
  const Bounds& a = uop.src(0)->bounds();
  const UOp* b = uop.src(1);
  switch (uop.op()) {
    case Op::CDIV:
    case Op::CMOD: return b->IsConst() && (IsUnsigned(b->dtype()) ? b->const_int() != 0 : b->const_int() > 0);
    case Op::FLOORDIV:
    case Op::FLOORMOD:
      return b->IsConst() && (IsUnsigned(b->dtype()) ? b->const_int() != 0 : b->const_int() > 0 && a.min >= 0);
    case Op::SHL:
    case Op::SHR: return b->IsConst() && b->const_int() >= 0 && b->const_int() < Bits(b->dtype());
    default: return true;
  }
}

Helper HelperOf(Op op, bool is_signed) {
  switch (op) {
    case Op::CDIV: return Helper::kQuotient;
    case Op::CMOD: return Helper::kRemainder;
    case Op::FLOORDIV: return is_signed ? Helper::kFloorQuotient : Helper::kQuotient;
    case Op::FLOORMOD: return is_signed ? Helper::kFloorRemainder : Helper::kRemainder;
    case Op::SHL: return Helper::kShiftLeft;
    default: KILN_CHECK(op == Op::SHR); return Helper::kShiftRight;
  }
}

// As integers of one bit: x / 1 is x, x / 0 is 0, and a count of 1 is the width.
std::string BoolText(Op op, const std::string& a, const std::string& b) {
  switch (As<AluOp>(op)) {
    case AluOp::ADD:
    case AluOp::MAX:
    case AluOp::OR: return Infix("|", a, b);
    case AluOp::MUL:
    case AluOp::AND:
    case AluOp::FLOORDIV:
    case AluOp::CDIV: return Infix("&", a, b);
    case AluOp::FLOORMOD:
    case AluOp::CMOD:
    case AluOp::SHL:
    case AluOp::SHR: return absl::StrCat("(", a, "&(!", b, "))");
    case AluOp::XOR:
    case AluOp::CMPLT:
    case AluOp::CMPNE: return Infix(SignOf(op), a, b);
    // Of floats or uint64 alone, or of any dtype (AluText).
    case AluOp::RECIPROCAL:
    case AluOp::TRUNC:
    case AluOp::CAST:
    case AluOp::EXP2:
    case AluOp::LOG2:
    case AluOp::SIN:
    case AluOp::SQRT:
    case AluOp::FDIV:
    case AluOp::POW:
    case AluOp::THREEFRY:
    case AluOp::WHERE: break;
  }
  KILN_CHECK(false);
  return {};
}

bool Strips(Op op) { return op == Op::ADD || op == Op::MUL || op == Op::XOR; }

// Sums of sums lose the inner parentheses: on the left always, on the right only
// where the order of additions does not matter.
std::string Inner(const Expression& operand, Op op, bool may_strip) {
  if (!may_strip || !operand.strippable || operand.op != op) return operand.text;
  return operand.text.substr(1, operand.text.size() - 2);
}

// Whether an int may outgrow its type, which means nothing in C.
bool MayOverflow(const UOp& uop) {
  const DType dtype = uop.dtype();
  if (!IsInt(dtype) || IsUnsigned(dtype) || ItemSize(dtype) < 4) return false;  // narrower ones are computed as ints
  const Bounds &a = uop.src(0)->bounds(), &b = uop.src(1)->bounds(), of = BoundsOf(dtype);
  if (uop.op() == Op::ADD) return a.min + b.min < of.min || a.max + b.max > of.max;
  if (uop.op() != Op::MUL) return false;
  for (const __int128 product : {a.min * b.min, a.min * b.max, a.max * b.min, a.max * b.max}) {
    if (product < of.min || product > of.max) return true;
  }
  return false;
}

Expression OperatorText(Prelude& prelude, const UOp& uop, DType dtype, absl::Span<const Expression> operands) {
  const Op op = uop.op();
  if (!prelude.dialect().ints_wrap && MayOverflow(uop)) {
    const std::string as = absl::StrCat("(", prelude.Type(UnsignedOfSize(ItemSize(dtype))), ")");
    return {
        absl::StrCat("(", prelude.Type(dtype), ")", Infix(SignOf(op), as + operands[0].text, as + operands[1].text)),
        dtype};
  }
  std::string a = Inner(operands[0], op, Strips(op));
  const std::string b = Inner(operands[1], op, Strips(op) && !IsFloat(dtype));
  // An index that may outgrow int is made in its own type from the start.
  const bool grows = dtype == kIndexType && operands[0].dtype != kIndexType && operands[1].dtype != kIndexType;
  if (grows) a = absl::StrCat("(", prelude.Type(kIndexType), ")(", operands[0].text, ")");
  Expression result{Infix(SignOf(op), a, b), dtype, Strips(op), op};
  // What is narrower than an int is computed as one.
  if (IsInt(dtype) && ItemSize(dtype) < 4) {
    result = {absl::StrCat("(", prelude.Type(dtype), ")", result.text), dtype};
  }
  return result;
}

std::string MaxText(Prelude& prelude, DType dtype, absl::Span<const Expression> operands) {
  const absl::string_view pattern = prelude.dialect().int_max;
  if (dtype == DType::kInt32 && !pattern.empty() && operands[0].dtype == dtype && operands[1].dtype == dtype) {
    return absl::StrReplaceAll(pattern, {{"$0", operands[0].text}, {"$1", operands[1].text}});
  }
  return Call(prelude.Use(Helper::kMax, dtype), operands);
}

std::string FunctionText(const Dialect& dialect, const UOp& uop, absl::Span<const Expression> operands) {
  const FunctionRow* row = dialect.FunctionOf(uop.op(), uop.dtype());
  KILN_CHECK(row != nullptr);
  std::vector<std::pair<std::string, std::string>> replacements = {{"$0", operands[0].text}};
  if (operands.size() > 1) replacements.emplace_back("$1", operands[1].text);
  return absl::StrReplaceAll(row->pattern, replacements);
}

// -- Casts

bool FitsFloat32(DType dtype) { return dtype == DType::kBool || ItemSize(dtype) < 4 || dtype == DType::kFloat32; }

std::string Plain(Prelude& prelude, DType to, const std::string& x) {
  return absl::StrCat("(", prelude.Type(to), ")(", x, ")");
}

// Rounds once: what float32 cannot hold keeps a sticky bit on the way.
std::string ToBfloat(Prelude& prelude, DType from, std::string x) {
  if (!FitsFloat32(from)) {
    x = absl::StrCat(prelude.Use(Helper::kToOdd, from), "(", x, ")");
  } else if (from != DType::kFloat32) {
    x = CastText(prelude, from, DType::kFloat32, x);
  }
  return absl::StrCat(prelude.Use(Helper::kToBfloat, DType::kFloat32), "(", x, ")");
}

}  // namespace

std::string CastText(Prelude& prelude, DType from, DType to, const std::string& x) {
  if (from == to) return x;
  if (to == DType::kBfloat16) return ToBfloat(prelude, from, x);
  if (from == DType::kBfloat16) {
    return CastText(prelude, DType::kFloat32, to,
                    absl::StrCat(prelude.Use(Helper::kFromBfloat, DType::kFloat32), "(", x, ")"));
  }
  if (from == DType::kFloat16 && to != DType::kFloat32)
    return CastText(prelude, DType::kFloat32, to, Plain(prelude, DType::kFloat32, x));
  if (to == DType::kFloat16 && from != DType::kFloat32 && FitsFloat32(from))
    return Plain(prelude, to, Plain(prelude, DType::kFloat32, x));
  if (to == DType::kFloat16 && IsInt(from))
    return Plain(prelude, to, absl::StrCat(prelude.Use(Helper::kToOdd, from), "(", x, ")"));
  if (to == DType::kBool) return absl::StrCat("(", x, "!=0)");
  if (IsFloat(from) && IsInt(to)) {
    const Helper helper = from == DType::kFloat64 ? Helper::kFromDouble : Helper::kFromFloat;
    return absl::StrCat(prelude.Use(helper, to), "(", x, ")");
  }
  return Plain(prelude, to, x);
}

Expression AluText(Prelude& prelude, const UOp& uop, DType dtype, absl::Span<const Expression> operands) {
  const Op op = uop.op();
  const DType from = uop.src(0)->dtype();
  switch (op) {
    case Op::CAST: return {CastText(prelude, operands[0].dtype, dtype, operands[0].text), dtype};
    case Op::WHERE:
      return {absl::StrCat("(", operands[0].text, "?", operands[1].text, ":", operands[2].text, ")"), dtype};
    case Op::RECIPROCAL: return {Infix("/", from == DType::kFloat64 ? "1.0" : "1.0f", operands[0].text), dtype};
    case Op::TRUNC:
      if (!IsFloat(from)) return operands[0];
      break;
    default: break;
  }
  if (from == DType::kBool) return {BoolText(op, operands[0].text, operands[1].text), dtype};
  if (op == Op::MAX) return {MaxText(prelude, dtype, operands), dtype};
  if (SignOf(op) == nullptr) return {FunctionText(prelude.dialect(), uop, operands), dtype};
  if (!OperatorWillDo(uop)) return {Call(prelude.Use(HelperOf(op, IsSigned(dtype)), dtype), operands), dtype};
  return OperatorText(prelude, uop, dtype, operands);
}

}  // namespace kiln::compiler
