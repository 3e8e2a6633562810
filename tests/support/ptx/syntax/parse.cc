#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "tests/support/ptx/syntax/syntax.h"
#include "tests/support/ptx/syntax/tokens.h"

namespace kiln::testing::ptx {
namespace {

// "12", "0x1F", "07", each perhaps with U; "0f3F800000" and "0d…" are a float's bits.
std::optional<uint64_t> NumberOf(absl::string_view text) {
  if (text.size() > 2 && text[0] == '0' && std::strchr("fFdD", text[1]) != nullptr) {
    const bool is_double = text[1] == 'd' || text[1] == 'D';
    if (text.size() != (is_double ? 18U : 10U)) return std::nullopt;
    const std::string digits(text.substr(2));
    char* end = nullptr;
    const uint64_t bits = std::strtoull(digits.c_str(), &end, 16);
    return *end == '\0' ? std::optional<uint64_t>(bits) : std::nullopt;
  }
  std::string digits(absl::StripSuffix(text, "U"));
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return std::nullopt;
  char* end = nullptr;
  const uint64_t value = std::strtoull(digits.c_str(), &end, 0);
  return *end == '\0' ? std::optional<uint64_t>(value) : std::nullopt;
}

std::optional<Space> SpaceOf(absl::string_view directive) {
  if (directive == ".global") return Space::kGlobal;
  if (directive == ".const") return Space::kConst;
  if (directive == ".shared") return Space::kShared;
  if (directive == ".local") return Space::kLocal;
  if (directive == ".param") return Space::kParam;
  return std::nullopt;
}

class Parser {
 public:
  explicit Parser(absl::string_view source) : tokens_(Tokenize(source)) {}

  absl::StatusOr<ModuleText> Module() {
    ModuleText module;
    bool is_extern = false;
    while (!Peek().empty()) {
      const int line = tokens_[at_].line;
      if (Take(".version")) {
        ++at_;
      } else if (Take(".target")) {
        ++at_;
        while (Take(",")) ++at_;
      } else if (Take(".address_size")) {
        if (!Take("64")) return Fail("addresses of 64 bits");
      } else if (Take(".visible") || Take(".weak") || Take(".common")) {
        // Of no effect within one module.
      } else if (Take(".extern")) {
        is_extern = true;
      } else if (Peek() == ".entry" || Peek() == ".func") {
        KILN_ASSIGN_OR_RETURN(FunctionText function, Function());
        module.functions.push_back(std::move(function));
        is_extern = false;
      } else if (SpaceOf(Peek()).has_value()) {
        KILN_ASSIGN_OR_RETURN(Variable variable, OneVariable());
        variable.is_extern = is_extern;
        is_extern = false;
        module.variables.push_back(std::move(variable));
        KILN_RETURN_IF_ERROR(Expect(";"));
      } else {
        return NotUnderstood(line, absl::StrCat("the directive '", Peek(), "'"));
      }
    }
    return module;
  }

 private:
  absl::string_view Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)].text; }
  bool Take(absl::string_view text) {
    if (Peek() != text) return false;
    ++at_;
    return true;
  }
  absl::Status Fail(absl::string_view wanted) const {
    return NotUnderstood(tokens_[at_].line, absl::StrCat("'", Peek(), "' where there should be ", wanted));
  }
  absl::Status Expect(absl::string_view text) { return Take(text) ? absl::OkStatus() : Fail(text); }

  absl::StatusOr<uint64_t> Number() {
    const bool negative = Take("-");
    const std::optional<uint64_t> number = NumberOf(Peek());
    if (!number.has_value()) return Fail("a number");
    ++at_;
    return negative ? 0 - *number : *number;
  }

  // A name within braces of its own is not that of the same letters outside.
  std::string Scoped(absl::string_view name) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const auto found = scopes_[i].find(std::string(name));
      if (found != scopes_[i].end()) return found->second;
    }
    return std::string(name);
  }
  std::string Declared(absl::string_view name) {
    if (scopes_.empty()) return std::string(name);
    std::string unique = absl::StrCat(name, "#", ++scoped_names_, "#");
    scopes_.back()[std::string(name)] = unique;
    return unique;
  }

  // ".param .u64 .ptr .global .align 16 name", ".shared .align 4 .b8 name[16]", each perhaps with a value.
  absl::StatusOr<Variable> OneVariable() {
    Variable variable;
    variable.line = tokens_[at_].line;
    variable.space = *SpaceOf(Peek());
    ++at_;
    bool typed = false, aligned = false;
    while (absl::StartsWith(Peek(), ".")) {
      if (Take(".align")) {
        KILN_ASSIGN_OR_RETURN(const uint64_t align, Number());
        if (!typed || variable.space != Space::kParam) variable.align = static_cast<uint32_t>(align), aligned = true;
      } else if (Peek() == ".ptr" || (typed && SpaceOf(Peek()).has_value()) || Peek() == ".visible") {
        ++at_;
      } else {
        const std::optional<ScalarType> type = FindType(Peek().substr(1));
        if (!type.has_value()) return Fail("a type");
        variable.element_bytes = type->bytes;
        typed = true;
        ++at_;
      }
    }
    if (!typed) return Fail("a type");
    if (!aligned) variable.align = variable.element_bytes;
    variable.name = Declared(Peek());
    ++at_;
    uint64_t count = 1;
    while (Take("[")) {
      uint64_t length = 0;
      if (Peek() != "]") {
        KILN_ASSIGN_OR_RETURN(length, Number());
      }
      count *= length;
      KILN_RETURN_IF_ERROR(Expect("]"));
    }
    variable.bytes = count * variable.element_bytes;
    if (Take("=")) KILN_RETURN_IF_ERROR(Initializer(variable));
    return variable;
  }

  absl::Status Initializer(Variable& variable) {
    const bool list = Take("{");
    do {
      KILN_ASSIGN_OR_RETURN(const Operand value, OneOperand());
      if (value.kind == Operand::Kind::kName) {
        if (variable.element_bytes != 8) return Fail("addresses in elements of 8 bytes");
        variable.references.emplace_back(variable.initial.size(), value);
      } else if (value.kind != Operand::Kind::kNumber) {
        return Fail("a number or a name");
      }
      char bytes[8];
      std::memcpy(bytes, &value.bits, 8);
      variable.initial.append(bytes, variable.element_bytes);
    } while (list && Take(","));
    if (list) KILN_RETURN_IF_ERROR(Expect("}"));
    return variable.initial.size() <= variable.bytes ? absl::OkStatus() : Fail("no more values than elements");
  }

  absl::StatusOr<std::vector<Variable>> Parameters() {
    std::vector<Variable> parameters;
    if (!Take("(")) return parameters;
    while (!Take(")")) {
      if (!SpaceOf(Peek()).has_value()) return Fail(".param");
      KILN_ASSIGN_OR_RETURN(Variable parameter, OneVariable());
      parameters.push_back(std::move(parameter));
      if (Peek() != ")") KILN_RETURN_IF_ERROR(Expect(","));
    }
    return parameters;
  }

  absl::StatusOr<FunctionText> Function() {
    FunctionText function;
    function.line = tokens_[at_].line;
    function.is_entry = Peek() == ".entry";
    ++at_;
    KILN_ASSIGN_OR_RETURN(function.results, Parameters());
    function.name = std::string(Peek());
    ++at_;
    KILN_ASSIGN_OR_RETURN(function.parameters, Parameters());
    while (Peek() != "{" && Peek() != ";") {
      const bool items = Peek() == ".maxntid" || Peek() == ".reqntid";
      if (items) {
        ++at_;
        function.max_items = {1, 1, 1};
        size_t axis = 0;
        do {
          KILN_ASSIGN_OR_RETURN(const uint64_t count, Number());
          if (axis > 2) return Fail("three numbers");
          function.max_items[axis++] = static_cast<uint32_t>(count);
        } while (Take(","));
      } else if (Take(".minnctapersm") || Take(".maxnreg") || Take(".maxclusterrank")) {
        KILN_RETURN_IF_ERROR(Number().status());
      } else if (!Take(".noreturn") && !Take(".blocksareclusters")) {
        return Fail("a directive of a function");
      }
    }
    if (Take(";")) return function;
    function.has_body = true;
    KILN_RETURN_IF_ERROR(Block(function));
    return function;
  }

  absl::Status Block(FunctionText& function) {
    KILN_RETURN_IF_ERROR(Expect("{"));
    while (!Take("}")) {
      if (Peek().empty()) return Fail("}");
      if (Peek() == "{") {
        scopes_.emplace_back();
        DeclareLabels();
        KILN_RETURN_IF_ERROR(Block(function));
        scopes_.pop_back();
      } else if (Take(".reg")) {
        KILN_RETURN_IF_ERROR(Registers(function));
      } else if (Take(".loc") || Take(".pragma")) {
        const int line = tokens_[at_].line;
        while (tokens_[at_].line == line && !Take(";")) ++at_;
      } else if (SpaceOf(Peek()).has_value()) {
        KILN_ASSIGN_OR_RETURN(Variable variable, OneVariable());
        function.variables.push_back(std::move(variable));
        KILN_RETURN_IF_ERROR(Expect(";"));
      } else if (Peek(1) == ":") {
        KILN_RETURN_IF_ERROR(Label(function));
      } else {
        KILN_RETURN_IF_ERROR(OneStatement(function));
      }
    }
    return absl::OkStatus();
  }

  // Those of the block that begins here may be jumped to before they are written.
  void DeclareLabels() {
    int depth = 0;
    for (size_t i = at_; i < tokens_.size(); ++i) {
      depth += tokens_[i].text == "{" ? 1 : tokens_[i].text == "}" ? -1 : 0;
      if (depth == 0) return;
      if (depth == 1 && tokens_[i].text == ":") Declared(tokens_[i - 1].text);
    }
  }

  absl::Status Label(FunctionText& function) {
    const std::string name = Scoped(Peek());
    at_ += 2;
    if (Take(".branchtargets")) {
      std::vector<std::string>& targets = function.branch_targets[name];
      do {
        targets.emplace_back(Peek());
        ++at_;
      } while (Take(","));
      return Expect(";");
    }
    if (!function.labels.emplace(name, function.statements.size()).second) return Fail("a label not used before");
    return absl::OkStatus();
  }

  absl::Status Registers(FunctionText& function) {
    const std::optional<ScalarType> type = FindType(absl::StripPrefix(Peek(), "."));
    if (!type.has_value()) return Fail("a type");
    ++at_;
    do {
      const std::string name = Declared(Peek());
      ++at_;
      uint64_t count = 0;
      if (Take("<")) {
        KILN_ASSIGN_OR_RETURN(count, Number());
        KILN_RETURN_IF_ERROR(Expect(">"));
        if (count == 0) continue;
      }
      function.registers[name] = {static_cast<uint32_t>(count), *type};
    } while (Take(","));
    return Expect(";");
  }

  absl::Status OneStatement(FunctionText& function) {
    Statement statement;
    statement.line = tokens_[at_].line;
    const size_t begin = at_;
    if (Take("@")) {
      statement.guard_negated = Take("!");
      statement.guard = Scoped(Peek());
      ++at_;
    }
    statement.opcode = std::string(Peek());
    ++at_;
    while (!Take(";")) {
      KILN_ASSIGN_OR_RETURN(Operand operand, OneOperand());
      statement.operands.push_back(std::move(operand));
      if (Peek() != ";") KILN_RETURN_IF_ERROR(Expect(","));
    }
    for (size_t i = begin; i + 1 < at_; ++i) {
      const bool tight = i == begin || tokens_[i].text == "," || tokens_[i].text == "]" || tokens_[i].text == "}" ||
                         tokens_[i - 1].text == "[" || tokens_[i - 1].text == "{" || tokens_[i - 1].text == "@" ||
                         tokens_[i].text == "+" || tokens_[i - 1].text == "+" || tokens_[i - 1].text == "-";
      absl::StrAppend(&statement.text, tight ? "" : " ", tokens_[i].text);
    }
    function.statements.push_back(std::move(statement));
    return absl::OkStatus();
  }

  absl::StatusOr<Operand> OneOperand() {
    Operand operand;
    if (Take("_")) return operand;
    operand.negated = Take("!");
    if (Peek() == "{" || Peek() == "(") {
      const absl::string_view end = Peek() == "{" ? "}" : ")";
      ++at_;
      operand.kind = Operand::Kind::kList;
      while (!Take(end)) {
        KILN_ASSIGN_OR_RETURN(Operand part, OneOperand());
        operand.parts.push_back(std::move(part));
        if (Peek() != end) KILN_RETURN_IF_ERROR(Expect(","));
      }
      return operand;
    }
    if (Take("[")) {
      operand.kind = Operand::Kind::kAddress;
      KILN_RETURN_IF_ERROR(BaseAndOffset(operand));
      if (Take(",")) {
        KILN_ASSIGN_OR_RETURN(Operand part, OneOperand());
        operand.parts.push_back(std::move(part));
      }
      KILN_RETURN_IF_ERROR(Expect("]"));
      return operand;
    }
    if (Peek() == "-" || NumberOf(Peek()).has_value()) {
      operand.kind = Operand::Kind::kNumber;
      KILN_ASSIGN_OR_RETURN(operand.bits, Number());
      return operand;
    }
    operand.kind = Operand::Kind::kName;
    KILN_RETURN_IF_ERROR(BaseAndOffset(operand));
    if (Take("|")) {
      KILN_ASSIGN_OR_RETURN(Operand second, OneOperand());
      operand.second.push_back(std::move(second));
    }
    return operand;
  }

  // "name", "name+16", "name+-16", "16"
  absl::Status BaseAndOffset(Operand& operand) {
    if (Peek() != "-" && !NumberOf(Peek()).has_value()) {
      operand.name = Scoped(Peek());
      const char first = Peek().empty() ? '\0' : Peek()[0];
      if (std::strchr("%$_", first) == nullptr && !absl::ascii_isalpha(static_cast<unsigned char>(first)))
        return Fail("an operand");
      ++at_;
      if (Peek() == "-") {
        KILN_ASSIGN_OR_RETURN(operand.bits, Number());
        return absl::OkStatus();
      }
      if (!Take("+")) return absl::OkStatus();
    }
    KILN_ASSIGN_OR_RETURN(operand.bits, Number());
    return absl::OkStatus();
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  std::vector<std::map<std::string, std::string>> scopes_;
  int scoped_names_ = 0;
};

}  // namespace

std::optional<ScalarType> FindType(absl::string_view name) {
  static const auto* const kTypes = new std::map<std::string, ScalarType>{
      {"b8", {1}},        {"u8", {1}},        {"s8", {1, true}}, {"b16", {2}},       {"u16", {2}},
      {"s16", {2, true}}, {"b32", {4}},       {"u32", {4}},      {"s32", {4, true}}, {"b64", {8}},
      {"u64", {8}},       {"s64", {8, true}}, {"f16", {2}},      {"bf16", {2}},      {"f16x2", {4}},
      {"f32", {4}},       {"bf16x2", {4}},    {"f64", {8}},      {"pred", {1}},
  };
  const auto found = kTypes->find(std::string(name));
  return found == kTypes->end() ? std::nullopt : std::optional<ScalarType>(found->second);
}

absl::Status NotUnderstood(int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("PTX, line ", line, ": ", what));
}

absl::StatusOr<ModuleText> ParseText(absl::string_view ptx) { return Parser(ptx).Module(); }

}  // namespace kiln::testing::ptx
