#include "compiler/kernel/tiles/core_products.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/build.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/structure/core_product.h"

namespace kiln::compiler {
namespace {

// The lanes of a tile: its rows, and its columns as vectors of neighbours. Null where there is one.
struct TileLanes {
  UOp *rows = nullptr, *vectors = nullptr, *neighbours = nullptr;
};

int64_t SizeOf(const UOp* lane) { return lane == nullptr ? 1 : lane->src(0)->const_int(); }

// A factor that lies in words: its place, and by how much that moves.
struct Words {
  UOp* index;           // INDEX(storage, place)
  int64_t per_element;  // terms, if an element of the storage is a word; else 1
};

class Selector {
 public:
  Selector(Graph& graph, UOp* reduce, const DotUnits& units) : graph_(graph), reduce_(reduce), units_(units) {}

  // The reduction by the unit, or null.
  UOp* Select() {
    const std::optional<DotFactors> factors = DotFactorsOf(reduce_->src(0), units_);
    if (!factors.has_value() || reduce_->arg_as<ReduceArg>().op != Op::ADD) return nullptr;
    terms_ = factors->terms();
    if (!units_.TakesTilesOf(factors->a->dtype()) || !FindLanes()) return nullptr;
    for (const auto& [a, b] : {std::pair(factors->a, factors->b), std::pair(factors->b, factors->a)}) {
      if (UOp* made = Try(a, b); made != nullptr) return made;
    }
    return nullptr;
  }

 private:
  // Sorts the lanes that the products are in; false if they are no tile's.
  bool FindLanes() {
    for (UOp* range : reduce_->src().subspan(1)) {
      const AxisType type = range->arg_as<RangeArg>().type;
      if (type == AxisType::kReduce) {
        loops_.push_back(range);
      } else if (type == AxisType::kUnroll && in_word_ == nullptr && range->src(0)->IsConstInt(terms_)) {
        in_word_ = range;
      } else {
        return false;
      }
    }
    int64_t last = -1;
    std::vector<UOp*> lanes;
    const RangeSet open = OpenRanges(reduce_->src(0)).at(reduce_->src(0));
    for (UOp* range : open) {
      if (range->arg_as<RangeArg>().type != AxisType::kUpcast) continue;
      lanes.push_back(range);
      last = std::max(last, LaneDimension(range));
    }
    for (UOp* range : lanes) {
      UOp*& lane = LaneDimension(range) == 0      ? lanes_.rows
                   : LaneDimension(range) == last ? lanes_.neighbours
                                                  : lanes_.vectors;
      if (lane != nullptr) return false;
      lane = range;
    }
    return in_word_ != nullptr && SizeOf(lanes_.neighbours) == kTileWords &&
           FitsTiles((SizeOf(lanes_.rows) + kTileRows - 1) / kTileRows, SizeOf(lanes_.vectors));
  }

  std::optional<Words> WordsOf(UOp* numbers) const {
    const UOp* bits = numbers->op() == Op::BITCAST ? numbers->src(0) : numbers;
    if (bits->op() == Op::CAST && bits->src(0)->op() == Op::SHR) {
      UOp* word = bits->src(0)->src(0);
      UOp* unpacked = FromWord(graph_, word, in_word_, numbers->dtype());
      if (unpacked != numbers || !IsPlainLoad(word) || word->dtype() != DType::kUint32 ||
          StrideIn(PlaceIn(word->src(0)), in_word_) != 0)
        return std::nullopt;
      return Words{word->src(0), terms_};
    }
    if (!IsPlainLoad(numbers) || StrideIn(PlaceIn(numbers->src(0)), in_word_) != 1) return std::nullopt;
    return Words{numbers->src(0), 1};
  }

  static bool IsPlainLoad(const UOp* uop) {
    return uop->op() == Op::LOAD && uop->src().size() == 1 && uop->src(0)->op() == Op::INDEX;
  }
  static UOp* PlaceIn(const UOp* index) { return index->src(1); }
  // By how many elements `index` moves along a lane, of which there may be none.
  static std::optional<int64_t> Stride(const UOp* index, UOp* range) {
    return range == nullptr ? 0 : StrideIn(PlaceIn(index), range);
  }

  UOp* Try(UOp* a_numbers, UOp* b_numbers) {
    const std::optional<Words> a = WordsOf(a_numbers), b = WordsOf(b_numbers);
    if (!a.has_value() || !b.has_value() || b->per_element != terms_) return nullptr;
    const int64_t word = terms_ / a->per_element;  // elements of A's storage
    const auto moves = [](const Words& side, UOp* range) { return Stride(side.index, range); };
    if (moves(*a, lanes_.vectors) != 0 || moves(*a, lanes_.neighbours) != 0 || moves(*b, lanes_.rows) != 0 ||
        moves(*b, lanes_.neighbours) != 1)
      return nullptr;
    if (lanes_.vectors != nullptr && moves(*b, lanes_.vectors) != kTileWords) return nullptr;
    const std::optional<int64_t> row_step = moves(*a, lanes_.rows);
    // What is read again by several instructions may not move under them.
    for (UOp* loop : loops_) {
      const std::optional<int64_t> step = moves(*b, loop);
      if (moves(*a, loop) != word || !step.has_value() || !row_step.has_value() || !loop->src(0)->IsConst()) continue;
      const int64_t words = WordsOfTile(loop->src(0)->const_int());
      if (words < kFewestWords) continue;
      return Make({a_numbers, *a, *row_step}, {b_numbers, *b, *step}, loop, words);
    }
    return nullptr;
  }

  struct Factor {
    UOp* numbers;
    Words words;
    int64_t step;
  };

  UOp* Make(const Factor& a, const Factor& b, UOp* loop, int64_t words) {
    UOp* pieces = graph_.Make(Op::RANGE, {Idx(graph_, loop->src(0)->const_int() / words)},
                              RangeArg{graph_.NextId(), AxisType::kReduce});
    UOp* zero = Idx(graph_, 0);
    absl::flat_hash_map<UOp*, UOp*> first = {{loop, Mul(graph_, pieces, Idx(graph_, words))}, {in_word_, zero}};
    for (UOp* lane : {lanes_.rows, lanes_.vectors, lanes_.neighbours}) {
      if (lane != nullptr) first[lane] = zero;
    }
    const auto side = [&](const Factor& factor) {
      UOp* index = factor.words.index;
      return CoreProduct::Side{index->src(0), Substitute(PlaceIn(index), first, graph_), factor.step,
                               factor.numbers->dtype()};
    };
    const CoreProduct product{side(a), side(b), SizeOf(lanes_.rows), kTileWords * SizeOf(lanes_.vectors), words};
    std::vector<UOp*> src = {MakeCoreProduct(graph_, product, Zero())};
    for (UOp* each : loops_) src.push_back(each == loop ? pieces : each);
    return graph_.Make(Op::REDUCE, src, reduce_->arg());
  }

  // In all lanes of the tile.
  UOp* Zero() {
    UOp* sum = Idx(graph_, 0);
    for (UOp* lane : {lanes_.rows, lanes_.vectors, lanes_.neighbours}) {
      if (lane != nullptr) sum = Add(graph_, sum, lane);
    }
    return Cast(graph_, Mul(graph_, sum, Idx(graph_, 0)), reduce_->dtype());
  }

  Graph& graph_;
  UOp* const reduce_;
  const DotUnits& units_;
  int64_t terms_ = 1;
  UOp* in_word_ = nullptr;
  std::vector<UOp*> loops_;
  TileLanes lanes_;
};

}  // namespace

int64_t WordsOfTile(int64_t iterations) {
  int64_t words = std::min(iterations, kTileWords);
  while (words > 1 && iterations % words != 0) --words;
  return words;
}

UOp* SelectCoreProducts(Graph& graph, UOp* sink, const DotUnits& units) {
  UOp* only = nullptr;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::REDUCE) continue;
    if (only != nullptr) return sink;  // whose sums would be in the same registers
    only = uop;
  }
  UOp* made = only == nullptr ? nullptr : Selector(graph, only, units).Select();
  return made == nullptr ? sink : Substitute(sink, {{only, made}}, graph);
}

}  // namespace kiln::compiler
