// Reductions, prefix sums, and order.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

using Reducer = Tensor (*)(Tensor x, const client::Axes& axes, bool keep);

// Axes were an attribute: of ReduceSum before opset 13, of the others before 18.
template <Reducer kReduce, int kSince = 18>
Result Reduce(Node& node) {
  const Tensor x = node.In(0);
  std::vector<int64_t> axes = node.Ints("axes");
  if (node.opset() >= kSince && node.Has(1)) {
    KILN_ASSIGN_OR_RETURN(axes, node.Integers(1));
  }
  if (axes.empty() && node.Int("noop_with_empty_axes") != 0) {
    // Each element is then a reduction of itself.
    return Cast(Reshape(kReduce(Unsqueeze(Widened(x), 0), 0, true), x.sizes()), x.dtype());
  }
  KILN_ASSIGN_OR_RETURN(axes, node.Axes(axes, x.rank()));
  if (x.rank() == 0) return Cast(Reshape(kReduce(Reshape(Widened(x), {1}), 0, true), Sizes()), x.dtype());
  return Cast(kReduce(Widened(x), axes, node.Int("keepdims", 1) != 0), x.dtype());
}

Tensor L1(Tensor x, const client::Axes& axes, bool keep) { return Sum(Abs(x), axes, keep); }
Tensor SumSquare(Tensor x, const client::Axes& axes, bool keep) { return Sum(x * x, axes, keep); }
Tensor Rooted(Tensor x) { return IsFloat(x.dtype()) ? Sqrt(x) : Sqrt(Cast(x, v1::FLOAT64)); }
Tensor L2(Tensor x, const client::Axes& axes, bool keep) { return Rooted(Sum(x * x, axes, keep)); }
Tensor Average(Tensor x, const client::Axes& axes, bool keep) {
  return Mean(IsFloat(x.dtype()) ? x : Cast(x, v1::FLOAT64), axes, keep);
}
Tensor LogSum(Tensor x, const client::Axes& axes, bool keep) {
  const Tensor sum = Sum(x, axes, keep);
  return Log(IsFloat(sum.dtype()) ? sum : Cast(sum, v1::FLOAT64));
}
// The greatest goes out of the exponent first; an infinite one stays in it.
Tensor LogSumExp(Tensor x, const client::Axes& axes, bool keep) {
  if (!IsFloat(x.dtype())) x = Cast(x, v1::FLOAT64);
  const Tensor most = Max(x, axes, true), out = Where(Abs(most) < 1e300, most, Filled(most, 0));
  const Tensor sum =
      Log(Sum(Exp(x - (x.dtype() == v1::FLOAT64 ? out : Where(Abs(out) < 3e38, out, Filled(out, 0)))), axes, true));
  const Tensor result = sum + (x.dtype() == v1::FLOAT64 ? out : Where(Abs(out) < 3e38, out, Filled(out, 0)));
  return keep ? result : Reshape(result, Sum(x, axes, false).sizes());
}

template <Tensor (*kArg)(Tensor, int64_t, bool)>
Result Arg(Node& node) {
  Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), x.rank()));
  const bool keep = node.Int("keepdims", 1) != 0;
  if (node.Int("select_last_index") == 0) return Cast(kArg(x, axis, keep), v1::INT64);
  const Size last = x.size(axis) - 1;
  return node.graph().Number(last, v1::INT64) - Cast(kArg(Flip(x, {axis}), axis, keep), v1::INT64);
}

// Sums or products from the beginning on: a window as long as the axis, over identities before it.
Result Cumulative(Node& node, double identity) {
  Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(int64_t axis, node.Integer(1));
  KILN_ASSIGN_OR_RETURN(axis, node.Axis(axis, x.rank()));
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, axis));
  if (size == 0) return x;
  const bool back = node.Int("reverse") != 0;
  if (back) x = Flip(x, {axis});
  AxisRanges before(static_cast<size_t>(x.rank()), {0, 0});
  before[axis].first = size - 1;
  if (node.Int("exclusive") != 0) {
    AxisRanges one(static_cast<size_t>(x.rank()), {0, 0});
    one[axis].first = 1;
    x = Part(Pad(x, one, identity), axis, 0, size);
  }
  const Tensor windows = SlidingWindow(Pad(Widened(x), before, identity), axis, {.size = size});
  const Tensor result = Cast(identity == 0 ? Sum(windows, -1) : Prod(windows, -1), x.dtype());
  return back ? Flip(result, {axis}) : result;
}

// The place of each element in order is the number of those before it; of equal ones the first is first.
Result TopK(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", -1), x.rank()));
  KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, axis));
  int64_t count = node.Int("k");
  if (node.opset() >= 10) {
    KILN_ASSIGN_OR_RETURN(count, node.Integer(1));
  }
  if (count < 0 || count > size) return node.Bad(absl::StrCat("the first ", count, " of ", size));
  const Tensor mine = Unsqueeze(x, axis + 1), theirs = Unsqueeze(x, axis);
  const Tensor ids = node.graph().Arange(size, v1::INT64);
  const Tensor my_place = Along(ids, axis, x.rank() + 1), their_place = Along(ids, axis + 1, x.rank() + 1);
  const Tensor ahead = node.Int("largest", 1) != 0 ? theirs > mine : theirs < mine;
  const Tensor before = ahead | ((theirs == mine) & (their_place < my_place));
  const Tensor rank = Sum(Cast(before, v1::INT64), axis + 1);
  // Then each of the first `count` places looks for the element that has it.
  const Tensor chosen = Unsqueeze(rank, axis) == Along(node.graph().Arange(count, v1::INT64), axis, x.rank() + 1);
  const Tensor values = Sum(Where(chosen, Unsqueeze(x, axis), Filled(Unsqueeze(x, axis), 0)), axis + 1);
  const Tensor places = Sum(Where(chosen, their_place, Filled(their_place, 0)), axis + 1);
  return std::vector<Tensor>{Cast(values, x.dtype()), places};
}

constexpr OpRow kRows[] = {
    {"ReduceSum", 1, Reduce<Sum, 13>, 1, 2},
    {"ReduceMean", 1, Reduce<Average>, 1, 2},
    {"ReduceMax", 1, Reduce<Max>, 1, 2},
    {"ReduceMin", 1, Reduce<Min>, 1, 2},
    {"ReduceProd", 1, Reduce<Prod>, 1, 2},
    {"ReduceL1", 1, Reduce<L1>, 1, 2},
    {"ReduceL2", 1, Reduce<L2>, 1, 2},
    {"ReduceSumSquare", 1, Reduce<SumSquare>, 1, 2},
    {"ReduceLogSum", 1, Reduce<LogSum>, 1, 2},
    {"ReduceLogSumExp", 1, Reduce<LogSumExp>, 1, 2},
    {"ArgMax", 1, Arg<ArgMax>, 1, 1},
    {"ArgMin", 1, Arg<ArgMin>, 1, 1},
    {"CumSum", 11, [](Node& node) { return Cumulative(node, 0); }, 2, 2},
    {"CumProd", 26, [](Node& node) { return Cumulative(node, 1); }, 2, 2},
    {"TopK", 1, TopK, 1, 2},
};

}  // namespace

OpRows ReduceOps() { return kRows; }

}  // namespace kiln::onnx
