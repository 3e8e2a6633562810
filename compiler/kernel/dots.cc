#include "compiler/kernel/dots.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/structure/core_product.h"
#include "compiler/structure/tf32.h"

namespace kiln::compiler {
namespace {

// What LLVM calls them.
constexpr char kBfloatFeature[] = "+avx512bf16", kBfloatTiles[] = "+amx-bf16", kByteTiles[] = "+amx-int8";

bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUint8; }
bool IsWord(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kUint32; }

bool IsTerm(DType dtype) { return IsByte(dtype) || dtype == DType::kBfloat16; }

// Whether a product of numbers of these dtypes fits `dtype`, or wraps as a reduction into 32 bits does.
bool HoldsProduct(DType dtype, DType a, DType b) {
  if (a == DType::kBfloat16) return dtype == DType::kFloat32;
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
  Selector(Graph& graph, const DotUnits& units) : graph_(graph), units_(units) {}

  // The reduction as dot products, or null.
  UOp* Select(UOp* reduce) const {
    const ReduceArg& arg = reduce->arg_as<ReduceArg>();
    if (arg.op != Op::ADD || arg.axes.size() != 1 || reduce->src().size() < 2) return nullptr;
    UOp* value = reduce->src(0);
    const Shape& shape = value->shape();
    const auto axis = static_cast<size_t>(arg.axes[0]);
    if (axis + 1 >= shape.size() || shape.back() != units_.lanes) return nullptr;
    const std::optional<DotFactors> factors = DotFactorsOf(value, units_);
    if (!factors.has_value() || shape[axis] != factors->terms()) return nullptr;
    if (!units_.TakesDotsOf(factors->a->dtype())) return nullptr;
    UOp* a = WordsOf(factors->a, axis);
    UOp* b = WordsOf(factors->b, axis);
    if (a == nullptr || b == nullptr) return nullptr;
    DType a_type = factors->a->dtype();
    const DType b_type = factors->b->dtype();
    if (a_type == DType::kBfloat16) return Reduce(reduce, a, b, a_type);
    if (a_type != b_type) return a_type == DType::kUint8 ? Reduce(reduce, a, b) : Reduce(reduce, b, a);

    // (x + 128) * y - 128 * y, or with - and +: the bit that changes is the same.
    if (LanesOf(b) < LanesOf(a)) std::swap(a, b);
    Shape spread = a->shape();
    spread.back() = units_.lanes;
    UOp* offset = Spread(graph_, ConstInt(graph_, DType::kUint32, 0x80808080), spread);
    UOp* moved = graph_.Make(Op::XOR, {Spread(graph_, a, spread), offset});
    const bool becomes_unsigned = a_type == DType::kInt8;
    UOp* sum = becomes_unsigned ? Reduce(reduce, moved, b) : Reduce(reduce, b, moved);
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
    few.back() = units_.lanes;
    offset = Spread(graph_, ConstInt(graph_, DType::kUint32, 0x80808080), few);
    UOp* excess = becomes_unsigned ? Reduce(alone, offset, b) : Reduce(alone, b, offset);
    return Add(graph_, sum, Mul(graph_, excess, ConstInt(graph_, reduce->dtype(), -1)));
  }

 private:
  static int64_t LanesOf(const UOp* x) { return int64_t{x->shape().back()}; }

  // The loops of `reduce` over dot products of these words, of numbers that are `in`, or bytes.
  UOp* Reduce(UOp* reduce, UOp* u, UOp* s, DType in = DType::kUint8) const {
    Shape shape = u->shape();
    for (size_t d = 0; d < shape.size(); ++d) shape[d] = std::max(shape[d], s->shape()[d]);
    WmmaArg arg;
    arg.n = arg.m = 1;
    arg.k = static_cast<uint32_t>(DotTerms(in));
    arg.in = in;
    arg.out = reduce->dtype();
    UOp* zero = Spread(graph_, ConstNumber(graph_, arg.out, 0), shape);
    std::vector<UOp*> src = {graph_.Make(Op::WMMA, {u, s, zero}, arg)};
    src.insert(src.end(), reduce->src().begin() + 1, reduce->src().end());
    ReduceArg reduce_arg = reduce->arg_as<ReduceArg>();
    reduce_arg.axes.clear();
    return graph_.Make(Op::REDUCE, src, reduce_arg);
  }

  // Words of the numbers along `axis`, or null.
  UOp* WordsOf(UOp* x, size_t axis) const {
    const UOp* bits = x->op() == Op::BITCAST ? x->src(0) : x;
    if (bits->op() == Op::CAST && bits->src(0)->op() == Op::SHR) {
      UOp* word = bits->src(0)->src(0);  // FromWord
      const bool whole = word->dtype() == DType::kUint32 && !word->shape().empty() && word->shape()[axis] == 1;
      return whole && Counts(bits->src(0)->src(1), axis, x->dtype()) ? word : nullptr;
    }
    return WordsInMemory(x, axis);
  }

  // Whether the counts of bits are where the numbers of a word begin, along `axis`.
  bool Counts(UOp* bits, size_t axis, DType dtype) const {
    if (bits->op() == Op::CAST) bits = bits->src(0);
    return bits->op() == Op::MUL && bits->src(0) == Count(graph_, DotTerms(dtype), axis, bits->shape().size()) &&
           bits->src(1)->IsConstInt(8 * ItemSize(dtype));
  }

  // Of a LOAD of neighbours, the same in all lanes.
  UOp* WordsInMemory(UOp* x, size_t axis) const {
    if (x->op() != Op::LOAD || x->src().size() != 1 || x->src(0)->op() != Op::INDEX) return nullptr;
    const Shape& shape = x->shape();
    const int64_t terms = DotTerms(x->dtype());
    if (shape.back() != 1 || shape[axis] != terms) return nullptr;
    UOp* place = x->src(0);
    UOp* along = Count(graph_, terms, axis, shape.size());
    if (Stride(place->src(1), along) != 1) return nullptr;
    UOp* across = Count(graph_, terms, shape.size() - 1, shape.size());
    UOp* index = Substitute(place->src(1), {{along, across}}, graph_);
    UOp* numbers = graph_.Make(Op::LOAD, {graph_.Make(Op::INDEX, {place->src(0), index})});
    return Bitcast(graph_, numbers, DType::kUint32);
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
  const DotUnits units_;
};

}  // namespace

DotUnits DotUnitsOf(const v1::Target& target) {
  const auto has = [&target](const char* feature) {
    return std::find(target.features().begin(), target.features().end(), feature) != target.features().end();
  };
  DotUnits units;
  if (target.tuning().vector_bytes() < 64) return units;
  const bool tiles = has("+amx-tile") || has(kMatrixUnitByLoops);
  units.byte_tiles = tiles && has(kByteTiles);
  units.bfloat_tiles = tiles && has(kBfloatTiles);
  units.bytes = has("+avx512vnni");
  // Cores with a matrix unit are slow at it: where that cannot be used, float32 is quicker.
  units.bfloats = has(kBfloatFeature) && !units.bfloat_tiles;
  units.lanes = units.bytes || units.bfloats ? 16 : 0;
  return units;
}

v1::Target AllowedTarget(v1::Target target, bool fast_math) {
  if (fast_math) return WithTf32(std::move(target));
  auto* features = target.mutable_features();
  const auto rounds = [](const std::string& word) { return word == kBfloatFeature || word == kBfloatTiles; };
  features->erase(std::remove_if(features->begin(), features->end(), rounds), features->end());
  return target;
}

std::optional<DotFactors> DotFactorsOf(UOp* value, const DotUnits& units) {
  if (!IsWord(value->dtype()) && value->dtype() != DType::kFloat32) return std::nullopt;
  UOp* product = value->op() == Op::CAST && IsWord(value->dtype()) ? value->src(0) : value;
  if (product->op() != Op::MUL) return std::nullopt;
  UOp* a = product->src(0);
  UOp* b = product->src(1);
  if (a->op() != Op::CAST || b->op() != Op::CAST) return std::nullopt;
  a = a->src(0);
  b = b->src(0);
  const bool integers = (units.bytes || units.byte_tiles) && IsByte(a->dtype()) && IsByte(b->dtype());
  const bool bfloats =
      (units.bfloats || units.bfloat_tiles) && a->dtype() == DType::kBfloat16 && b->dtype() == DType::kBfloat16;
  if ((!integers && !bfloats) || !HoldsProduct(product->dtype(), a->dtype(), b->dtype())) return std::nullopt;
  return DotFactors{a, b};
}

UOp* DotLanesIn(UOp* x) {
  if (!IsTerm(x->dtype())) return nullptr;
  const RangeSet open = OpenRanges(x).at(x);
  UOp* found = nullptr;
  for (UOp* range : open) {
    if (range->arg_as<RangeArg>().type != AxisType::kUnroll) continue;
    if (found != nullptr || !range->src(0)->IsConstInt(DotTerms(x->dtype()))) return nullptr;
    found = range;
  }
  return found;
}

UOp* ToWord(Graph& graph, UOp* x, UOp* range) {
  UOp* word = nullptr;
  for (int64_t i = 0; i < DotTerms(x->dtype()); ++i) {
    UOp* number = Substitute(x, {{range, Idx(graph, i)}}, graph);
    number = Bitcast(graph, number, IsByte(x->dtype()) ? DType::kUint8 : DType::kUint16);
    UOp* part = Cast(graph, number, DType::kUint32);
    if (i > 0) part = graph.Make(Op::SHL, {part, ConstInt(graph, DType::kUint32, 8 * ItemSize(x->dtype()) * i)});
    word = word == nullptr ? part : graph.Make(Op::OR, {word, part});
  }
  return word;
}

UOp* FromWord(Graph& graph, UOp* word, UOp* range, DType dtype) {
  UOp* bits = Cast(graph, Mul(graph, range, Idx(graph, 8 * ItemSize(dtype))), DType::kUint32);
  UOp* shifted = graph.Make(Op::SHR, {word, bits});
  if (IsByte(dtype)) return Cast(graph, shifted, dtype);
  return Bitcast(graph, Cast(graph, shifted, DType::kUint16), dtype);
}

UOp* SelectDots(Graph& graph, UOp* sink, const DotUnits& units) {
  const Selector selector(graph, units);
  absl::flat_hash_map<UOp*, UOp*> selected;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::REDUCE) continue;
    if (UOp* dots = selector.Select(uop); dots != nullptr) selected[uop] = dots;
  }
  return selected.empty() ? sink : Substitute(sink, selected, graph);
}

}  // namespace kiln::compiler
