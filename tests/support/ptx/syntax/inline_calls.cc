#include "tests/support/ptx/syntax/inline_calls.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::testing::ptx {
namespace {

bool IsCall(const Statement& statement) {
  return statement.opcode == "call" || absl::StartsWith(statement.opcode, "call.");
}

std::vector<std::string> NamesOf(const Operand& list) {
  std::vector<std::string> names;
  for (const Operand& part : list.parts) names.push_back(part.name);
  return names;
}

// What the names of one copy of a function's body become: `prefix` and what they were, as registers are found by
// how their names end; the names of parameters and results, those of the variables that are passed.
class Names {
 public:
  Names(std::string prefix, const FunctionText& function) : prefix_(std::move(prefix)) {
    for (const auto& [name, declared] : function.registers) registers_.insert(name);
    for (const Variable& variable : function.variables) given_[variable.name] = prefix_ + variable.name;
    for (const auto& [label, at] : function.labels) given_[label] = prefix_ + label;
    for (const auto& [list, targets] : function.branch_targets) given_[list] = prefix_ + list;
  }

  void Pass(const std::string& parameter, const std::string& variable) { given_[parameter] = variable; }

  std::string Of(const std::string& name) const {
    const auto given = given_.find(name);
    if (given != given_.end()) return given->second;
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    const bool is_register = registers_.contains(name) || registers_.contains(name.substr(0, digits));
    return is_register ? prefix_ + name : name;
  }

  Operand Of(Operand operand) const {
    operand.name = Of(operand.name);
    for (Operand& part : operand.parts) part = Of(std::move(part));
    for (Operand& part : operand.second) part = Of(std::move(part));
    return operand;
  }

  Statement Of(Statement statement) const {
    statement.guard = Of(statement.guard);
    for (Operand& operand : statement.operands) operand = Of(std::move(operand));
    return statement;
  }

  const std::string& prefix() const { return prefix_; }

 private:
  const std::string prefix_;
  std::set<std::string> registers_;
  std::map<std::string, std::string> given_;
};

class Inliner {
 public:
  explicit Inliner(ModuleText& text) : text_(text) {}

  absl::Status Run() {
    for (FunctionText& function : text_.functions) KILN_RETURN_IF_ERROR(Inline(function));
    text_.functions.erase(std::remove_if(text_.functions.begin(), text_.functions.end(),
                                         [](const FunctionText& function) { return !function.is_entry; }),
                          text_.functions.end());
    return absl::OkStatus();
  }

 private:
  absl::Status Inline(FunctionText& caller) {
    if (done_.contains(caller.name) || !caller.has_body) return absl::OkStatus();
    if (!open_.insert(caller.name).second)
      return NotUnderstood(caller.line, absl::StrCat(caller.name, " calls itself"));
    std::vector<Statement> statements;
    std::vector<size_t> moved;  // where each statement went
    std::map<std::string, size_t> labels;
    const std::vector<Statement> before = std::move(caller.statements);
    for (const Statement& statement : before) {
      moved.push_back(statements.size());
      if (!IsCall(statement)) {
        statements.push_back(statement);
        continue;
      }
      if (!statement.guard.empty()) return NotUnderstood(statement.line, "a call with a predicate");
      KILN_RETURN_IF_ERROR(Copy(statement, caller, statements, labels));
    }
    moved.push_back(statements.size());
    for (auto& [label, at] : caller.labels) labels[label] = moved[at];
    caller.labels = std::move(labels);
    caller.statements = std::move(statements);
    PassedInLocalMemory(caller);
    open_.erase(caller.name);
    done_.insert(caller.name);
    return absl::OkStatus();
  }

  absl::Status Copy(const Statement& call, FunctionText& caller, std::vector<Statement>& statements,
                    std::map<std::string, size_t>& labels) {
    std::array<std::vector<std::string>, 2> passed;  // results, which stand before the name, and parameters
    std::string name;
    for (const Operand& operand : call.operands) {
      if (operand.kind == Operand::Kind::kList) {
        passed[name.empty() ? 0 : 1] = NamesOf(operand);
      } else {
        name = operand.name;
      }
    }
    FunctionText* const callee = BodyOf(name);
    if (callee == nullptr) return NotUnderstood(call.line, absl::StrCat("there is no body of ", name));
    KILN_RETURN_IF_ERROR(Inline(*callee));
    if (passed[0].size() != callee->results.size() || passed[1].size() != callee->parameters.size())
      return NotUnderstood(call.line, absl::StrCat("not what ", name, " takes and gives"));

    Names names(absl::StrCat("#call", ++copies_, "#"), *callee);
    for (size_t i = 0; i < passed[0].size(); ++i) names.Pass(callee->results[i].name, passed[0][i]);
    for (size_t i = 0; i < passed[1].size(); ++i) names.Pass(callee->parameters[i].name, passed[1][i]);
    for (const auto& [each, declared] : callee->registers) caller.registers[names.prefix() + each] = declared;
    for (Variable variable : callee->variables) {
      variable.name = names.Of(variable.name);
      caller.variables.push_back(std::move(variable));
    }
    for (const auto& [list, targets] : callee->branch_targets) {
      for (const std::string& target : targets) caller.branch_targets[names.Of(list)].push_back(names.Of(target));
    }
    const std::string end = names.prefix() + "end";
    for (const auto& [label, at] : callee->labels) labels[names.Of(label)] = statements.size() + at;
    for (const Statement& statement : callee->statements) {
      statements.push_back(names.Of(statement));
      if (!absl::StartsWith(statement.opcode, "ret")) continue;
      statements.back().opcode = "bra";
      statements.back().operands.resize(1);
      statements.back().operands[0].kind = Operand::Kind::kName;
      statements.back().operands[0].name = end;
    }
    labels[end] = statements.size();
    return absl::OkStatus();
  }

  FunctionText* BodyOf(const std::string& name) {
    for (FunctionText& function : text_.functions) {
      if (function.name == name && function.has_body && !function.is_entry) return &function;
    }
    return nullptr;
  }

  // .param variables of a body are for calls.
  static void PassedInLocalMemory(FunctionText& function) {
    std::set<std::string> passed;
    for (Variable& variable : function.variables) {
      if (variable.space != Space::kParam) continue;
      variable.space = Space::kLocal;
      passed.insert(variable.name);
    }
    for (Statement& statement : function.statements) {
      const bool is_access =
          absl::StartsWith(statement.opcode, "ld.param") || absl::StartsWith(statement.opcode, "st.param");
      if (!is_access) continue;
      for (const Operand& operand : statement.operands) {
        if (passed.contains(operand.name)) statement.opcode.replace(2, 6, ".local");
      }
    }
  }

  ModuleText& text_;
  std::set<std::string> open_, done_;
  int copies_ = 0;
};

}  // namespace

absl::Status InlineCalls(ModuleText& text) { return Inliner(text).Run(); }

}  // namespace kiln::testing::ptx
