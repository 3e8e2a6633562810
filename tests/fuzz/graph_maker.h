// The workshop of random_graph.cc: a pool of values, and ways to make one more.
#ifndef KILN_TESTS_FUZZ_GRAPH_MAKER_H_
#define KILN_TESTS_FUZZ_GRAPH_MAKER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/uop.h"
#include "tests/support/random.h"
#include "tests/support/wire_builder.h"

namespace kiln::testing {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

using Sizes = absl::InlinedVector<int64_t, 6>;

inline int64_t NumElements(const Sizes& shape) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}

inline absl::StatusOr<Sizes> Broadcast(const Sizes& a, const Sizes& b) {
  const auto both = compiler::Broadcast(compiler::Shape(a.begin(), a.end()), compiler::Shape(b.begin(), b.end()));
  if (!both.ok()) return both.status();
  return Sizes(both->begin(), both->end());
}

struct Value {
  Node node = 0;
  compiler::DType dtype = compiler::DType::kNone;
  Sizes shape;
  // Floats: integers of at most this magnitude; unbounded: anything.
  double bound = kUnbounded;
  // No -0, and no NaN whose payload could show.
  bool plain = true;
  // Only right within a tolerance: nothing but movement may use it.
  int64_t ulp = 0;
};

class GraphMaker {
 public:
  explicit GraphMaker(uint64_t seed);

  // Adds one more value to the pool, or an update in place.
  void Step();
  // Makes the root: TUPLE or SINK over some of what there is.
  void Finish(std::vector<int64_t>& result_ulps);

  const v1::Graph& graph() const { return builder_.graph(); }

 private:
  // Storage and the last STORE to it.
  struct Storage {
    Value initial;
    Node after = 0;  // AFTER(PARAM, last STORE), or the PARAM
    bool stored = false;
  };

  void AddStorage();

  // -- Steps. Each may give up and add nothing.
  void Movement();
  void ReshapeStep(const Value& x);
  void ShrinkStep(const Value& x);
  void PadStep(const Value& x);
  void ExpandStep(const Value& x);
  void Unary();
  void Binary();
  void WhereStep();
  void CastStep();
  void ReduceStep();
  void IndexStep();
  void StackStep();
  void LoadStep();
  void StoreStep();
  void TranscendentalStep();

  // -- Operands
  const Value& Any() { return random_.Pick(pool_); }
  // One that other ops may look at.
  Value Exact();
  Value Const(compiler::DType dtype);
  // `x` in another dtype, and a partner that broadcasts with `x`.
  Value CastTo(const Value& x, compiler::DType dtype);
  Value PartnerOf(const Value& x, compiler::DType dtype);
  Value ToScalar(const Value& x);
  Value ConditionFor(const Value& x);
  void Push(Value value);

  Random random_;
  WireBuilder builder_;
  std::vector<Value> pool_;
  std::vector<Storage> storage_;
  std::vector<Node> loose_stores_;  // STOREs that the root must name
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_FUZZ_GRAPH_MAKER_H_
