#include "tests/client/sequence_programs.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/cpp/ops.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::client {
namespace {

// An expression: an op of operands, a parameter, or a number.
struct Tree {
  enum Op { kX, kY, kNumber, kAdd, kSub, kMul, kMax, kMin, kXor, kChoose, kFlip, kSum, kRoll } op = kX;
  int32_t number = 0;
  std::vector<Tree> operands;
};

Tree Leaf(Tree::Op op) { return {op, 0, {}}; }
Tree Number(int32_t number) { return {Tree::kNumber, number, {}}; }
Tree Of(Tree::Op op, std::vector<Tree> operands) { return {op, 0, std::move(operands)}; }

bool Has(const Tree& tree, Tree::Op op) {
  return tree.op == op || std::any_of(tree.operands.begin(), tree.operands.end(),
                                      [op](const Tree& operand) { return Has(operand, op); });
}

Tensor Build(const Tree& tree, const Tensor& x, const Tensor& y) {
  std::vector<Tensor> in;
  for (const Tree& operand : tree.operands) in.push_back(Build(operand, x, y));
  Graph& graph = *x.graph();
  switch (tree.op) {
    case Tree::kX: return x;
    case Tree::kY: return y;
    case Tree::kNumber: return graph.Full({kSize}, tree.number, v1::INT32);
    case Tree::kAdd: return in[0] + in[1];
    case Tree::kSub: return in[0] - in[1];
    case Tree::kMul: return in[0] * in[1];
    case Tree::kMax: return Maximum(in[0], in[1]);
    case Tree::kMin: return Minimum(in[0], in[1]);
    case Tree::kXor: return in[0] ^ in[1];
    case Tree::kChoose: return Where(in[0] < in[1], in[0] + in[1], in[1]);
    case Tree::kFlip: return Flip(in[0], {0});
    case Tree::kSum: return in[0] + BroadcastTo(Sum(in[0], 0, /*keepdim=*/true), {kSize});
    case Tree::kRoll: return Concat({Slice(in[0], 0, 3, kSize), Slice(in[0], 0, 0, 3)}, 0);
  }
  return x;
}

int32_t Wrap(uint32_t value) { return static_cast<int32_t>(value); }
int32_t Add(int32_t a, int32_t b) { return Wrap(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }

int32_t Element(Tree::Op op, int32_t a, int32_t b) {
  switch (op) {
    case Tree::kAdd: return Add(a, b);
    case Tree::kSub: return Wrap(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
    case Tree::kMul: return Wrap(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
    case Tree::kMax: return std::max(a, b);
    case Tree::kMin: return std::min(a, b);
    case Tree::kXor: return a ^ b;
    default: return a < b ? Add(a, b) : b;
  }
}

Values Evaluate(const Tree& tree, const Values& x, const Values& y) {
  std::vector<Values> in;
  for (const Tree& operand : tree.operands) in.push_back(Evaluate(operand, x, y));
  switch (tree.op) {
    case Tree::kX: return x;
    case Tree::kY: return y;
    case Tree::kNumber: return Values(kSize, tree.number);
    case Tree::kFlip: return Values(in[0].rbegin(), in[0].rend());
    case Tree::kRoll: std::rotate(in[0].begin(), in[0].begin() + 3, in[0].end()); return in[0];
    case Tree::kSum: {
      const int32_t sum = std::accumulate(in[0].begin(), in[0].end(), 0, Add);
      for (int32_t& value : in[0]) value = Add(value, sum);
      return in[0];
    }
    default:
      for (size_t i = 0; i < in[0].size(); ++i) in[0][i] = Element(tree.op, in[0][i], in[1][i]);
      return in[0];
  }
}

Kind KindOf(const std::vector<Tree>& results, const std::vector<Tree>& update) {
  Kind kind;
  Graph graph;
  const Tensor x = graph.Param(0, v1::INT32, {kSize}, "x"), y = graph.Param(1, v1::INT32, {kSize}, "y");
  kind.has_x = !update.empty();
  const auto function = [](Tree tree) {
    return [tree = std::move(tree)](const Values& x, const Values& y) { return Evaluate(tree, x, y); };
  };
  for (const std::vector<Tree>& trees : {results, update}) {
    for (const Tree& tree : trees) {
      kind.has_x |= Has(tree, Tree::kX);
      kind.has_y |= Has(tree, Tree::kY);
    }
  }
  for (const Tree& tree : results) {
    graph.Output(Build(tree, x, y));
    kind.results.push_back(function(tree));
  }
  if (!update.empty()) {
    graph.Update(x, Build(update[0], x, y));
    kind.update = function(update[0]);
  }
  kind.graph = graph.Build().value();
  return kind;
}

Tree AnyTree(std::mt19937& random, bool only_y, int depth = 3) {
  const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  if (depth == 0 || (depth < 3 && below(5) == 0)) return Leaf(only_y || below(2) == 0 ? Tree::kY : Tree::kX);
  const auto op = static_cast<Tree::Op>(Tree::kAdd + below(Tree::kRoll - Tree::kAdd + 1));
  std::vector<Tree> operands = {AnyTree(random, only_y, depth - 1)};
  if (op < Tree::kFlip) {
    operands.push_back(below(3) == 0 ? Number(static_cast<int32_t>(below(11)) - 5)
                                     : AnyTree(random, only_y, depth - 1));
  }
  return Of(op, std::move(operands));
}

}  // namespace

Kind One() { return KindOf({Of(Tree::kAdd, {Of(Tree::kMul, {Leaf(Tree::kX), Number(3)}), Number(1)})}, {}); }

Kind Two() {
  const Tree x = Leaf(Tree::kX), y = Leaf(Tree::kY);
  return KindOf({Of(Tree::kAdd, {Of(Tree::kMul, {x, y}), x}), Of(Tree::kFlip, {y})}, {});
}

Kind Update() { return KindOf({}, {Of(Tree::kAdd, {Leaf(Tree::kX), Leaf(Tree::kY)})}); }
Kind Replace() { return KindOf({}, {Of(Tree::kSub, {Leaf(Tree::kY), Number(7)})}); }

Kind AnyKind(std::mt19937& random) {
  const bool updates = random() % 5 < 2;
  std::vector<Tree> results(random() % 2 + (updates ? 0 : 1));
  for (Tree& tree : results) tree = AnyTree(random, false);
  std::vector<Tree> update;
  // Without x it overwrites, and so heals.
  if (updates) update.push_back(AnyTree(random, random() % 2 == 0));
  return KindOf(results, update);
}

v1::Graph Partial(bool updates) {
  return e2e::GraphOf(absl::StrCat(R"(
    0 STACK []
    1 PARAM [0] slot=0 dtype=int32 space=ALU name="m" min=1 max=16
    2 PARAM [0] slot=1 dtype=int32 space=ALU name="n" min=1 max=16
    3 STACK [1]
    4 PARAM : int32 [3] slot=2
    5 CONST [] weakint 8
    6 STACK [5]
    7 PARAM : int32 [6] slot=3
    8 CONST [] weakint 0
    9 STACK [8]
    10 STACK [2]
    11 SHRINK [4, 9, 10]
    12 REDUCE [11] ADD axes=(0)
    13 RESHAPE [12, 0]
    14 ADD [7, 13])",
                                   updates ? "\n15 STORE [7, 14]\n16 TUPLE [15]" : "\n15 TUPLE [14]"));
}

v1::Graph Long() {
  constexpr int64_t kIterations = 1 << 21;
  Graph graph;
  const Tensor x = graph.Param(0, v1::INT32, {kSize}, "x"), y = graph.Param(1, v1::INT32, {kSize}, "y");
  const Tensor iteration = BroadcastTo(Reshape(graph.Arange(kIterations), {kIterations, 1}), {kIterations, kSize});
  const Tensor rows = BroadcastTo(Reshape(y, {1, kSize}), {kIterations, kSize});
  // The greatest of very many remainders.
  graph.Update(x, x + Max(Mod((iteration * rows) ^ (iteration >> 3), 1021), 0));
  return graph.Build().value();
}

v1::Graph Split(const Devices& devices, bool updates) {
  Graph graph;
  const auto parts = static_cast<int64_t>(devices.size());
  const Tensor x = graph.Param(0, v1::INT32, {kSize * parts}, "x", devices);
  const Tensor y = graph.Param(1, v1::INT32, {kSize * parts}, "y", devices);
  if (updates) {
    graph.Update(x, x + y);
  } else {
    graph.Output(x * y + 5);
    graph.Output(AllReduce(x, parts));
  }
  return graph.Build().value();
}

std::vector<std::pair<v1::ErrorCode, v1::Graph>> Broken() {
  const auto sum = [](const char* size, const char* dtype, const char* sources) {
    return e2e::GraphOf(absl::StrCat("0 CONST [] weakint 8\n1 CONST [] weakint ", size,
                                     "\n2 PARAM : int32 [0] slot=0\n3 PARAM : ", dtype, " [1] slot=1\n4 ADD [", sources,
                                     "]\n5 TUPLE [4]"));
  };
  v1::Graph unknown = sum("8", "int32", "2, 3");
  unknown.mutable_nodes(4)->set_op(static_cast<v1::Op>(9999));
  return {{v1::GRAPH_EMPTY, v1::Graph()},
          {v1::SHAPE_MISMATCH, sum("7", "int32", "2, 3")},
          {v1::DTYPE_MISMATCH, sum("8", "float32", "2, 3")},
          {v1::SOURCE_OUT_OF_RANGE, sum("8", "int32", "2, 99")},
          {v1::WRONG_SOURCE_COUNT, sum("8", "int32", "2, 3, 3")},
          {v1::UNKNOWN_OP, unknown}};
}

}  // namespace kiln::client
