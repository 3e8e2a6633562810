#include "compiler/rules/decompose.h"

#include <vector>

#include "compiler/ir/build.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/emulate_dtype.h"
#include "compiler/rules/stable.h"
#include "compiler/rules/symbolic.h"
#include "compiler/rules/transcendental/transcendental.h"

namespace kiln::compiler {
namespace {

constexpr Var x{0}, y{1};

// -- THREEFRY: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC'11). Lane 0 is the low word.

UOp* U32(Graph& graph, int64_t value) { return ConstInt(graph, DType::kUint32, value); }

UOp* LowWord(Graph& graph, UOp* uop) { return Cast(graph, uop, DType::kUint32); }
UOp* HighWord(Graph& graph, UOp* uop) {
  return Cast(graph, graph.Make(Op::SHR, {uop, ConstInt(graph, DType::kUint64, 32)}), DType::kUint32);
}

UOp* RotateLeft(Graph& graph, UOp* uop, int by) {
  return graph.Make(Op::OR,
                    {graph.Make(Op::SHL, {uop, U32(graph, by)}), graph.Make(Op::SHR, {uop, U32(graph, 32 - by)})});
}

UOp* Threefry(const Match& m, Graph& graph) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  UOp* key0 = LowWord(graph, m[y]);
  UOp* key1 = HighWord(graph, m[y]);
  UOp* keys[3] = {key0, key1, graph.Make(Op::XOR, {graph.Make(Op::XOR, {key0, key1}), U32(graph, 0x1BD11BDA)})};
  UOp* a = Add(graph, LowWord(graph, m[x]), keys[0]);
  UOp* b = Add(graph, HighWord(graph, m[x]), keys[1]);
  for (int group = 0; group < 5; ++group) {
    for (int rotation : kRotations[group % 2]) {
      a = Add(graph, a, b);
      b = graph.Make(Op::XOR, {RotateLeft(graph, b, rotation), a});
    }
    a = Add(graph, a, keys[(group + 1) % 3]);
    b = Add(graph, b, Add(graph, keys[(group + 2) % 3], U32(graph, group + 1)));
  }
  UOp* high = graph.Make(Op::SHL, {Cast(graph, b, DType::kUint64), ConstInt(graph, DType::kUint64, 32)});
  return graph.Make(Op::OR, {high, Cast(graph, a, DType::kUint64)});
}

// -- Narrow floats

bool HasNarrowOperand(const UOp* uop) { return IsNarrowFloat(uop->src(0)->dtype()); }

UOp* InFloat32(const Match& m, Graph& graph) {
  UOp* uop = m.root();
  std::vector<UOp*> src;
  for (UOp* source : uop->src()) src.push_back(Cast(graph, source, DType::kFloat32));
  return Cast(graph, graph.Make(uop->op(), src, uop->arg()), uop->dtype());
}

// -- bool: + is or, * is and, max is or (docs/ir.md, "Integers")

bool IsBoolNode(const UOp* uop) { return uop->dtype() == DType::kBool; }

template <Op op>
UOp* As(const Match& m, Graph& graph) {
  return graph.Make(op, m.root()->src());
}

std::vector<Rule> Rules() {
  std::vector<Rule> rules = {
      RULE("threefry -> 20 rounds", Pattern::Of(Op::THREEFRY, {x, y}), Threefry),
      RULE("bool + -> or", Pattern::Any(Op::ADD).If(IsBoolNode), As<Op::OR>),
      RULE("bool * -> and", Pattern::Any(Op::MUL).If(IsBoolNode), As<Op::AND>),
      RULE("bool max -> or", Pattern::Any(Op::MAX).If(IsBoolNode), As<Op::OR>),
  };
  for (Op op : {Op::RECIPROCAL, Op::TRUNC, Op::EXP2, Op::LOG2, Op::SIN, Op::SQRT, Op::ADD, Op::MUL, Op::MAX, Op::FDIV,
                Op::CMPLT, Op::CMPNE, Op::POW}) {
    rules.push_back(RULE("narrow float op -> in float32", Pattern::Any(op).If(HasNarrowOperand), InFloat32));
  }
  return rules;
}

}  // namespace

RuleSet DecomposeRules(NativeOps native) {
  std::vector<Rule> rules = Rules();
  for (Rule& rule : TranscendentalRules(native)) rules.push_back(std::move(rule));
  for (Rule& rule : Float8CastRules()) rules.push_back(std::move(rule));
  return RuleSet(std::move(rules));
}

UOp* Decompose(Graph& graph, UOp* sink, NativeOps native) {
  sink = MakeStable(graph, sink);
  sink = StoreFloat8AsBytes(graph, GraphRewrite(sink, DecomposeRules(native), graph));
  return GraphRewrite(sink, SymbolicRules(), graph);
}

}  // namespace kiln::compiler
