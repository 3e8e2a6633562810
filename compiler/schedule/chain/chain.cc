#include "compiler/schedule/chain/chain.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/schedule/chain/chain_model.h"
#include "compiler/structure/kernel_call.h"

namespace kiln::compiler {
namespace {

using Members = std::vector<ChainMember>;

class Finder {
 public:
  Finder(Graph& graph, UOp* linear, const absl::flat_hash_set<UOp*>& external, const v1::Target& target)
      : graph_(graph), linear_(linear), external_(external), model_(target), taken_(linear->src().size(), false) {
    for (size_t i = 0; i < linear->src().size(); ++i) {
      const UOp* call = linear->src(i);
      const absl::flat_hash_set<uint32_t> written = SlotsWritten(call->src(0));
      for (uint32_t slot = 0; slot + 1 < call->src().size(); ++slot) {
        Uses& uses = uses_[call->src(1 + slot)];
        (written.contains(slot) ? uses.writers : uses.readers).push_back(i);
      }
    }
  }

  UOp* Run() {
    std::vector<UOp*> calls(linear_->src().begin(), linear_->src().end());
    for (size_t last = calls.size(); last-- > 0;) {
      if (taken_[last] || MakersOf(last).empty()) continue;
      const std::optional<std::pair<Members, ChainPlan>> chain = ChainTo(last);
      if (!chain.has_value()) continue;
      for (const ChainMember& member : chain->first) taken_[member.call] = true;
      calls[last] = MakeChainCall(graph_, linear_, chain->first, chain->second.cut);
      for (const ChainMember& member : chain->first) {
        if (member.call != last) calls[member.call] = nullptr;
      }
    }
    calls.erase(std::remove(calls.begin(), calls.end(), nullptr), calls.end());
    return graph_.Make(Op::LINEAR, calls, linear_->arg());
  }

 private:
  struct Uses {
    std::vector<size_t> readers, writers;
  };

  // Slots of what a call reads, far too large for the cache, that one other call makes for it alone.
  std::vector<uint32_t> MakersOf(size_t reader) const {
    std::vector<uint32_t> slots;
    const UOp* call = linear_->src(reader);
    for (uint32_t slot = 0; slot + 1 < call->src().size(); ++slot) {
      UOp* buffer = call->src(1 + slot);
      if (buffer->op() != Op::BUFFER || external_.contains(buffer) || !IsConst(buffer->shape())) continue;
      if (!model_.IsFar(static_cast<double>(NumElements(buffer->shape()) * ItemSize(buffer->dtype())))) continue;
      const Uses& uses = uses_.at(buffer);
      if (uses.writers.size() != 1 || uses.readers != std::vector<size_t>{reader}) continue;
      if (uses.writers[0] < reader && !taken_[uses.writers[0]]) slots.push_back(slot);
    }
    return slots;
  }

  // The chain that ends in this call, if there is one.
  std::optional<std::pair<Members, ChainPlan>> ChainTo(size_t last) {
    std::optional<PlainKernel> kernel = PlainKernelOf(graph_, linear_->src(last));
    if (!kernel.has_value()) return std::nullopt;
    Members members(1);
    members[0].call = last;
    members[0].shared.assign(kernel->sink->src(0)->src().begin() + 1, kernel->sink->src(0)->src().end());
    members[0].kernel = *std::move(kernel);
    std::optional<ChainPlan> plan;
    for (size_t i = 0; i < members.size(); ++i) {
      for (uint32_t slot : MakersOf(members[i].call)) {
        std::optional<Members> longer = With(members, i, slot);
        if (!longer.has_value()) continue;
        const std::optional<ChainPlan> better = CutBest(*longer);
        if (!better.has_value() || (plan.has_value() && better->won <= plan->won)) continue;
        members = *std::move(longer);
        plan = better;
      }
    }
    if (!plan.has_value()) return std::nullopt;
    return std::make_pair(std::move(members), *plan);
  }

  // Which of the shared axes is best cut into rows: it comes last.
  std::optional<ChainPlan> CutBest(Members& members) const {
    std::optional<ChainPlan> best;
    Members cut;
    for (size_t d = 0; d < members[0].shared.size(); ++d) {
      Members tried = members;
      for (ChainMember& member : tried) {
        const auto axis = member.shared.begin() + static_cast<int64_t>(d);
        std::rotate(axis, axis + 1, member.shared.end());
      }
      const std::optional<ChainPlan> plan = model_.PlanOf(tried);
      if (!plan.has_value() || (best.has_value() && plan->won < best->won)) continue;
      best = plan;
      cut = std::move(tried);
    }
    if (best.has_value()) members = std::move(cut);
    return best;
  }

  // `members` with who makes what `reader` has in `slot`; none if its slices are not theirs.
  std::optional<Members> With(Members members, size_t reader, uint32_t slot) {
    ChainMember maker;
    maker.buffer = linear_->src(members[reader].call)->src(1 + slot);
    maker.call = uses_.at(maker.buffer).writers[0];
    maker.reader = reader;
    maker.read_slot = slot;
    if (!MayMove(maker.call, members)) return std::nullopt;
    std::optional<PlainKernel> kernel = PlainKernelOf(graph_, linear_->src(maker.call));
    if (!kernel.has_value()) return std::nullopt;
    maker.kernel = *std::move(kernel);
    std::optional<SliceReads> reads = SliceReadsOf(members[reader].kernel, slot, maker.kernel);
    if (!reads.has_value()) return std::nullopt;
    maker.reads = *std::move(reads);
    for (size_t d = 0; d < members[0].shared.size();) {
      const std::vector<UOp*>& walker = maker.reads.walker;
      const auto found = std::find(walker.begin(), walker.end(), members[reader].shared[d]);
      const auto last = walker.end() - 1;  // along which it is contiguous: slices are of whole rows
      if (found < last) {
        maker.shared.push_back(maker.kernel.axes[static_cast<size_t>(found - walker.begin())].range);
        ++d;
        continue;
      }
      for (ChainMember& member : members) member.shared.erase(member.shared.begin() + static_cast<int64_t>(d));
    }
    if (maker.shared.empty()) return std::nullopt;
    members.push_back(std::move(maker));
    return members;
  }

  // Whether a call may run as late as the chain's last one, and alternately with it.
  bool MayMove(size_t call, const Members& members) const {
    const size_t last = members[0].call;
    const auto arguments = linear_->src(call)->src().subspan(1);
    return std::all_of(arguments.begin(), arguments.end(), [&](UOp* storage) {
      const std::vector<size_t>& writers = uses_.at(storage).writers;
      return std::none_of(writers.begin(), writers.end(),
                          [&](size_t writer) { return writer > call && writer <= last; });
    });
  }

  Graph& graph_;
  const UOp* linear_;
  const absl::flat_hash_set<UOp*>& external_;
  const ChainModel model_;
  absl::flat_hash_map<UOp*, Uses> uses_;
  std::vector<bool> taken_;
};

}  // namespace

UOp* ChainKernels(Graph& graph, UOp* linear, const absl::flat_hash_set<UOp*>& external, const v1::Target& target) {
  return Finder(graph, linear, external, target).Run();
}

}  // namespace kiln::compiler
