// What frontends send for the ops that the IR does not have: tinyspec's "Common
// Ops as Quadratic", and their relatives. Read literally they take quadratic
// work; each test that uses them says what it must be instead.
#ifndef KILN_TESTS_CONFORMANCE_SCHEDULES_QUADRATIC_H_
#define KILN_TESTS_CONFORMANCE_SCHEDULES_QUADRATIC_H_

#include "tests/support/wire_builder.h"

namespace kiln::testing {

class Quadratic : public WireBuilder {
 public:
  Node Number(compiler::DType dtype, int64_t value);
  Node Reduced(Node x, v1::Op op, int64_t axis, absl::Span<const int64_t> shape);  // without the axis
  // The rows (rows, n) that prefix sums of (n) add up: row i ends in element i.
  Node Windows(Node x, int64_t n);
  Node PrefixSum(Node x, int64_t n);
  Node Arange(int64_t n, compiler::DType dtype);
  // (rows, n) of bool: [0, 1, …, n - 1] == x, for x of shape (rows).
  Node OneHot(Node x, int64_t rows, int64_t n, compiler::DType dtype);
  // T[idx] for T of shape (k) and idx of shape (d).
  Node Gather(Node table, int64_t k, Node idx, int64_t d, compiler::DType dtype, compiler::DType index_dtype);
  // Rows of T (k, width): one-hot times table.
  Node Embedding(Node table, int64_t k, int64_t width, Node idx, int64_t d, compiler::DType dtype);
  Node ScatterAdd(Node target, int64_t k, Node idx, Node value, int64_t d, compiler::DType dtype);
  Node Equal(Node a, Node b);
  Node Less(Node a, Node b) { return Add(v1::CMPLT, {a, b}); }
  // The root.
  void Return(Node value) { Add(v1::TUPLE, {value}); }
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_CONFORMANCE_SCHEDULES_QUADRATIC_H_
