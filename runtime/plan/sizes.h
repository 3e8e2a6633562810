// Sizes that depend on the variables of a call.
//
// A program compiled for symbolic sizes says of each such size how it follows from
// the variables. Everything the program allocates itself has room for the greatest
// values; parameters and results have the bytes of the values at hand.
#ifndef KILN_RUNTIME_PLAN_SIZES_H_
#define KILN_RUNTIME_PLAN_SIZES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::runtime {

// One value for each of the signature's variables, in its order.
using VariableValues = absl::Span<const int64_t>;

// An integer expression of variables.
class SizeExpr {
 public:
  // `message` is checked: CheckSizeExpr.
  explicit SizeExpr(const v1::SizeExpr& message);
  // Wraps where it leaves int64, which no sound program does.
  int64_t At(VariableValues variables) const;

 private:
  struct Token {
    v1::SizeExpr::Op op;
    int64_t value;
  };
  std::vector<Token> tokens_;
};

// What is wrong with an expression over `variables` variables, or nothing.
std::string CheckSizeExpr(const v1::SizeExpr& message, int variables);

// The shape of a parameter or a result.
class PlanShape {
 public:
  PlanShape() = default;
  // Of a Signature.Parameter or Signature.Result, checked, with elements of
  // `item` bytes.
  template <typename Tensor>
  PlanShape(const Tensor& tensor, uint32_t item)
      : greatest_(tensor.shape().begin(), tensor.shape().end()), item_(item), bytes_(tensor.bytes()) {
    for (const auto& symbolic : tensor.symbolic()) symbolic_.push_back({symbolic.axis(), SizeExpr(symbolic.size())});
  }

  bool is_symbolic() const { return !symbolic_.empty(); }
  // In a call with these variables. Allocates nothing.
  uint64_t BytesAt(VariableValues variables) const;
  std::vector<int64_t> At(VariableValues variables) const;

 private:
  struct Axis {
    uint32_t axis;
    SizeExpr size;
  };
  std::vector<int64_t> greatest_;
  std::vector<Axis> symbolic_;  // by ascending axis
  uint32_t item_ = 1;
  uint64_t bytes_ = 0;  // of the greatest shape
};

struct PlanVariable {
  uint32_t slot = 0;
  std::string name;
  int64_t min = 0;
  int64_t max = 0;
};

struct PlanCondition {
  SizeExpr size;  // not to be negative
  std::string text;
};

// Whether a call may give the variables these values:
//   MISSING_ARGUMENT, UNKNOWN_ARGUMENT   too few or too many
//   BAD_ARGUMENT                         outside a variable's range, with its slot
//   OUT_OF_BOUNDS                        a condition of the program is not met;
//                                        `field` is "signature.conditions[i]"
absl::Status CheckVariables(absl::Span<const PlanVariable> plan, absl::Span<const PlanCondition> conditions,
                            VariableValues variables);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_PLAN_SIZES_H_
