// Programs at the edges of what a list may say: wild indices, pointers seen as another dtype, loops
// that never run.
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/program_builder.h"

namespace kiln::testing {
namespace {

using compiler::DType;

// Indices from the data, many of them wild: reads give 0 or the alternative,
// writes give nothing.
ProgramCase WildIndices() {
  ProgramBuilder p;
  const Node out = p.Global(0, DType::kInt32, {6}), where = p.Global(1, DType::kInt32, {6}),
             from = p.Global(2, DType::kInt32, {4});
  const Node l = p.Special("lidx0", 6);
  const Node wild = p.Load(p.At(where, {l}));
  const Node place = p.At(from, {wild});
  const Node gate = p.Do(v1::CMPNE, {wild, p.Int(2)});
  const Node value = p.Do(v1::LOAD, {place, p.Int(-1), gate});
  p.Store(p.At(out, {l}), p.Add(value, p.Mul(p.Int(100), p.Load(place))));
  // 2^31 times 2^20 wraps to 0: that place is inside, the others are not.
  p.Store(p.At(p.Global(3, DType::kInt32, {2}), {p.Mul(wild, p.Int(1 << 20))}), p.Int(77));
  return {"wild indices",
          p.Finish("wild"),
          {{0, Int32s({5, 5, 5, 5, 5, 5})},
           {1, Int32s({1, -1, 4, 2, 2147483647, -2147483647 - 1})},
           {2, Int32s({10, 20, 30, 40})},
           {3, Int32s({5, 5})}},
          {{0, Int32s({2020, -1, -1, 2999, -1, -1})}, {3, Int32s({77, 5})}}};
}

// BITCAST of a value, and of a pointer: float bits through an integer's eyes.
ProgramCase Recast() {
  ProgramBuilder p;
  const Node data = p.Global(0, DType::kFloat32, {4}), bits = p.Global(1, DType::kInt32, {4});
  const Node l = p.Special("lidx0", 4);
  const Node as_int = p.Bitcast(p.At(data, {l}), DType::kInt32);
  const Node pattern = p.Load(as_int);
  p.Store(p.At(bits, {l}), pattern);
  p.Store(as_int, p.Do(v1::XOR, {pattern, p.Int(-2147483648LL)}));
  const Node back = p.Bitcast(p.Load(p.At(bits, {l})), DType::kFloat32);
  p.Store(p.At(data, {l}), p.Add(back, p.Load(p.At(data, {l}))));
  return {"pointers and values seen as another dtype",
          p.Finish("recast"),
          {{0, Float32s({1, 2, -0.5f, 3})}, {1, Int32s({0, 0, 0, 0})}},
          {{0, Float32s({0, 0, 0, 0})}, {1, Int32s({0x3f800000, 0x40000000, -0x41000000, 0x40400000})}}};
}

// What a linearizer leaves in its list without effect.
ProgramCase Padding() {
  ProgramBuilder p;
  const Node data = p.Global(0, DType::kInt32, {2});
  const Node place = p.At(data, {p.Int(0)});
  const Node gate = p.Lt(p.Load(place), p.Int(5));
  const Node opened = p.Do(v1::IF, {gate, place});
  const Node store = p.Store(place, p.Int(6));
  p.EndIf(opened);
  const Node group = p.Do(v1::GROUP, {store});
  p.Do(v1::NOOP, {});
  p.Do(v1::SINK, {group});
  return {"GROUP, NOOP and SINK in the list", p.Finish("padding"), {{0, Int32s({1, 2})}}, {{0, Int32s({6, 2})}}};
}

// One node listed twice runs twice: the second LOAD sees the STORE between.
ProgramCase ListedTwice() {
  v1::Graph graph = FlatList(
      "0 CONST [] weakint 2\n"
      "1 PARAM : int32 [0] slot=0\n"
      "2 CONST [] int32 0\n"
      "3 INDEX [1, 2]\n"
      "4 LOAD [3]\n"
      "5 CONST [] int32 3\n"
      "6 MUL [4, 5]\n"
      "7 STORE [3, 6]\n");
  v1::UOp* list = graph.mutable_nodes(graph.nodes_size() - 1);
  for (uint32_t again : {4, 6, 7}) list->add_src(again);
  return {"an instruction listed twice", graph, {{0, Int32s({2, 5})}}, {{0, Int32s({18, 5})}}};
}

// No iteration, no effect.
ProgramCase EmptyLoops() {
  ProgramBuilder p;
  const Node data = p.Global(0, DType::kInt32, {1});
  const Node place = p.At(data, {p.Int(0)});
  const Node value = p.Load(place);
  const Node outer = p.Loop(3, 0);
  const Node inner = p.Range(value, 1);
  p.Store(place, p.Int(99));
  p.End(inner);
  p.Store(place, p.Add(p.Load(place), p.Int(1)));
  p.End(outer);
  return {"a loop with a bound below zero", p.Finish("empty"), {{0, Int32s({-4})}}, {{0, Int32s({-1})}}};
}

}  // namespace

std::vector<ProgramCase> EdgeCases() { return {WildIndices(), Recast(), Padding(), ListedTwice(), EmptyLoops()}; }

}  // namespace kiln::testing
