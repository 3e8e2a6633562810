// The chain rule, op by op.
#ifndef KILN_COMPILER_GRADIENT_RULES_H_
#define KILN_COMPILER_GRADIENT_RULES_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// One node on the way back: what a rule gets, and where it puts its gradients.
class Vjp {
 public:
  // `wanted`: which operands depend on what is differentiated by.
  Vjp(Graph& graph, UOp* uop, UOp* cotangent, std::vector<bool> wanted)
      : graph(graph), uop(uop), dy(cotangent), wanted_(std::move(wanted)), given_(uop->src().size(), nullptr) {}

  Graph& graph;
  UOp* const uop;  // y = op(x...)
  UOp* const dy;   // y's cotangent: its dtype, its shape

  UOp* x(size_t i) const { return uop->src(i); }
  bool Wants(size_t i) const { return wanted_[i]; }
  // Operand i's cotangent, of its dtype. Where the operand was broadcast, it is
  // summed down to the operand's shape.
  void Give(size_t i, UOp* cotangent);
  // What was given for operand i, or nullptr: zero.
  UOp* given(size_t i) const { return given_[i]; }

 private:
  const std::vector<bool> wanted_;
  std::vector<UOp*> given_;
};

// Applies the rule of `vjp.uop`'s op.
absl::Status ApplyGradientRule(Vjp& vjp);

// -- The rules that take more than a line. Each gives what is wanted.
absl::Status MaxRule(Vjp& vjp);
absl::Status PowRule(Vjp& vjp);
absl::Status SinRule(Vjp& vjp);
absl::Status StackRule(Vjp& vjp);
absl::Status IndexRule(Vjp& vjp);
absl::Status ReduceRule(Vjp& vjp);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_GRADIENT_RULES_H_
