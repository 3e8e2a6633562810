#include "tests/reduce/reductions.h"

#include <algorithm>

#include "base/float_bits.h"
#include "compiler/ir/dtype.h"

namespace kiln::testing {
namespace {

constexpr uint32_t kShapesTried = 8;

// Calls `at` for each node of the current graph, users before sources: what goes
// early takes much along. What was taken may have moved the nodes; the next round
// sees to what was missed.
template <typename F>
void ForEachNode(Candidates& candidates, F at) {
  for (int i = candidates.nodes() - 1; i >= 0; --i) {
    i = std::min(i, candidates.nodes() - 1);
    at(static_cast<uint32_t>(i));
  }
}

void MergeEqual(Candidates& candidates) { candidates.Try(Merged(candidates.graph())); }

// Results, roots and entries of lists: large pieces first, then ever smaller ones.
void DropSources(Candidates& candidates) {
  ForEachNode(candidates, [&](uint32_t i) {
    const auto sources = [&] {
      return static_cast<int>(i) < candidates.nodes() ? candidates.graph().nodes(static_cast<int>(i)).src_size() : 0;
    };
    for (int piece = sources(); piece > 0; piece /= 2) {
      for (int begin = sources() - piece; begin >= 0; begin -= piece) {
        begin = std::min(begin, sources() - 1);
        if (begin < 0) break;
        const int end = std::min(begin + piece, sources());
        const bool list = candidates.graph().nodes(static_cast<int>(i)).op() == v1::LINEAR;
        const int nodes = candidates.nodes();
        if (list && candidates.Try(WithoutEntries(candidates.graph(), i, begin, end))) {
          i -= static_cast<uint32_t>(nodes - candidates.nodes());
        } else if (candidates.Try(WithoutSources(candidates.graph(), i, begin, end))) {
          i -= static_cast<uint32_t>(nodes - candidates.nodes());  // those that went were before it
        }
      }
    }
  });
}

// A node in favour of one of its sources, or of theirs; a parameter in favour of
// another.
void TakeSources(Candidates& candidates) {
  ForEachNode(candidates, [&](uint32_t i) {
    const v1::Graph graph = candidates.graph();
    const v1::UOp& node = graph.nodes(static_cast<int>(i));
    std::vector<uint32_t> instead(node.src().begin(), node.src().end());
    for (uint32_t source : node.src()) {
      const auto& below = graph.nodes(static_cast<int>(source)).src();
      instead.insert(instead.end(), below.begin(), below.end());
    }
    for (uint32_t other = 0; other < i && node.has_buffer(); ++other) {
      if (graph.nodes(static_cast<int>(other)).op() == node.op()) instead.push_back(other);
    }
    // A shape in favour of another that is there already.
    const auto is_shape = [&](uint32_t k) {
      const v1::UOp& shape = graph.nodes(static_cast<int>(k));
      return shape.op() == v1::STACK || (shape.op() == v1::CONST && shape.constant().dtype() == v1::WEAKINT);
    };
    for (uint32_t other = i, found = 0; other-- > 0 && is_shape(i) && found < kShapesTried;) {
      if (!is_shape(other)) continue;
      instead.push_back(other);
      ++found;
    }
    for (uint32_t other : instead) {
      if (candidates.Try(WithUses(graph, i, other))) return;
    }
  });
}

v1::UOp Made(v1::Op op, std::vector<uint32_t> src) {
  v1::UOp node;
  node.set_op(op);
  node.mutable_src()->Add(src.begin(), src.end());
  return node;
}

v1::UOp Number(v1::DType dtype, int64_t value) {
  v1::UOp node = Made(v1::CONST, {});
  node.mutable_constant()->set_dtype(dtype);
  if (dtype == v1::BOOL) {
    node.mutable_constant()->set_b(value != 0);
  } else if (compiler::IsFloat(compiler::FromWire(dtype))) {
    node.mutable_constant()->set_bits(SignedToFloatBits(dtype, value));
  } else {
    node.mutable_constant()->set_i(value);
  }
  return node;
}

// Appends a STACK of sizes; the index that it has in the graph.
uint32_t AddShape(std::vector<v1::UOp>& made, uint32_t at, const std::vector<int64_t>& sizes) {
  std::vector<uint32_t> src;
  for (int64_t size : sizes) {
    src.push_back(at + static_cast<uint32_t>(made.size()));
    made.push_back(Number(v1::WEAKINT, size));
  }
  made.push_back(Made(v1::STACK, src));
  return at + static_cast<uint32_t>(made.size()) - 1;
}

uint32_t FreshSlot(const v1::Graph& graph) {
  uint32_t slot = 0;
  for (const v1::UOp& node : graph.nodes()) {
    if (node.has_buffer()) slot = std::max(slot, node.buffer().slot() + 1);
  }
  return slot;
}

// A number, a new parameter, or a number all over, in place of what a node computes.
void TakeLeaves(Candidates& candidates) {
  ForEachNode(candidates, [&](uint32_t i) {
    const v1::Graph graph = candidates.graph();
    const v1::UOp& node = graph.nodes(static_cast<int>(i));
    const NodeType type = candidates.types()[i];
    if (node.op() == v1::CONST || type.dtype == v1::DTYPE_UNSPECIFIED) return;
    const auto take = [&](const std::vector<v1::UOp>& made) {
      return candidates.Try(Merged(WithNode(graph, i, made)));
    };
    if (take({Number(type.dtype, 0)}) || take({Number(type.dtype, 1)})) return;
    if (type.dtype == v1::WEAKINT || type.dtype == v1::WEAKFLOAT) return;
    if (!node.has_buffer()) {
      std::vector<v1::UOp> made;
      v1::UOp param = Made(v1::PARAM, {AddShape(made, i, type.shape)});
      param.mutable_buffer()->set_slot(FreshSlot(graph));
      param.mutable_buffer()->set_dtype(type.dtype);
      made.push_back(param);
      if (take(made)) return;
    }
    if (type.shape.empty()) return;
    for (int64_t value : {0, 1}) {
      std::vector<v1::UOp> made;
      const uint32_t ones = AddShape(made, i, std::vector<int64_t>(type.shape.size(), 1));
      const uint32_t sizes = AddShape(made, i, type.shape);
      made.push_back(Number(type.dtype, value));
      made.push_back(Made(v1::RESHAPE, {i + static_cast<uint32_t>(made.size()) - 1, ones}));
      made.push_back(Made(v1::EXPAND, {i + static_cast<uint32_t>(made.size()) - 1, sizes}));
      if (take(made)) return;
    }
  });
}

void UnwrapLoops(Candidates& candidates) {
  ForEachNode(candidates, [&](uint32_t i) {
    const v1::DType dtype = candidates.types()[i].dtype;
    for (v1::DType counter : {dtype, v1::WEAKINT, v1::INT32}) {
      if (counter == v1::DTYPE_UNSPECIFIED) continue;
      const auto once = WithoutLoop(candidates.graph(), i, counter);
      if (!once.has_value() || candidates.Try(*once)) return;
    }
  });
}

void InlineFunctions(Candidates& candidates) {
  ForEachNode(candidates, [&](uint32_t i) {
    const auto inlined = Inlined(candidates.graph(), i);
    if (inlined.has_value()) candidates.Try(Merged(*inlined));
  });
}

}  // namespace

const std::vector<WayToReduce>& WaysToReduce() {
  static const auto& ways = *new std::vector<WayToReduce>{
      {"equal nodes", MergeEqual},
      {"results and entries", DropSources},
      {"sources in their users' place", TakeSources},
      {"constants and parameters", TakeLeaves},
      {"loops", UnwrapLoops},
      {"functions", InlineFunctions},
      {"numbers", ShrinkNumbers},
      {"arguments", PlainArguments},
  };
  return ways;
}

}  // namespace kiln::testing
