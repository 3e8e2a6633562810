// Random reductions of loops: masked sums, look-ups, maxima and questions whether any
// iteration fits. Each is summed iteration by iteration, and compared with what collapsed.
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/wire.h"
#include "compiler/interp/kernel_eval.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/collapse_reduce.h"
#include "compiler/rules/symbolic.h"
#include "tests/fuzz/laws.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"

namespace kiln::testing {

using namespace compiler;  // NOLINT: a test about the IR

namespace {

class ReduceMaker {
 public:
  ReduceMaker(Graph& graph, uint64_t seed) : graph_(graph), random_(seed) {
    for (int i = 0; i < 2; ++i) outer_.push_back(Range(i));
    for (int i = 2; i < 3 + static_cast<int>(random_.Below(2)); ++i) inner_.push_back(Range(i));
    dtype_ = random_.Pick({DType::kInt32, DType::kInt64, DType::kUint8, DType::kFloat32});
    table_ = graph_.Make(Op::PARAM, {ShapeSource(graph_, {kCells})}, BufferArg{1, dtype_});
    places_ = graph_.Make(Op::PARAM, {ShapeSource(graph_, {kCells})}, BufferArg{2, DType::kInt32});
    reduce_op_ = random_.OneIn(3) ? Op::MAX : Op::ADD;
    any_ = reduce_op_ == Op::MAX && random_.OneIn(2);
  }

  Op reduce_op() const { return reduce_op_; }
  absl::Span<UOp* const> loops() const { return inner_; }

  UOp* Body() {
    if (any_) return Condition(2);
    if (reduce_op_ == Op::MAX) return Where(graph_, Condition(2), Value(), random_.OneIn(2) ? Least() : Value());
    switch (random_.Below(6)) {
      case 0: return Where(graph_, Condition(2), Value(), Number(0));
      case 1: return Where(graph_, Condition(2), Number(0), Value());
      case 2: return Mul(graph_, Cast(graph_, Condition(2), dtype_), Value());
      case 3: return Where(graph_, Condition(2), Value(), Value());
      case 4: return Add(graph_, Cast(graph_, Condition(2), dtype_), Value());
      default:
        return Mul(graph_, Mul(graph_, Value(), Cast(graph_, Condition(1), dtype_)),
                   Cast(graph_, Condition(1), dtype_));
    }
  }

  // out[i, j] = value, for all iterations of the outer loops.
  UOp* Kernel(UOp* value) {
    UOp* out = graph_.Make(Op::PARAM, {ShapeSource(graph_, {kCells})}, BufferArg{0, value->dtype()});
    UOp* flat = Add(graph_, Mul(graph_, outer_[0], outer_[1]->src(0)), outer_[1]);
    UOp* store = graph_.Make(Op::STORE, {graph_.Make(Op::INDEX, {out, flat}), value});
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, {store, outer_[0], outer_[1]})});
  }

  KernelMemory Memory() {
    KernelMemory memory;
    for (int64_t i = 0; i < kCells; ++i) {
      memory[0].push_back(0);
      memory[1].push_back(IsFloat(dtype_) ? FloatBits(dtype_, static_cast<double>(random_.In(-9, 9)))
                                          : WrapInt(dtype_, static_cast<uint64_t>(random_.In(-9, 9))));
      memory[2].push_back(static_cast<uint64_t>(random_.In(-3, 12)));
    }
    return memory;
  }

 private:
  static constexpr int64_t kCells = 144;

  UOp* Range(int id) { return graph_.Make(Op::RANGE, {Idx(graph_, random_.In(2, 9))}, RangeArg{id, AxisType::kLoop}); }
  UOp* Counter() { return random_.Pick(random_.OneIn(2) ? outer_ : inner_); }
  UOp* Number(int64_t value) { return ConstNumber(graph_, dtype_, static_cast<double>(value)); }
  UOp* Least() { return Identity(graph_, Op::MAX, dtype_); }

  // Affine in the counters, sometimes with a quotient; perhaps in another dtype.
  UOp* Index() {
    UOp* sum = Idx(graph_, random_.In(-6, 6));
    for (uint64_t terms = random_.In(1, 3); terms > 0; --terms) {
      UOp* term = Counter();
      if (random_.OneIn(3)) term = Mul(graph_, term, Idx(graph_, random_.In(-3, 3)));
      if (random_.OneIn(6))
        term = graph_.Make(random_.Pick({Op::FLOORDIV, Op::FLOORMOD}), {term, Idx(graph_, random_.In(2, 4))});
      sum = Add(graph_, sum, term);
    }
    if (random_.OneIn(6)) sum = graph_.Make(Op::FLOORDIV, {sum, Idx(graph_, random_.In(2, 4))});
    return sum;
  }
  UOp* Loaded(UOp* buffer, UOp* index) {
    UOp* inside = And(graph_, Not(graph_, Lt(graph_, index, Idx(graph_, 0))), Lt(graph_, index, Idx(graph_, kCells)));
    return graph_.Make(Op::LOAD,
                       {graph_.Make(Op::INDEX, {buffer, index}), ConstNumber(graph_, buffer->dtype(), 0), inside});
  }
  UOp* Comparison() {
    UOp *a = Index(), *b = random_.OneIn(2) ? Index() : Idx(graph_, random_.In(-4, 20));
    if (random_.OneIn(3)) {
      a = random_.Pick(inner_);
      b = random_.OneIn(2) ? Loaded(places_, random_.Pick(outer_)) : Index();
    }
    const DType dtype = b->dtype() == kIndexType && random_.OneIn(2) ? kIndexType : DType::kInt32;
    return graph_.Make(random_.Pick({Op::CMPLT, Op::CMPLT, Op::CMPNE}),
                       {Cast(graph_, a, dtype), Cast(graph_, b, dtype)});
  }
  UOp* Condition(int depth) {
    if (depth > 0 && random_.OneIn(2))
      return graph_.Make(random_.OneIn(4) ? Op::OR : Op::AND, {Condition(depth - 1), Condition(depth - 1)});
    UOp* comparison = Comparison();
    return random_.OneIn(2) ? Not(graph_, comparison) : comparison;
  }
  UOp* Value() {
    switch (random_.Below(5)) {
      case 0: return Number(random_.In(0, 5));
      case 1: return Loaded(table_, random_.Pick(outer_));
      case 2: return Loaded(table_, Index());
      case 3: return Cast(graph_, Index(), dtype_);
      default: return Cast(graph_, random_.Pick(outer_), dtype_);
    }
  }

  Graph& graph_;
  Random random_;
  std::vector<UOp*> outer_, inner_;
  DType dtype_;
  UOp* table_;
  UOp* places_;
  Op reduce_op_;
  bool any_;
};

}  // namespace

std::string LawFuzzer::CheckReduce(uint64_t seed) {
  Graph graph;
  ReduceMaker maker(graph, seed);
  UOp* body = maker.Body();
  std::vector<UOp*> src = {body};
  src.insert(src.end(), maker.loops().begin(), maker.loops().end());
  UOp* before = graph.Make(Op::REDUCE, src, ReduceArg{maker.reduce_op(), {}});
  Rewriter simplify(SymbolicRules(), graph);
  UOp* after = CollapseReduce(graph, simplify, maker.reduce_op(), simplify.Rewrite(body), maker.loops());
  const bool loops = after->op() == Op::REDUCE;
  ++met_[loops && after->src().size() == src.size() ? "reduce: keeps its loops"
         : loops                                    ? "reduce: loses a loop"
                                                    : "reduce: collapses"];
  KernelMemory memory = maker.Memory(), expected = memory;
  const std::string both = absl::StrCat(ToText(before), "became\n", ToText(after));
  if (absl::Status status = EvalKernel(maker.Kernel(before), expected); !status.ok())
    return absl::StrCat("before: ", status.ToString(), "\n", both);
  if (absl::Status status = EvalKernel(maker.Kernel(after), memory); !status.ok())
    return absl::StrCat("after: ", status.ToString(), "\n", both);
  for (size_t i = 0; i < memory[0].size(); ++i) {
    const std::string difference =
        CompareElement(before->dtype(), memory[0][i], expected[0][i], {0, /*zero_signs=*/false});
    if (!difference.empty()) return absl::StrCat("element ", i, ": ", difference, "\n", both);
  }
  return "";
}

}  // namespace kiln::testing
