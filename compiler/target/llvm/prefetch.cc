#include "compiler/target/llvm/prefetch.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/graph.h"
#include "compiler/structure/core_product.h"
#include "compiler/target/llvm/streamed_stores.h"
#include "compiler/target/llvm/values/values.h"

namespace kiln::compiler {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);
constexpr int64_t kFarBytes = 128 << 10;  // of storage: what is smaller may be in the L2 cache
constexpr int64_t kNearBytes = 4096;      // about as much as is multiplied while it comes
constexpr int64_t kChunksPerThread = 8;   // of a loop that threads share
constexpr int64_t kMostIterations = int64_t{1} << 24;
constexpr int64_t kMaxPasses = 32;  // over a panel: if it is read more often, prefetching the next one does not pay

// Of a node that is computed from loops' counters, constants and variables alone.
bool IsPure(const UOp* uop) {
  switch (uop->op()) {
    case Op::CONST:
    case Op::RANGE:
    case Op::STACK:
    case Op::EXPAND:
    case Op::RESHAPE: return true;
    case Op::PARAM: return uop->IsVariable();
    default: return IsElementwise(uop->op());
  }
}

bool CanPrefetch(const UOp* load) {
  if (load->op() != Op::LOAD || load->src().size() > 1 || load->src(0)->op() != Op::INDEX) return false;
  return load->src(0)->src(0)->op() == Op::PARAM;
}

// By how much `index` grows with `range`; none if it is no sum of multiples.
std::optional<int64_t> StepIn(UOp* index, const UOp* range) {
  absl::flat_hash_map<const UOp*, std::optional<int64_t>> steps;
  for (const UOp* uop : Toposort(index)) {
    std::optional<int64_t> step = uop == range ? 1 : 0;
    const auto of = [&](size_t source) { return steps.at(uop->src(source)); };
    if (uop->op() == Op::ADD) {
      step = of(0).has_value() && of(1).has_value() ? std::optional(*of(0) + *of(1)) : std::nullopt;
    } else if (uop->op() == Op::MUL && uop->src(1)->IsConst()) {
      step = of(0).has_value() ? std::optional(*of(0) * uop->src(1)->const_int()) : std::nullopt;
    } else if (uop->op() == Op::RESHAPE || uop->op() == Op::EXPAND) {
      step = of(0);
    } else if (std::any_of(uop->src().begin(), uop->src().end(), [&](UOp* source) { return steps.at(source) != 0; })) {
      step = std::nullopt;
    }
    steps[uop] = step;
  }
  return steps.at(index);
}

bool IsReduced(const UOp* range) { return range->arg_as<RangeArg>().type == AxisType::kReduce; }

// Of a reader of `bytes` from `index` on, in `open` loops, outermost first: if it reads on in each iteration of the
// innermost one.
std::optional<Ahead> AheadOf(const UOp* storage, UOp* index, int64_t bytes, absl::Span<UOp* const> open,
                             int64_t threads, int64_t least_times) {
  const int64_t item = ItemSize(storage->dtype());
  if (storage->op() != Op::PARAM || !IsConst(storage->shape()) || open.empty() || bytes % kLineBytes != 0 ||
      NumElements(storage->shape()) * item < kFarBytes || StepIn(index, open.back()) != bytes / item)
    return std::nullopt;
  Ahead ahead;
  ahead.step = bytes;
  size_t depth = open.size();
  while (ahead.iterations < kMostIterations && depth > 0 && IsReduced(open[depth - 1]) &&
         open[depth - 1]->src(0)->IsConst()) {
    const int64_t wanted = ahead.iterations * bytes / item;
    if (StepIn(index, open[depth - 1]) != wanted) break;
    ahead.iterations *= open[--depth]->src(0)->const_int();
  }
  if (depth == open.size()) return std::nullopt;  // no sum
  ahead.reduced.assign(open.begin() + static_cast<int64_t>(depth), open.end());
  const size_t end_of_rows = depth;
  int64_t times = 1;
  while (times <= kMaxPasses && depth > 0 && open[depth - 1]->src(0)->IsConst() && StepIn(index, open[depth - 1]) == 0)
    times *= std::min(open[--depth]->src(0)->const_int(), kMaxPasses + 1);
  // What is read once is no panel, and goes so fast that the processor foresees it; one that is read again and again is
  // not worth prefetching.
  if (times > kMaxPasses || times < least_times) return std::nullopt;
  const bool next = depth > 0 && open[depth - 1]->src(0)->IsConst() &&
                    StepIn(index, open[depth - 1]) == ahead.iterations * bytes / item;
  if (!next) {
    ahead.reduced.clear();
    ahead.fixed = kNearBytes;
    ahead.share = bytes;
    return ahead;
  }
  ahead.rows.assign(open.begin() + static_cast<int64_t>(depth), open.begin() + static_cast<int64_t>(end_of_rows));
  ahead.share = (bytes + times - 1) / times;
  // Few panels are handed out one by one (worker_pool.h).
  const UOp* panels = open[depth - 1];
  const bool one_by_one = panels->arg_as<RangeArg>().type == AxisType::kThread &&
                          panels->src(0)->const_int() < 2 * kChunksPerThread * threads;
  if (one_by_one) ahead.skipped = (threads - 1) * ahead.iterations * bytes;
  return ahead;
}

std::optional<Ahead> AheadOf(UOp* uop, absl::Span<UOp* const> open, int64_t threads) {
  if (const auto product = CoreProductOf(uop)) {
    if (product->b.step != product->columns) return std::nullopt;
    return AheadOf(WithoutOrder(product->b.storage), product->b.first, product->words * product->columns * 4, open,
                   threads, 1);
  }
  if (!CanPrefetch(uop) || uop->shape().empty()) return std::nullopt;
  UOp* place = uop->src(0);
  return AheadOf(place->src(0), place->src(1), NumElements(uop->shape()) * ItemSize(uop->dtype()), open, threads, 2);
}

// By how many elements the first lane of each row of `index` is behind that of the first row; empty where it is no sum
// of multiples. What loops add is the same for all.
std::vector<int64_t> RowOffsets(UOp* index) {
  absl::flat_hash_map<const UOp*, std::vector<int64_t>> offsets;
  for (UOp* uop : Toposort(index)) {
    std::vector<int64_t>& mine = offsets[uop];
    const auto of = [&](const UOp* source, int64_t row) {
      const std::vector<int64_t>& all = offsets.at(source);
      return all[BroadcastRow(source->shape(), uop->shape(), static_cast<size_t>(row))];
    };
    const bool each_known = std::none_of(uop->src().begin(), uop->src().end(),
                                         [&](const UOp* source) { return offsets.at(source).empty(); });
    if (uop->op() == Op::RANGE || uop->op() == Op::PARAM) {
      mine = {0};
    } else if (uop->op() == Op::CONST) {
      mine = {uop->const_int()};
    } else if (!each_known) {
      continue;
    } else if (uop->op() == Op::STACK) {
      for (const UOp* source : uop->src()) {
        mine.insert(mine.end(), offsets.at(source).begin(), offsets.at(source).end());
        if (source->shape().empty()) break;  // lanes of one row
      }
    } else {
      for (int64_t row = 0; row < RowsOf(uop->shape()); ++row) {
        if (uop->op() == Op::RESHAPE || uop->op() == Op::EXPAND) {
          mine.push_back(of(uop->src(0), row));
        } else if (uop->op() == Op::ADD) {
          mine.push_back(of(uop->src(0), row) + of(uop->src(1), row));
        } else if (uop->op() == Op::MUL && uop->src(1)->IsConst()) {
          mine.push_back(of(uop->src(0), row) * uop->src(1)->const_int());
        }
      }
    }
  }
  return offsets.at(index);
}

}  // namespace

std::vector<AskedRow> AskedRowsOf(const UOp* load) {
  UOp* index = load->src(0)->src(1);
  const int64_t lanes = LanesOf(index->shape()), rows = RowsOf(index->shape());
  const std::vector<int64_t> offsets = RowOffsets(index);
  std::vector<AskedRow> asked;
  for (int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const bool joins = row > 0 && offsets.size() == static_cast<size_t>(rows) && lanes > 1 &&
                       offsets[at] - offsets[at - 1] == lanes &&
                       (asked.back().elements + lanes) * ItemSize(load->dtype()) <= kLineBytes;
    if (joins) {
      asked.back().elements += lanes;
    } else {
      asked.push_back({row, lanes});
    }
  }
  return asked;
}

Prefetches FindPrefetches(const UOp* linear, int64_t threads) {
  const absl::Span<UOp* const> all = linear->src();
  absl::flat_hash_map<const UOp*, size_t> position;
  for (size_t i = 0; i < all.size(); ++i) position[all[i]] = i;

  Prefetches prefetches;
  absl::flat_hash_map<size_t, std::vector<size_t>> moved;  // before the instruction at a position
  absl::flat_hash_set<size_t> moves;
  std::vector<size_t> first_loops = {kNone};  // of each scope that is open
  std::vector<UOp*> open;                     // loops
  for (size_t i = 0; i < all.size(); ++i) {
    UOp* uop = all[i];
    if (uop->op() == Op::LOAD || uop->op() == Op::WMMA) {
      if (auto ahead = AheadOf(uop, open, threads)) prefetches.ahead[uop] = *std::move(ahead);
    }
    if (uop->op() == Op::RANGE) open.push_back(uop);
    if (uop->op() == Op::END) open.resize(open.size() - (uop->src().size() - 1));
    if (uop->op() == Op::RANGE) {
      const bool reduction = uop->arg_as<RangeArg>().type == AxisType::kReduce;
      if (first_loops.back() == kNone && reduction) first_loops.back() = i;
      first_loops.push_back(kNone);
    } else if (uop->op() == Op::END) {
      first_loops.resize(first_loops.size() - (uop->src().size() - 1));
    } else if (first_loops.back() != kNone && CanPrefetch(uop)) {
      const size_t loop = first_loops.back();
      std::vector<UOp*> place = Toposort(uop->src(0)->src(1));
      if (!std::all_of(place.begin(), place.end(), IsPure)) continue;
      place.push_back(uop->src(0)->src(0));
      prefetches.before[all[loop]].push_back(uop);
      for (const UOp* part : place) {
        const auto at = position.find(part);
        if (at != position.end() && at->second > loop && moves.insert(at->second).second)
          moved[loop].push_back(at->second);
      }
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (const auto found = moved.find(i); found != moved.end()) {
      std::sort(found->second.begin(), found->second.end());
      for (size_t at : found->second) prefetches.list.push_back(all[at]);
    }
    if (!moves.contains(i)) prefetches.list.push_back(all[i]);
  }
  return prefetches;
}

std::vector<llvm::Value*> LinesAhead(llvm::IRBuilder<>& builder, const Ahead& ahead, llvm::Value* address,
                                     const std::function<llvm::Value*(const UOp*)>& iteration) {
  const auto number = [&](int64_t value) { return builder.getInt64(static_cast<uint64_t>(value)); };
  const auto count = [&](const std::vector<const UOp*>& loops) {
    llvm::Value* counted = number(0);
    for (const UOp* loop : loops)
      counted = builder.CreateAdd(builder.CreateMul(counted, number(loop->src(0)->const_int())), iteration(loop));
    return counted;
  };
  llvm::Value* bytes = number(ahead.fixed);
  if (!ahead.reduced.empty()) {
    llvm::Value* k = count(ahead.reduced);
    llvm::Value* all = builder.CreateAdd(builder.CreateMul(count(ahead.rows), number(ahead.iterations)), k);
    llvm::Value* to_end = builder.CreateMul(builder.CreateSub(number(ahead.iterations), k), number(ahead.step));
    bytes = builder.CreateAdd(builder.CreateAdd(to_end, number(ahead.skipped)),
                              builder.CreateMul(all, number(ahead.share)));
  }
  std::vector<llvm::Value*> lines;
  for (int64_t line = 0; line < ahead.share; line += kLineBytes)
    lines.push_back(builder.CreateGEP(builder.getInt8Ty(), address, builder.CreateAdd(bytes, number(line))));
  return lines;
}

}  // namespace kiln::compiler
