#include "tests/gradient/gradient_cases.h"

#include "client/cpp/ops.h"

namespace kiln::testing {

using namespace client;  // NOLINT: the builder's functions read best without a prefix.

namespace {

using In = std::vector<Tensor>;

Tensor Ints(const Tensor& x, const std::vector<double>& values) { return x.graph()->Constants(values, v1::INT32); }

// tinyspec's ops that the builder's functions compose from others.
Tensor Quotient(Tensor a, Tensor b) {
  return a.graph()->Node(v1::FDIV, {a.node(), b.node()}, a.dtype(), *BroadcastShape(a.shape(), b.shape()));
}

Tensor InvalidPad(Tensor x, const Shape& offset, const Shape& shape) {
  Graph& graph = *x.graph();
  return graph.Node(v1::PAD, {x.node(), graph.ShapeSource(offset), graph.ShapeSource(shape)}, x.dtype(), shape);
}

// With the alternative where `gate` does not hold.
Tensor GatedLoad(Tensor x, Tensor alternative, Tensor gate) {
  return x.graph()->Node(v1::LOAD, {x.node(), alternative.node(), gate.node()}, x.dtype(), x.shape());
}

Tensor Twice(Tensor x) {
  Graph& graph = *x.graph();
  const Tensor tuple = graph.Node(v1::TUPLE, {x.node(), (x * x).node()}, v1::VOID, {});
  v1::UOp element;
  element.set_op(v1::GETTUPLE);
  element.add_src(tuple.node());
  element.set_index(1);
  return graph.Node(std::move(element), x.dtype(), x.shape());
}

void AddElementwise(std::vector<GradientCase>& cases) {
  struct Pair {
    const char* name;
    Shape a, b;
  };
  for (const Pair& p : {Pair{"same", {2, 3}, {2, 3}}, Pair{"row", {2, 3}, {3}}, Pair{"column", {2, 1}, {2, 3}},
                        Pair{"outer", {3, 1}, {1, 2}}, Pair{"scalar", {}, {2, 2}}, Pair{"ones", {1, 1}, {1}},
                        Pair{"empty", {0, 3}, {1, 3}}}) {
    const std::string suffix = std::string(" ") + p.name;
    const std::vector<Shape> inputs = {p.a, p.b};
    cases.push_back({"ADD" + suffix, inputs, -2, 2, [](const In& x) { return x[0] + x[1]; }});
    cases.push_back({"MUL" + suffix, inputs, -2, 2, [](const In& x) { return x[0] * x[1]; }});
    cases.push_back({"MAX" + suffix, inputs, -2, 2, [](const In& x) { return Square(Maximum(x[0], x[1])); }});
    cases.push_back({"FDIV" + suffix, inputs, 0.5, 2, [](const In& x) { return Quotient(x[0], x[1]); }});
    cases.push_back({"POW" + suffix, inputs, 0.5, 2, [](const In& x) { return Pow(x[0], x[1]); }});
    cases.push_back(
        {"WHERE" + suffix, inputs, -2, 2, [](const In& x) { return Where(x[0] < x[1], Square(x[0]), x[1] * 3); }});
    cases.push_back({"SUB" + suffix, inputs, -2, 2, [](const In& x) { return Square(x[0] - x[1]); }});
  }
  const std::vector<Shape> one = {{2, 3}};
  cases.push_back({"RECIPROCAL", one, 0.5, 2, [](const In& x) { return Reciprocal(x[0]); }});
  cases.push_back({"SQRT", one, 0.5, 2, [](const In& x) { return Sqrt(x[0]); }});
  cases.push_back({"EXP2", one, -2, 2, [](const In& x) { return Exp2(x[0]); }});
  cases.push_back({"LOG2", one, 0.5, 2, [](const In& x) { return Log2(x[0]); }});
  cases.push_back({"SIN", one, -8, 8, [](const In& x) { return Sin(x[0]); }});
  cases.push_back({"POW of itself", one, 0.5, 2, [](const In& x) { return Pow(x[0], x[0]); }});
  cases.push_back({"POW of negatives", one, -2, -0.5, [](const In& x) { return Pow(x[0], 3); }});
  cases.push_back({"POW to 0", one, -2, 2, [](const In& x) { return Pow(x[0], 0) + x[0]; }});
  cases.push_back({"TRUNC", one, -2, 2, [](const In& x) { return Trunc(x[0] * 3) * x[0]; }});
  cases.push_back({"CAST to integers", one, -2, 2,
                   [](const In& x) { return Cast(Cast(x[0] * 4, v1::INT32), v1::FLOAT64) * x[0]; }});
  cases.push_back({"CMPLT to a number", one, -2, 2, [](const In& x) { return Cast(x[0] < 0.1, v1::FLOAT64) * x[0]; }});
  cases.push_back({"shared", one, -2, 2, [](const In& x) { return x[0] * x[0] * Sin(x[0]) + x[0]; }});
}

void AddMovement(std::vector<GradientCase>& cases) {
  const std::vector<Shape> one = {{2, 3, 2}};
  cases.push_back({"RESHAPE", one, -2, 2, [](const In& x) { return Square(Reshape(x[0], {3, 4})); }});
  cases.push_back(
      {"PERMUTE", one, -2, 2, [](const In& x) { return Permute(x[0], {2, 0, 1}) * Permute(x[0], {2, 0, 1}); }});
  cases.push_back({"FLIP", one, -2, 2, [](const In& x) { return Flip(x[0], {0, 2}) * x[0]; }});
  cases.push_back({"EXPAND", {{2, 1, 3}}, -2, 2, [](const In& x) { return Square(Expand(x[0], {2, 4, 3})); }});
  cases.push_back({"EXPAND to nothing", {{2, 1}}, -2, 2, [](const In& x) { return Expand(x[0], {2, 0}); }});
  cases.push_back({"PAD", one, -2, 2, [](const In& x) { return Square(Pad(x[0], {{1, 0}, {0, 2}, {1, 1}}, 5)); }});
  cases.push_back({"PAD with Invalid", one, -2, 2,
                   [](const In& x) { return Sum(Square(InvalidPad(x[0], {0, 1, 0}, {3, 4, 2})), {1}); }});
  cases.push_back({"SHRINK", one, -2, 2, [](const In& x) { return Square(Shrink(x[0], {{0, 1}, {1, 3}, {0, 2}})); }});
  cases.push_back({"STACK", {{2}, {2}}, -2, 2, [](const In& x) { return Square(Stack({x[0], x[1], x[0] * x[1]})); }});
  cases.push_back({"INDEX by a number", one, -2, 2,
                   [](const In& x) { return Square(Index(x[0], {x[0].graph()->Constant(1, v1::INT32)})); }});
  cases.push_back({"INDEX by numbers", one, -2, 2, [](const In& x) {
                     Graph& graph = *x[0].graph();
                     return Square(Index(x[0], {graph.Constant(1, v1::INT32), graph.Constant(2, v1::INT64)}));
                   }});
  cases.push_back({"INDEX by a vector", one, -2, 2,
                   [](const In& x) { return Square(Index(x[0], {Ints(x[0], {1, 0, 1, 7, -1})})); }});
  cases.push_back({"INDEX by two vectors", one, -2, 2,
                   [](const In& x) { return Square(Index(x[0], {Ints(x[0], {1, 0, 1}), Ints(x[0], {2, 2, 0, 1})})); }});
  cases.push_back({"INDEX by a matrix and a number", one, -2, 2, [](const In& x) {
                     Graph& graph = *x[0].graph();
                     const Tensor matrix = Reshape(Ints(x[0], {1, 0, 1, 1, 0, 9}), {2, 3});
                     const Tensor zero = graph.Constant(0, v1::INT32);
                     return Square(
                         graph.Node(v1::INDEX, {x[0].node(), matrix.node(), zero.node()}, v1::FLOAT64, {2, 3, 2}));
                   }});
  cases.push_back({"INDEX out of range", one, -2, 2,
                   [](const In& x) { return Index(x[0], {x[0].graph()->Constant(2, v1::INT32)}) + Sum(x[0]); }});
  cases.push_back({"INDEX of a long axis", {{37}}, -2, 2, [](const In& x) {
                     return Square(Index(x[0], {Ints(x[0], {36, 16, 15, 16})}));
                   }});
}

void AddReduce(std::vector<GradientCase>& cases) {
  for (const Axes& axes : {Axes(), Axes(0), Axes(1), Axes({0, 2})}) {
    std::string suffix;
    for (int64_t axis : axes.list()) suffix += " " + std::to_string(axis);
    const std::vector<Shape> one = {{2, 3, 2}};
    cases.push_back({"REDUCE ADD" + suffix, one, -2, 2, [axes](const In& x) { return Square(Sum(x[0], axes)); }});
    cases.push_back({"REDUCE MUL" + suffix, one, -2, 2, [axes](const In& x) { return Prod(x[0], axes); }});
    cases.push_back({"REDUCE MAX" + suffix, one, -2, 2, [axes](const In& x) { return Square(Max(x[0], axes)); }});
    cases.push_back({"REDUCE MUL with a zero" + suffix, one, -2, 2, [axes](const In& x) {
                       return Prod(x[0] * Pad(x[0].graph()->Ones({2, 3, 1}, v1::FLOAT64), {{0, 0}, {0, 0}, {1, 0}}),
                                   axes);
                     }});
  }
  for (int64_t n : {0, 1, 2, 5, 8}) {
    cases.push_back({"REDUCE MUL of " + std::to_string(n), {{n, 2}}, -2, 2, [](const In& x) { return Prod(x[0], 0); }});
  }
  cases.push_back({"REDUCE MUL of Invalid", {{2, 3}}, -2, 2, [](const In& x) {
                     return Prod(InvalidPad(x[0], {1, 1}, {3, 5}), 1);
                   }});
  cases.push_back({"REDUCE MAX of Invalid", {{2, 3}}, -2, 2, [](const In& x) {
                     return Max(Square(InvalidPad(x[0], {0, 1}, {2, 5})), 1);
                   }});
}

void AddRest(std::vector<GradientCase>& cases) {
  const std::vector<Shape> one = {{2, 3}};
  cases.push_back({"LOAD", one, -2, 2, [](const In& x) { return Square(Contiguous(x[0] * 2)); }});
  cases.push_back({"LOAD with a gate", {{2, 3}, {3}, {2, 1}}, -2, 2, [](const In& x) {
                     return Square(GatedLoad(x[0], x[1], x[2] < 0));
                   }});
  cases.push_back(
      {"CONTIGUOUS_BACKWARD", one, -2, 2, [](const In& x) { return Sin(ContiguousBackward(Square(x[0]))); }});
  cases.push_back({"GETTUPLE", one, -2, 2, [](const In& x) { return Twice(x[0]); }});
  cases.push_back({"not used", {{2, 3}, {4}}, -2, 2, [](const In& x) { return Square(x[0]); }});
  cases.push_back({"itself", one, -2, 2, [](const In& x) { return x[0]; }});
  cases.push_back({"matmul", {{2, 3}, {3, 2}}, -2, 2, [](const In& x) { return Matmul(x[0], x[1]); }});
  cases.push_back({"softmax", one, -2, 2, [](const In& x) { return Softmax(x[0], 1); }});
  cases.push_back({"layer norm", {{2, 4}, {4}, {4}}, -2, 2, [](const In& x) { return LayerNorm(x[0], x[1], x[2]); }});
  cases.push_back({"gelu", one, -2, 2, [](const In& x) { return Gelu(x[0]); }});
  cases.push_back({"convolution", {{1, 2, 4, 3}, {2, 2, 3, 2}, {2}}, -2, 2, [](const In& x) {
                     return Conv2d(x[0], x[1], x[2], {.stride = {2, 1}, .padding = {1, 0}});
                   }});
  cases.push_back({"cumulative sum", {{5}}, -2, 2, [](const In& x) { return Square(CumSum(x[0], 0)); }});
}

}  // namespace

std::vector<GradientCase> GradientCases() {
  std::vector<GradientCase> cases;
  AddElementwise(cases);
  AddMovement(cases);
  AddReduce(cases);
  AddRest(cases);
  return cases;
}

}  // namespace kiln::testing
