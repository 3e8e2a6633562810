#include "runtime/plan/sizes.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::runtime {
namespace {

// Deeper expressions than any that the compiler makes.
constexpr size_t kMaxValues = 256;

int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t Apply(v1::SizeExpr::Op op, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
    case v1::SizeExpr::ADD: return static_cast<int64_t>(x + y);
    case v1::SizeExpr::MUL: return static_cast<int64_t>(x * y);
    case v1::SizeExpr::FLOORDIV: return FloorDivide(a, b);
    case v1::SizeExpr::FLOORMOD: return static_cast<int64_t>(x - static_cast<uint64_t>(FloorDivide(a, b)) * y);
    default: return std::max(a, b);
  }
}

std::string Values(absl::Span<const PlanVariable> plan, VariableValues variables) {
  std::string text;
  for (size_t i = 0; i < plan.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ", plan[i].name, " = ", variables[i]);
  return text;
}

absl::Status Bad(v1::ErrorCode code, const PlanVariable& variable, absl::string_view text) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_slot(variable.slot);
  return MakeError(std::move(detail), absl::StrCat("variable ", variable.name, " (slot ", variable.slot, ", from ",
                                                   variable.min, " to ", variable.max, "): ", text));
}

}  // namespace

SizeExpr::SizeExpr(const v1::SizeExpr& message) {
  for (const v1::SizeExpr::Token& token : message.token()) tokens_.push_back({token.op(), token.value()});
}

int64_t SizeExpr::At(VariableValues variables) const {
  absl::InlinedVector<int64_t, kMaxValues> stack;
  for (const Token& token : tokens_) {
    if (token.op == v1::SizeExpr::CONST) {
      stack.push_back(token.value);
    } else if (token.op == v1::SizeExpr::VARIABLE) {
      stack.push_back(variables[static_cast<size_t>(token.value)]);
    } else {
      const int64_t top = stack.back();
      stack.pop_back();
      stack.back() = Apply(token.op, stack.back(), top);
    }
  }
  return stack.back();
}

std::string CheckSizeExpr(const v1::SizeExpr& message, int variables) {
  size_t depth = 0;
  for (const v1::SizeExpr::Token& token : message.token()) {
    switch (token.op()) {
      case v1::SizeExpr::VARIABLE:
        if (token.value() < 0 || token.value() >= variables)
          return absl::StrCat("there is no variable ", token.value());
        ++depth;
        break;
      case v1::SizeExpr::CONST: ++depth; break;
      case v1::SizeExpr::ADD:
      case v1::SizeExpr::MUL:
      case v1::SizeExpr::FLOORDIV:
      case v1::SizeExpr::FLOORMOD:
      case v1::SizeExpr::MAX:
        if (depth < 2) return "an op without two values";
        --depth;
        break;
      default: return "there is no such op";
    }
    if (depth > kMaxValues) return "it is too deep";
  }
  return depth == 1 ? "" : absl::StrCat("it leaves ", depth, " values");
}

uint64_t PlanShape::BytesAt(VariableValues variables) const {
  if (symbolic_.empty()) return bytes_;
  uint64_t bytes = item_;
  auto next = symbolic_.begin();
  for (size_t axis = 0; axis < greatest_.size(); ++axis) {
    const bool here = next != symbolic_.end() && next->axis == axis;
    bytes *= static_cast<uint64_t>(here ? (next++)->size.At(variables) : greatest_[axis]);
  }
  return bytes;
}

std::vector<int64_t> PlanShape::At(VariableValues variables) const {
  std::vector<int64_t> shape = greatest_;
  for (const Axis& symbolic : symbolic_) shape[symbolic.axis] = symbolic.size.At(variables);
  return shape;
}

absl::Status CheckVariables(absl::Span<const PlanVariable> plan, absl::Span<const PlanCondition> conditions,
                            VariableValues variables) {
  if (variables.size() < plan.size()) return Bad(v1::MISSING_ARGUMENT, plan[variables.size()], "it has no value");
  if (variables.size() > plan.size()) {
    return MakeError(v1::UNKNOWN_ARGUMENT, absl::StrCat("the program has ", plan.size(), " variables, and there are ",
                                                        variables.size(), " values"));
  }
  for (size_t i = 0; i < plan.size(); ++i) {
    if (variables[i] >= plan[i].min && variables[i] <= plan[i].max) continue;
    return Bad(v1::BAD_ARGUMENT, plan[i], absl::StrCat("it cannot be ", variables[i]));
  }
  for (size_t i = 0; i < conditions.size(); ++i) {
    if (conditions[i].size.At(variables) >= 0) continue;
    v1::ErrorDetail detail;
    detail.set_code(v1::OUT_OF_BOUNDS);
    detail.set_field(absl::StrCat("signature.conditions[", i, "]"));
    return MakeError(std::move(detail), absl::StrCat(conditions[i].text, " where ", Values(plan, variables)));
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime
