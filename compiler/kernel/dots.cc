#include "compiler/kernel/dots.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {
namespace {

bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUint8; }
bool IsWord(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kUint32; }

// Whether a product of bytes of these dtypes fits `dtype`, or wraps as a fold into 32 bits does.
bool HoldsProduct(DType dtype, DType a, DType b) {
  if (IsWord(dtype)) return true;
  const bool some_signed = a == DType::kInt8 || b == DType::kInt8;
  return dtype == (some_signed ? DType::kInt16 : DType::kUint16);
}

// lanes 0, 1, 2, ... along one dimension of `rank`.
UOp* Count(Graph& graph, int64_t size, size_t dimension, size_t rank) {
  std::vector<UOp*> elements;
  for (int64_t i = 0; i < size; ++i) {
    UOp* element = Idx(graph, i);
    for (size_t d = dimension + 1; d < rank; ++d) element = graph.Make(Op::STACK, {element});
    elements.push_back(element);
  }
  UOp* count = graph.Make(Op::STACK, elements);
  for (size_t d = 0; d < dimension; ++d) count = graph.Make(Op::STACK, {count});
  return count;
}

UOp* Spread(Graph& graph, UOp* x, const Shape& shape) {
  if (x->shape().empty()) x = Reshape(graph, x, Shape(shape.size(), 1));
  return x->shape() == shape ? x : Expand(graph, x, shape);
}

class Selector {
 public:
  Selector(Graph& graph, int64_t lanes) : graph_(graph), lanes_(lanes) {}

  // The fold as dot products, or null.
  UOp* Select(UOp* reduce) const {
    const ReduceArg& arg = reduce->arg_as<ReduceArg>();
    if (arg.op != Op::ADD || arg.axes.size() != 1 || reduce->src().size() < 2) return nullptr;
    UOp* value = reduce->src(0);
    const Shape& shape = value->shape();
    const auto axis = static_cast<size_t>(arg.axes[0]);
    if (axis + 1 >= shape.size() || shape[axis] != kDotTerms || shape.back() != lanes_) return nullptr;
    const std::optional<DotFactors> factors = DotFactorsOf(value);
    if (!factors.has_value()) return nullptr;
    UOp* a = WordsOf(factors->a, axis);
    UOp* b = WordsOf(factors->b, axis);
    if (a == nullptr || b == nullptr) return nullptr;
    DType a_type = factors->a->dtype();
    const DType b_type = factors->b->dtype();
    if (a_type != b_type) return a_type == DType::kUint8 ? Fold(reduce, a, b) : Fold(reduce, b, a);

    // (x + 128) * y - 128 * y, or with - and +: the bit that changes is the same.
    if (LanesOf(b) < LanesOf(a)) std::swap(a, b);
    Shape spread = a->shape();
    spread.back() = lanes_;
    UOp* offset = Spread(graph_, ConstInt(graph_, DType::kUint32, 0x80808080), spread);
    UOp* moved = graph_.Make(Op::XOR, {Spread(graph_, a, spread), offset});
    const bool becomes_unsigned = a_type == DType::kInt8;
    UOp* sum = becomes_unsigned ? Fold(reduce, moved, b) : Fold(reduce, b, moved);
    // Loops of its own, so that it stands where the other factor is at hand, which may be farther out.
    std::vector<UOp*> src = {sum};
    absl::flat_hash_map<UOp*, UOp*> own;
    for (UOp* range : reduce->src().subspan(1)) {
      own[range] = graph_.Make(Op::RANGE, range->src(), RangeArg{graph_.NextId(), range->arg_as<RangeArg>().type});
      src.push_back(own[range]);
    }
    UOp* alone = graph_.Make(Op::REDUCE, src, reduce->arg());
    b = Substitute(b, own, graph_);
    Shape few(spread.size(), 1);
    few.back() = lanes_;
    offset = Spread(graph_, ConstInt(graph_, DType::kUint32, 0x80808080), few);
    UOp* excess = becomes_unsigned ? Fold(alone, offset, b) : Fold(alone, b, offset);
    return Add(graph_, sum, Mul(graph_, excess, ConstInt(graph_, reduce->dtype(), -1)));
  }

 private:
  static int64_t LanesOf(const UOp* x) { return int64_t{x->shape().back()}; }

  // The loops of `reduce` over dot products of these words.
  UOp* Fold(UOp* reduce, UOp* u, UOp* s) const {
    Shape shape = u->shape();
    for (size_t d = 0; d < shape.size(); ++d) shape[d] = std::max(shape[d], s->shape()[d]);
    WmmaArg arg;
    arg.n = arg.m = 1;
    arg.k = kDotTerms;
    arg.in = DType::kUint8;
    arg.out = reduce->dtype();
    UOp* zero = Spread(graph_, ConstInt(graph_, reduce->dtype(), 0), shape);
    std::vector<UOp*> src = {graph_.Make(Op::WMMA, {u, s, zero}, arg)};
    src.insert(src.end(), reduce->src().begin() + 1, reduce->src().end());
    ReduceArg fold = reduce->arg_as<ReduceArg>();
    fold.axes.clear();
    return graph_.Make(Op::REDUCE, src, fold);
  }

  // Words of the four bytes along `axis`, or null.
  UOp* WordsOf(UOp* x, size_t axis) const {
    if (x->op() == Op::CAST && x->src(0)->op() == Op::SHR) {
      UOp* word = x->src(0)->src(0);  // FromWord
      const bool whole = word->dtype() == DType::kUint32 && !word->shape().empty() && word->shape()[axis] == 1;
      return whole && Counts(x->src(0)->src(1), axis) ? word : nullptr;
    }
    return WordsInMemory(x, axis);
  }

  // Whether the counts of bits are 0, 8, 16 and 24 along `axis`.
  bool Counts(UOp* bits, size_t axis) const {
    if (bits->op() == Op::CAST) bits = bits->src(0);
    return bits->op() == Op::MUL && bits->src(0) == Count(graph_, kDotTerms, axis, bits->shape().size()) &&
           bits->src(1)->IsConstInt(8);
  }

  // Of a LOAD of four neighbours, the same in all lanes.
  UOp* WordsInMemory(UOp* x, size_t axis) const {
    if (x->op() != Op::LOAD || x->src().size() != 1 || x->src(0)->op() != Op::INDEX) return nullptr;
    const Shape& shape = x->shape();
    if (shape.back() != 1 || shape[axis] != kDotTerms) return nullptr;
    UOp* place = x->src(0);
    UOp* along = Count(graph_, kDotTerms, axis, shape.size());
    if (Stride(place->src(1), along) != 1) return nullptr;
    UOp* across = Count(graph_, kDotTerms, shape.size() - 1, shape.size());
    UOp* index = Substitute(place->src(1), {{along, across}}, graph_);
    UOp* bytes = graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {place->src(0), index})});
    return Bitcast(graph_, bytes, DType::kUint32);
  }

  // By how much `index` grows where `count` does; none if it is no sum of them.
  static std::optional<int64_t> Stride(UOp* index, const UOp* count) {
    if (index == count) return 1;
    const std::vector<UOp*> order = Toposort(index);
    if (std::find(order.begin(), order.end(), count) == order.end()) return 0;
    if (index->op() == Op::MUL && index->src(1)->IsConst()) {
      const std::optional<int64_t> stride = Stride(index->src(0), count);
      if (stride.has_value()) return *stride * index->src(1)->const_int();
    }
    if (index->op() != Op::ADD) return std::nullopt;
    const std::optional<int64_t> a = Stride(index->src(0), count), b = Stride(index->src(1), count);
    if (!a.has_value() || !b.has_value()) return std::nullopt;
    return *a + *b;
  }

  Graph& graph_;
  const int64_t lanes_;
};

}  // namespace

int64_t DotLanes(const v1::Target& target) {
  const auto has = [&target](const char* feature) {
    return std::find(target.features().begin(), target.features().end(), feature) != target.features().end();
  };
  return has("+avx512vnni") && target.tuning().vector_bytes() >= 64 ? 16 : 0;
}

std::optional<DotFactors> DotFactorsOf(UOp* value) {
  if (!IsWord(value->dtype())) return std::nullopt;
  UOp* product = value->op() == Op::CAST ? value->src(0) : value;
  if (product->op() != Op::MUL) return std::nullopt;
  UOp* a = product->src(0);
  UOp* b = product->src(1);
  if (a->op() != Op::CAST || b->op() != Op::CAST || !IsByte(a->src(0)->dtype()) || !IsByte(b->src(0)->dtype()))
    return std::nullopt;
  if (!HoldsProduct(product->dtype(), a->src(0)->dtype(), b->src(0)->dtype())) return std::nullopt;
  return DotFactors{a->src(0), b->src(0)};
}

UOp* DotLanesIn(UOp* x) {
  if (!IsByte(x->dtype())) return nullptr;
  const RangeSet open = OpenRanges(x).at(x);
  UOp* found = nullptr;
  for (UOp* range : open) {
    if (range->arg_as<RangeArg>().type != AxisType::kUnroll) continue;
    if (found != nullptr || !range->src(0)->IsConstInt(kDotTerms)) return nullptr;
    found = range;
  }
  return found;
}

UOp* ToWord(Graph& graph, UOp* x, UOp* range) {
  UOp* word = nullptr;
  for (int64_t i = 0; i < kDotTerms; ++i) {
    UOp* byte = Cast(graph, Substitute(x, {{range, Idx(graph, i)}}, graph), DType::kUint8);
    byte = Cast(graph, byte, DType::kUint32);
    if (i > 0) byte = graph.Make(Op::SHL, {byte, ConstInt(graph, DType::kUint32, 8 * i)});
    word = word == nullptr ? byte : graph.Make(Op::OR, {word, byte});
  }
  return word;
}

UOp* FromWord(Graph& graph, UOp* word, UOp* range, DType dtype) {
  UOp* bits = Cast(graph, Mul(graph, range, Idx(graph, 8)), DType::kUint32);
  return Cast(graph, graph.Make(Op::SHR, {word, bits}), dtype);
}

UOp* SelectDots(Graph& graph, UOp* sink, int64_t lanes) {
  const Selector selector(graph, lanes);
  absl::flat_hash_map<UOp*, UOp*> selected;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::REDUCE) continue;
    if (UOp* dots = selector.Select(uop); dots != nullptr) selected[uop] = dots;
  }
  return selected.empty() ? sink : Substitute(sink, selected, graph);
}

}  // namespace kiln::compiler
