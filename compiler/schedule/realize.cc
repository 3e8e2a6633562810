#include "compiler/schedule/realize.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/fused_cost.h"

namespace kiln::compiler {
namespace {

// More accesses than this are not told apart: the value is realised if it costs
// anything. This bounds the work of lowering, too: without it, a chain of
// x[i] + x[i+1] doubles its accesses at every link.
constexpr size_t kMaxAccesses = 8;

// Reading and writing memory in place of computing again, by the bytes of the whole value:
// how much dearer that is than an instruction on registers. Small values cost a kernel.
double MemoryFactor(const UOp* value) { return SizeOf(value) * ItemSize(value->dtype()) <= (1 << 24) ? 6 : 12; }

// A value that is evaluated at most so often is no operand of a product.
constexpr double kFewTimes = 3;

// One that is evaluated so often is an operand of which a product makes a copy.
constexpr double kOften = 64;

// Fewer iterations of the outer loops than this leave threads without work, unless there
// is little of it.
constexpr double kEnoughIterations = 8;
constexpr double kLittleWork = 1 << 16;
// And what every thread does for itself is less.
constexpr double kRepeatedWork = 1 << 12;

// A product's kernel computes at most so many values of each element.
constexpr size_t kMaxFollowed = 256;
// To find them, at most so many uses of values are looked at, for all products of a graph together.
constexpr size_t kMaxFollowSteps = 1 << 22;

// What one kernel computes in its outer loops, at most.
constexpr int kMaxReduces = 8;
constexpr double kMaxReduceNodes = 400;

class Realization {
 public:
  Realization(absl::Span<UOp* const> order, Fusion fusion) : order_(order), fusion_(std::move(fusion)) {
    for (size_t i = 0; i < order_.size(); ++i) {
      UOp* const uop = order_[i];
      positions_[uop] = i;
      for (UOp* source : DataSources(uop)) users_[source].push_back(uop);
      if (uop->op() == Op::STORE && uop->src(0)->shape() == uop->src(1)->shape()) stored_as_is_.insert(uop->src(1));
      operands_[uop] = LargestOperand(uop);
      if (IsRowReduce(uop)) {
        UOp* source = uop->src(0);
        while (source->op() == Op::RESHAPE) source = source->src(0);
        reduced_.insert(source);
      }
    }
    for (UOp* uop : order_) {
      if (IsProduct(uop)) FollowProduct(uop);
    }
  }

  // What FollowProduct finds, and more than one value is made of: it will probably be realised.
  absl::flat_hash_set<UOp*> LikelyRealized() const {
    absl::flat_hash_set<UOp*> likely;
    for (UOp* uop : order_) {
      if (finished_.contains(uop) && users_.at(uop).size() > 1) likely.insert(uop);
    }
    return likely;
  }

  absl::flat_hash_set<UOp*> Run() {
    Walk();
    // What a product's kernel computes in its outer loops ruins its tiles.
    if (!mixed_.empty() || !wanted_.empty()) Walk();
    return std::move(realized_);
  }

 private:
  // REDUCEs that one kernel computes, and how many iterations their loops have.
  struct Fused {
    double iterations = 0;
    int reduces = 0;
    double nodes = 0;
    bool product = false;
  };

  // Whether it reads something again and again: its kernel lives from keeping that in registers, for which
  // it has to be alone.
  bool IsProduct(const UOp* uop) const {
    return uop->op() == Op::REDUCE && !fusion_.collapsed.contains(uop) &&
           operands_.at(uop->src(0)) < SizeOf(uop->src(0));
  }

  bool IsRowReduce(const UOp* uop) const {
    return uop->op() == Op::REDUCE && !fusion_.collapsed.contains(uop) && !IsProduct(uop);
  }

  // Whether it is the last that is made of several reductions of rows, an element of each, before it is itself
  // reduced: a row's loss, of which a mean is taken. None of these reductions can be computed inside of that one;
  // in one kernel with it they read their rows once.
  bool FinishesRows(const UOp* uop, const std::vector<Access>& mine) const {
    const double size = SizeOf(uop);
    if (!reduced_.contains(uop) || size < kEnoughIterations || mine.size() != 1 || !mine[0].inside_reduce ||
        mine[0].evaluations > size)
      return false;
    int rows = 0;
    absl::flat_hash_set<const UOp*> seen;
    std::vector<const UOp*> stack = {uop};
    while (!stack.empty()) {
      const UOp* below = stack.back();
      stack.pop_back();
      if (!seen.insert(below).second) continue;
      if (IsRowReduce(below)) rows += SizeOf(below) == size && SizeOf(below->src(0)) > size;
      const bool ends = EndsFusion(below->op()) && !fusion_.collapsed.contains(below);
      if (ends && !(IsRowReduce(below) && SizeOf(below) == size)) continue;
      for (const UOp* source : DataSources(below)) stack.push_back(source);
    }
    return rows > 1;
  }

  // Finds the last value that each element of a product goes through, alone: what is made of it on the way there, by
  // however many ways, nobody else needs.
  void FollowProduct(UOp* product) {
    UOp* last = nullptr;
    absl::flat_hash_set<const UOp*> followed = {product};
    std::map<size_t, UOp*> next;  // users of what is followed, sources before their users
    size_t open = 0;              // uses of what is followed by what is not
    // False if there are too many for all of them to be followed.
    const auto follow = [&](UOp* uop) {
      const std::vector<UOp*>& users = users_[uop];
      open += users.size();
      if (open > kMaxFollowed || follow_steps_ > kMaxFollowSteps) return false;
      follow_steps_ += users.size();
      for (UOp* user : users) next[positions_.at(user)] = user;
      return true;
    };
    // How often it uses what is followed; none of its loops may be others than theirs.
    const auto uses = [&](const UOp* uop) -> std::optional<size_t> {
      if (!IsByElements(uop) && uop->op() != Op::RESHAPE) return std::nullopt;
      size_t uses = 0;
      for (UOp* source : DataSources(uop)) {
        if (!followed.contains(source)) continue;
        if (!SameLoops(source->shape(), uop->shape())) return std::nullopt;
        ++uses;
      }
      return uses;
    };
    for (bool more = follow(product); more && !next.empty() && followed.size() < kMaxFollowed;) {
      UOp* const uop = next.begin()->second;
      next.erase(next.begin());
      const std::optional<size_t> used = uses(uop);
      if (!used.has_value()) break;
      open -= *used;
      if (open == 0 && IsElementwise(uop->op())) last = uop;
      followed.insert(uop);
      more = follow(uop);
    }
    if (last != nullptr) finished_.insert(last);
  }

  // Whether the shapes differ by axes of one element alone.
  static bool SameLoops(const Shape& a, const Shape& b) {
    const auto loops = [](const Shape& shape) {
      Shape longer;
      for (const Dim& size : shape) {
        if (!(size == 1)) longer.push_back(size);
      }
      return longer;
    };
    return loops(a) == loops(b);
  }

  // Whether a value with these users can be computed by the one kernel that needs it, in that one's loops.
  static bool InOneKernel(const UOp* value, const std::vector<Access>& mine) {
    const double size = SizeOf(value);
    return mine.size() == 1 && mine[0].evaluations <= size && !mine[0].inside_reduce &&
           IterationsOf(mine[0].kernel) <= size;
  }

  void Walk() {
    realized_ = fusion_.realized;
    accesses_.clear();
    fused_.clear();
    for (size_t i = order_.size(); i-- > 0;) Visit(order_[i]);  // users before their sources
  }

  void Visit(UOp* uop) {
    std::vector<Access>& mine = accesses_[uop];
    if (uop->op() == Op::STORE) {
      const double size = SizeOf(uop->src(0));
      mine = {{absl::HashOf(uop), size, false, uop, size}};
    } else if (uop->op() == Op::CALL) {
      // What a kernel reads is there whole (opaque_calls.h).
      for (size_t k = 1; k < uop->src().size(); ++k) {
        UOp* source = uop->src(k);
        if (source->op() == Op::LOAD)
          Merge(accesses_[source], {absl::HashOf(uop, k), SizeOf(source), false, source, SizeOf(source)});
      }
    } else if (uop->dtype() != DType::kVoid && !mine.empty()) {
      if (Realize(uop, mine)) {
        realized_.insert(uop);
        mine = {{absl::HashOf(uop, 1), SizeOf(uop), false, uop, SizeOf(uop)}};
      }
    }
    if (mine.size() > kMaxAccesses) mine.resize(kMaxAccesses + 1);
    const absl::Span<UOp* const> sources = DataSources(uop);
    const std::vector<Access> passed_on = mine;
    for (size_t slot = 0; slot < sources.size(); ++slot) {
      if (uop->op() == Op::STORE && slot == 0) continue;  // the target is not read
      if (uop->op() == Op::AFTER && slot > 0) continue;   // order only
      for (const Access& access : passed_on) {
        for (int copy = 0; copy < Fanout(uop); ++copy)
          Merge(accesses_[sources[slot]], Through(uop, slot, copy, access, fusion_.collapsed.contains(uop)));
      }
    }
  }

  // Whether it gets a buffer. If not, `mine` may become fewer.
  bool Realize(UOp* uop, std::vector<Access>& mine) {
    const bool chosen = realized_.contains(uop);
    // A LOAD that is only stored needs no buffer in between.
    if (uop->op() == Op::LOAD) return users_[uop].size() > 1 || !stored_as_is_.contains(uop);
    if (uop->op() == Op::REDUCE && !fusion_.collapsed.contains(uop)) return chosen || !FuseReduce(uop, mine);
    if (!fusion_.pinned.contains(uop) && (CanBeRealized(uop) || uop->op() == Op::REDUCE) && FinishesRows(uop, mine))
      return true;
    // A product that its user cannot compute is stored as late as it can be: finished.
    if (finished_.contains(uop) && CanBeRealized(uop) && !fusion_.pinned.contains(uop) &&
        !(InOneKernel(uop, mine) && fused_[mine[0].kernel].reduces == 0))
      return true;
    if (!chosen && uop->op() == Op::PAD && IsOperandOfProducts(uop, mine)) return false;
    if (chosen || fusion_.pinned.contains(uop) || (!CanBeRealized(uop) && uop->op() != Op::REDUCE)) return chosen;
    const double size = SizeOf(uop);
    const bool outer = std::all_of(mine.begin(), mine.end(), [&](const Access& access) {
      return access.kernel == mine[0].kernel && FollowsOuterLoops(uop, access);
    });
    if (outer && IsByElements(uop)) mine = {{absl::HashOf(mine[0].kernel, uop), size, false, mine[0].kernel, size}};
    double evaluations = 0;
    for (const Access& access : mine) evaluations += access.evaluations;
    const double once = fusion_.costs.at(uop).cost;
    const double recompute = evaluations * (once - 2 * kLoadCost);
    const double factor =
        evaluations <= kFewTimes * size && mine[0].kernel == mine.back().kernel ? MemoryFactor(uop) : 1;
    const double store = size * (once + factor * (kStoreCost + 2 * kLoadCost));
    return (evaluations > size && recompute > store) || (mine.size() > kMaxAccesses && once > kLoadCost) ||
           // It is stored anyway: others may as well read it.
           (stored_as_is_.contains(uop) && mine.size() > 1 && once > kLoadCost);
  }

  // Whether products read it, and so often that they copy it first to where it is near: then they may as well copy
  // what is inside the padding.
  bool IsOperandOfProducts(const UOp* uop, const std::vector<Access>& mine) {
    return std::all_of(mine.begin(), mine.end(), [&](const Access& access) {
      return access.inside_reduce && fused_[access.kernel].product && access.evaluations >= kOften * SizeOf(uop);
    });
  }

  // Of all loops of its output.
  static double IterationsOf(const UOp* kernel) { return SizeOf(kernel->op() == Op::STORE ? kernel->src(0) : kernel); }

  // Whether the kernel that needs the REDUCE computes it.
  bool FuseReduce(UOp* reduce, std::vector<Access>& mine) {
    const double size = SizeOf(reduce);
    const UOp* kernel = mine[0].kernel;
    Fused& fused = fused_[kernel];
    const bool product = IsProduct(reduce);
    if (fused.product) return false;
    if (InOneKernel(reduce, mine)) {
      if (product && fused.reduces > 0) wanted_.insert(kernel);
      if (product ? fused.reduces > 0 : wanted_.contains(kernel)) return false;
      fused.product = product;
      if (fused.reduces > 0 && fused.iterations != size) mixed_.insert(kernel);
      fused.iterations = size;
      ++fused.reduces;
      return true;
    }
    for (const Access& access : mine) {
      if (access.kernel != kernel || !FollowsOuterLoops(reduce, access)) return false;
    }
    const double work = SizeOf(reduce->src(0));
    const bool spread = size >= kEnoughIterations || work <= (size > 1 ? kLittleWork : kRepeatedWork);
    const double nodes = fusion_.costs.at(reduce).nodes;
    if (!spread || product || wanted_.contains(kernel) || fused.reduces >= kMaxReduces ||
        fused.nodes + nodes > kMaxReduceNodes)
      return false;
    if (fused.reduces > 0 && fused.iterations != size) {
      if (mixed_.contains(kernel)) return false;
      mixed_.insert(kernel);
    }
    if (mixed_.contains(kernel)) return false;
    fused.iterations = size;
    ++fused.reduces;
    fused.nodes += nodes;
    mine = {{absl::HashOf(kernel, reduce), size, false, kernel, size}};
    return true;
  }

  // The elements of the largest buffer or reduction that the value is made of.
  double LargestOperand(const UOp* uop) const {
    if (EndsFusion(uop->op()) || fusion_.realized.contains(uop)) return SizeOf(uop);
    double largest = 0;
    for (UOp* source : DataSources(uop)) largest = std::max(largest, operands_.at(source));
    return largest;
  }

  const absl::Span<UOp* const> order_;
  const Fusion fusion_;
  absl::flat_hash_map<const UOp*, size_t> positions_;         // in order_
  absl::flat_hash_map<const UOp*, std::vector<UOp*>> users_;  // once for each use
  absl::flat_hash_set<const UOp*> stored_as_is_;
  absl::flat_hash_map<const UOp*, double> operands_;
  absl::flat_hash_set<UOp*> realized_;
  absl::flat_hash_map<const UOp*, std::vector<Access>> accesses_;
  absl::flat_hash_map<const UOp*, Fused> fused_;
  absl::flat_hash_set<const UOp*> reduced_;   // what a reduction of rows reduces
  absl::flat_hash_set<const UOp*> mixed_;     // kernels of REDUCEs in different loops
  absl::flat_hash_set<const UOp*> wanted_;    // kernels that could compute a product, were they not to compute others
  absl::flat_hash_set<const UOp*> finished_;  // what FollowProduct finds
  size_t follow_steps_ = 0;
};

}  // namespace

UOp* TakeMarks(Graph& graph, UOp* sink, absl::flat_hash_set<UOp*>& marked) {
  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    const bool mark = uop->op() == Op::AFTER && src.size() == 1;
    if (mark && StorageOf(src[0]) == nullptr) marked.insert(src[0]);
    done[uop] = mark ? src[0] : graph.Make(uop->op(), src, uop->arg());
  }
  return done[sink];
}

absl::flat_hash_set<UOp*> ChooseRealized(Graph& graph, UOp* sink, const StoreOrder& stores,
                                         const absl::flat_hash_set<UOp*>& marked) {
  const std::vector<UOp*> order = Toposort(sink);
  absl::flat_hash_set<UOp*> realized;
  for (UOp* uop : order) {
    if (marked.contains(uop) && (CanBeRealized(uop) || uop->op() == Op::REDUCE || Is(uop->op(), kMovement)))
      realized.insert(uop);
  }
  Fusion fusion = AnalyseFusion(graph, order, stores, realized);
  const bool grows = fusion.realized.size() > realized.size();
  Realization realization(order, std::move(fusion));
  if (!grows) return realization.Run();
  // Kernels that would grow too large were cut somewhere. Blocks of a network add what came before them to a product:
  // each begins anew where that was stored, and may be small enough. Only if it is stored, though: else a kernel would
  // be as large as all of them.
  constexpr int kMaxTries = 3;
  absl::flat_hash_set<UOp*> likely = realization.LikelyRealized();
  for (int tried = 0; tried < kMaxTries && !likely.empty(); ++tried) {
    absl::flat_hash_set<UOp*> chosen = Realization(order, AnalyseFusion(graph, order, stores, realized, likely)).Run();
    if (absl::erase_if(likely, [&](UOp* uop) { return !chosen.contains(uop); }) == 0) return chosen;
  }
  return realization.Run();
}

namespace {

// What `uop` shows, under all that only says where.
UOp* UnderViews(UOp* uop, const absl::flat_hash_set<UOp*>& realized) {
  const auto is_view = [](Op op) {
    return op == Op::PERMUTE || op == Op::FLIP || op == Op::RESHAPE || op == Op::EXPAND || op == Op::SHRINK;
  };
  while (is_view(uop->op()) && !realized.contains(uop)) uop = uop->src(0);
  return uop;
}

}  // namespace

absl::flat_hash_set<UOp*> KeepNarrow(UOp* sink, const absl::flat_hash_set<UOp*>& realized,
                                     absl::FunctionRef<bool(DType)> is_factor,
                                     const absl::flat_hash_set<UOp*>& marked) {
  absl::flat_hash_set<UOp*> kept = marked, narrow;
  for (const UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::STORE) kept.insert(uop->src(1));
  }
  for (UOp* value : realized) {
    const bool widened = !kept.contains(value) && value->op() == Op::CAST && is_factor(value->src(0)->dtype()) &&
                         ItemSize(value->src(0)->dtype()) < ItemSize(value->dtype());
    UOp* source = widened ? UnderViews(value->src(0), realized) : nullptr;
    // It is in memory, but perhaps for the zeros around it.
    const UOp* inside = source != nullptr && source->op() == Op::PAD ? UnderViews(source->src(0), realized) : source;
    if (source != nullptr && (inside->op() == Op::PARAM || realized.contains(source))) continue;
    const bool smaller = source != nullptr && (IsElementwise(source->op()) || source->op() == Op::PAD) &&
                         MaxElements(source->shape()) <= MaxElements(value->shape());
    narrow.insert(smaller ? source : value);
  }
  return narrow;
}

}  // namespace kiln::compiler
