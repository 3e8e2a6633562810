// Scalar expressions: what the law fuzzers of the rules try them on.
#ifndef KILN_TESTS_SUPPORT_EXPRESSION_H_
#define KILN_TESTS_SUPPORT_EXPRESSION_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/graph.h"
#include "tests/support/random.h"

namespace kiln::testing {

// Values of the leaves that are no CONST, as bits in ConstArg's form.
using Assignment = absl::flat_hash_map<const compiler::UOp*, uint64_t>;

// Every node's value under `assignment`.
Assignment EvaluateAll(compiler::UOp* root, const Assignment& assignment);
inline uint64_t Evaluate(compiler::UOp* root, const Assignment& assignment) {
  return EvaluateAll(root, assignment).at(root);
}

// Makes expressions of every integer dtype and bool over a few variables:
// RANGEs (index type, known bounds) and scalar PARAMs (any value of their dtype).
class ExpressionMaker {
 public:
  ExpressionMaker(compiler::Graph& graph, uint64_t seed);

  // Index arithmetic: sums, products, quotients, remainders, choices.
  compiler::UOp* Index(int depth);
  compiler::UOp* Bool(int depth);
  compiler::UOp* Gate(int depth);
  // Any op on values of `dtype`, an integer or bool.
  compiler::UOp* Of(compiler::DType dtype, int depth);

  // A value for each variable, ends of its bounds more often than by chance.
  Assignment Assign();
  Random& random() { return random_; }

 private:
  compiler::UOp* IndexLeaf();
  compiler::UOp* Choice(compiler::UOp* condition, compiler::UOp* a, compiler::UOp* b);
  compiler::UOp* Weight(compiler::DType dtype);
  compiler::UOp* Leaf(compiler::DType dtype);
  uint64_t ValueFor(const compiler::UOp* variable);

  compiler::Graph& graph_;
  Random random_;
  std::vector<compiler::UOp*> ranges_;
  std::vector<compiler::UOp*> params_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_EXPRESSION_H_
