#include "compiler/testing/expression_text.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/dtype_names.h"
#include "base/op_names.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"

namespace kiln::compiler::testing {

namespace {

DType DTypeNamed(absl::string_view name) {
  const auto dtype = ParseDType(name);
  KILN_CHECK(dtype.has_value());
  return FromWire(*dtype);
}

class Parser {
 public:
  Parser(Graph& graph, absl::string_view text) : graph_(graph), text_(text) {}

  UOp* Parse() {
    UOp* uop = Expression();
    SkipSpace();
    KILN_CHECK(text_.empty());
    return uop;
  }

 private:
  void SkipSpace() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }

  absl::string_view Word() {
    SkipSpace();
    const size_t end = std::min(text_.find_first_of(" ()"), text_.size());
    const absl::string_view word = text_.substr(0, end);
    text_.remove_prefix(end);
    return word;
  }

  UOp* Expression() {
    SkipSpace();
    KILN_CHECK(!text_.empty());
    if (text_.front() != '(') return Atom(Word());
    text_.remove_prefix(1);
    absl::string_view head = Word();
    Arg arg;
    if (const size_t colon = head.find(':'); colon != absl::string_view::npos) {
      arg = DTypeNamed(head.substr(colon + 1));
      head = head.substr(0, colon);
    }
    const auto op = ParseOp(absl::AsciiStrToUpper(head));
    KILN_CHECK(op.has_value() && IsCoreOp(*op));
    std::vector<UOp*> src;
    for (SkipSpace(); !text_.empty() && text_.front() != ')'; SkipSpace()) src.push_back(Expression());
    KILN_CHECK(!text_.empty());
    text_.remove_prefix(1);
    return graph_.Make(static_cast<Op>(*op), src, std::move(arg));
  }

  UOp* Atom(absl::string_view word) {
    if (word == "true" || word == "false") return ConstInt(graph_, DType::kBool, word == "true");
    const size_t colon = word.find(':');
    const absl::string_view name = word.substr(0, colon);
    const DType dtype = colon == absl::string_view::npos ? kIndexType : DTypeNamed(word.substr(colon + 1));
    int64_t number = 0;
    double real = 0;
    if (IsIntOrBool(dtype) && absl::SimpleAtoi(name, &number)) return ConstInt(graph_, dtype, number);
    if (IsFloat(dtype) && absl::SimpleAtod(name, &real)) return ConstNumber(graph_, dtype, real);
    if (colon != absl::string_view::npos) {
      // The slot tells the names apart.
      const auto slot = static_cast<uint32_t>(name[0]) * 256 + (name.size() > 1 ? static_cast<uint32_t>(name[1]) : 0);
      BufferArg arg{slot, dtype};
      arg.name = std::string(name);
      return graph_.Make(Op::PARAM, {ShapeSource(graph_, {})}, arg);
    }
    KILN_CHECK(word[0] == 'r');
    const char letter =
        absl::ascii_isalpha(static_cast<unsigned char>(word.back())) && word.size() > 1 ? word.back() : '\0';
    const absl::string_view size = word.substr(1, word.size() - 1 - (letter != '\0'));
    KILN_CHECK(absl::SimpleAtoi(size, &number));
    return graph_.Make(Op::RANGE, {Idx(graph_, number)}, RangeArg{letter, AxisType::kLoop});
  }

  Graph& graph_;
  absl::string_view text_;
};

std::string ConstText(const UOp* uop) {
  const uint64_t bits = uop->arg_as<ConstArg>().bits;
  if (uop->dtype() == DType::kBool) return bits != 0 ? "true" : "false";
  const std::string value = IsFloat(uop->dtype())    ? absl::StrCat(FloatValue(uop->dtype(), bits))
                            : IsSigned(uop->dtype()) ? absl::StrCat(static_cast<int64_t>(bits))
                                                     : absl::StrCat(bits);
  return uop->dtype() == kIndexType ? value : absl::StrCat(value, ":", Name(uop->dtype()));
}

}  // namespace

UOp* ParseExpression(Graph& graph, absl::string_view text) { return Parser(graph, text).Parse(); }

std::string ExpressionText(const UOp* uop) {
  switch (uop->op()) {
    case Op::CONST: return ConstText(uop);
    case Op::PARAM: return absl::StrCat(uop->arg_as<BufferArg>().name, ":", Name(uop->dtype()));
    case Op::RANGE: {
      const char letter = static_cast<char>(uop->arg_as<RangeArg>().id);
      return absl::StrCat("r", uop->src(0)->const_int(), letter == '\0' ? "" : std::string(1, letter));
    }
    default: break;
  }
  std::string text = absl::StrCat("(", absl::AsciiStrToLower(Name(uop->op())));
  if (const auto* dtype = std::get_if<DType>(&uop->arg())) absl::StrAppend(&text, ":", Name(*dtype));
  for (const UOp* source : uop->src()) absl::StrAppend(&text, " ", ExpressionText(source));
  return text + ")";
}

}  // namespace kiln::compiler::testing
