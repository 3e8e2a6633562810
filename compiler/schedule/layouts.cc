// Tested by tests/conformance/schedules/layouts_test.cc.
#include "compiler/schedule/layouts.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rules/linear.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/kernel_graph.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kMinChannels = 16;  // fewer fill no vector
constexpr int64_t kWordBytes = 4;     // of narrow numbers, units that multiply several at once take so many
constexpr size_t kMinRank = 3;        // of a matrix either axis is as good as the other to somebody
constexpr double kProductWork = 64;   // multiply-adds that take as long as to move an element

int64_t SizeOf(const UOp* range) { return range->src(0)->IsConst() ? range->src(0)->const_int() : 1; }

double Iterations(absl::Span<UOp* const> ranges) {
  double iterations = 1;
  for (const UOp* range : ranges) iterations *= static_cast<double>(SizeOf(range));
  return iterations;
}

// The axis of a row-major `shape` along which `range` moves `index`, all of its iterations inside the axis; none if it
// does not move so.
std::optional<size_t> AxisOf(const Shape& shape, UOp* index, UOp* range) {
  const std::optional<int64_t> step = StrideIn(index, range);
  if (!step.has_value() || *step == 0) return std::nullopt;
  int64_t stride = NumElements(shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto size = int64_t{shape[axis]};
    stride /= size;
    if (size == 1 || std::llabs(*step) < stride || *step % stride != 0) continue;
    return (SizeOf(range) - 1) * std::llabs(*step / stride) < size ? std::optional(axis) : std::nullopt;
  }
  return std::nullopt;
}

UOp* WithoutCasts(UOp* uop) {
  while (uop->op() == Op::CAST) uop = uop->src(0);
  return uop;
}

// Whether an axis of so many numbers is worth to lie along memory.
bool IsEnough(int64_t size, DType dtype) {
  return size >= kMinChannels || (ItemSize(dtype) < kWordBytes && size % (kWordBytes / ItemSize(dtype)) == 0);
}

std::vector<UOp*> LoadsIn(UOp* root) {
  std::vector<UOp*> loads;
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::LOAD && uop->src(0)->op() == Op::INDEX) loads.push_back(uop);
  }
  return loads;
}

bool IsViewOrCast(Op op) {
  return op == Op::PERMUTE || op == Op::FLIP || op == Op::RESHAPE || op == Op::EXPAND || op == Op::SHRINK ||
         op == Op::PAD || op == Op::CAST;
}

// A sum of products, and over what.
struct Product {
  std::array<UOp*, 2> factors;
  absl::Span<UOp* const> reduced;
};
std::optional<Product> ProductOf(UOp* reduce) {
  UOp* product = WithoutCasts(reduce->src(0));
  if (reduce->arg_as<ReduceArg>().op != Op::ADD || product->op() != Op::MUL) return std::nullopt;
  return Product{{product->src(0), product->src(1)}, reduce->src().subspan(1)};
}

// Whether a factor is made of parameters alone, as weights are.
bool OfWeights(UOp* factor) {
  const std::vector<UOp*> loads = LoadsIn(factor);
  return !loads.empty() && std::all_of(loads.begin(), loads.end(),
                                       [](const UOp* load) { return StorageOf(load->src(0))->op() == Op::PARAM; });
}

class Election {
 public:
  explicit Election(absl::Span<const KernelDraft> drafts) : drafts_(drafts) {
    for (const KernelDraft& draft : drafts) {
      // What lives in a caller's buffer lies as the caller says.
      if (draft.value != nullptr && draft.store == nullptr && MayHaveLayout(draft.value))
        candidates_[draft.output] = draft.value;
    }
    for (const KernelDraft& draft : drafts) {
      if (draft.call == nullptr) continue;  // whose kernel is a client's own
      for (const UOp* storage : draft.call->src().subspan(1)) candidates_.erase(storage);
    }
  }

  Layouts Run() {
    for (size_t i = drafts_.size(); i-- > 0;) {
      const KernelDraft& draft = drafts_[i];
      if (draft.sink == nullptr || draft.sink->src(0)->op() != Op::END) continue;
      const auto found = candidates_.find(draft.output);
      if (found != candidates_.end() && found->second == draft.value) Elect(draft.value);
      Vote(draft);
    }
    return std::move(chosen_);
  }

 private:
  void Elect(const UOp* value) {
    const Shape& shape = value->shape();
    const std::vector<double>& votes = VotesFor(value);
    const auto best = static_cast<size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin());
    if (votes[best] <= votes.back() || !IsEnough(int64_t{shape[best]}, value->dtype())) return;
    std::vector<int64_t> order(shape.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    std::rotate(order.begin() + static_cast<int64_t>(best), order.begin() + static_cast<int64_t>(best) + 1,
                order.end());
    chosen_[value] = std::move(order);
  }

  std::vector<double>& VotesFor(const UOp* value) {
    std::vector<double>& votes = votes_[value];
    votes.resize(value->shape().size());
    return votes;
  }

  void Vote(const KernelDraft& draft) {
    UOp* end = draft.sink->src(0);
    const absl::Span<UOp* const> outputs = end->src().subspan(1);
    absl::flat_hash_set<const UOp*> counted;
    for (UOp* uop : Toposort(end)) {
      if (uop->op() == Op::REDUCE) VoteAsProduct(uop, outputs, counted);
    }
    // All else is read as the result is written; or as it is, if nobody has chosen how that is.
    const bool chosen = draft.value != nullptr && chosen_.contains(draft.value);
    UOp* last = chosen ? LastOutput(draft, outputs) : nullptr;
    for (UOp* load : LoadsIn(end)) {
      if (counted.contains(load)) continue;
      const auto found = candidates_.find(StorageOf(load->src(0)));
      if (found == candidates_.end()) continue;
      if (last != nullptr) VoteFor(load, last, Iterations(outputs));
      if (!chosen) VotesFor(found->second).back() += Iterations(outputs);
    }
  }

  // The loop that walks what the kernel writes, a value whose layout is chosen, along memory.
  UOp* LastOutput(const KernelDraft& draft, absl::Span<UOp* const> outputs) const {
    UOp* index = draft.sink->src(0)->src(0)->src(0)->src(1);
    const auto last = static_cast<size_t>(chosen_.at(draft.value).back());
    for (UOp* range : outputs) {
      if (AxisOf(draft.value->shape(), index, range) == last) return range;
    }
    return nullptr;
  }

  // Of a sum of products with what is no intermediate value: weights.
  void VoteAsProduct(UOp* reduce, absl::Span<UOp* const> outputs, absl::flat_hash_set<const UOp*>& counted) {
    const std::optional<Product> product = ProductOf(reduce);
    if (!product.has_value()) return;
    const double work = Iterations(outputs) * Iterations(product->reduced) / kProductWork;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const bool by_weights = OfWeights(product->factors[1 - side]);
      for (UOp* load : LoadsIn(product->factors[side])) {
        const auto found = candidates_.find(StorageOf(load->src(0)));
        if (found == candidates_.end() || !counted.insert(load).second) continue;
        if (!by_weights) {
          VotesFor(found->second).back() += work;
          continue;
        }
        for (UOp* range : product->reduced) {
          if (IsEnough(SizeOf(range), load->dtype())) VoteFor(load, range, work);
        }
      }
    }
  }

  // That what `range` walks should be last in what is loaded.
  void VoteFor(const UOp* load, UOp* range, double weight) {
    const auto found = candidates_.find(StorageOf(load->src(0)));
    if (found == candidates_.end()) return;
    const std::optional<size_t> axis = AxisOf(found->second->shape(), load->src(0)->src(1), range);
    if (axis.has_value()) VotesFor(found->second)[*axis] += weight;
  }

  const absl::Span<const KernelDraft> drafts_;
  absl::flat_hash_map<const UOp*, const UOp*> candidates_;  // storage -> the value in it
  absl::flat_hash_map<const UOp*, std::vector<double>> votes_;
  Layouts chosen_;
};

}  // namespace

bool HasProducts(UOp* sink) {
  const std::vector<UOp*> order = Toposort(sink);
  return std::any_of(order.begin(), order.end(),
                     [](UOp* uop) { return uop->op() == Op::REDUCE && ProductOf(uop).has_value(); });
}

std::vector<UOp*> PadsOfFactors(UOp* sink) {
  std::vector<UOp*> pads;
  for (UOp* uop : Toposort(sink)) {
    const std::optional<Product> product = uop->op() == Op::REDUCE ? ProductOf(uop) : std::nullopt;
    if (!product.has_value()) continue;
    for (UOp* factor : product->factors) {
      for (; IsViewOrCast(factor->op()); factor = factor->src(0)) {
        if (factor->op() == Op::PAD && !absl::c_linear_search(pads, factor)) pads.push_back(factor);
      }
    }
  }
  return pads;
}

bool IsLittlePadding(const UOp* pad) {
  constexpr int64_t kMaxGrowth = 3;
  return NumElements(pad->shape()) / kMaxGrowth <= MaxElements(pad->src(0)->shape());
}

bool MayHaveLayout(const UOp* value) {
  const Shape& shape = value->shape();
  return shape.size() >= kMinRank && IsConst(shape) && NumElements(shape) > 0;
}

absl::flat_hash_set<const UOp*> PaddedFactors(absl::Span<const KernelDraft> drafts) {
  absl::flat_hash_map<const UOp*, const UOp*> values;
  for (const KernelDraft& draft : drafts) {
    if (draft.value != nullptr) values[draft.output] = draft.value;
  }
  absl::flat_hash_set<const UOp*> padded;
  for (const KernelDraft& draft : drafts) {
    if (draft.sink == nullptr) continue;
    for (UOp* uop : Toposort(draft.sink)) {
      if (uop->op() != Op::REDUCE) continue;
      const std::optional<Product> product = ProductOf(uop);
      if (!product.has_value()) continue;
      for (const size_t side : {size_t{0}, size_t{1}}) {
        if (!OfWeights(product->factors[1 - side])) continue;
        for (const UOp* load : LoadsIn(product->factors[side])) {
          if (load->src().size() < 3) continue;
          const UOp* storage = StorageOf(load->src(0));
          const auto found = values.find(storage);
          if (found != values.end()) padded.insert(found->second);
          // What a caller has is as good under a gate, if the result must lie as its shape says, too.
          if (found == values.end() && draft.value != nullptr && draft.store == nullptr) padded.insert(storage);
        }
      }
    }
  }
  return padded;
}

Layouts ChooseLayouts(absl::Span<const KernelDraft> drafts) { return Election(drafts).Run(); }

}  // namespace kiln::compiler
