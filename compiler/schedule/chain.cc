#include "compiler/schedule/chain.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/kernel_call.h"
#include "compiler/kernel/ranges.h"
#include "compiler/kernel/work.h"
#include "compiler/opt/local_buffer.h"

namespace kiln::compiler {
namespace {

// -- The machine, in cycles.
constexpr double kNearBytesPerCycle = 16;  // of the last-level cache, for one core
constexpr double kFarBytesPerCycle = 5;    // of memory
constexpr double kCopyCycles = 5;          // of one vector that is copied for each slice anew
constexpr double kVectorsPerCycle = 2;
constexpr int64_t kTileRows = 8;     // fewer are no tile
constexpr int64_t kMostSlices = 64;  // of one cut, beyond those that it must have
constexpr double kCores = 16;  // what slices are shared among: a number, so that no value depends on the machine's
constexpr double kLeastShare = 0.02;  // of the work, to be won

using Members = std::vector<ChainMember>;

// What is won by a chain, in cycles, and how it is cut for that.
struct Plan {
  double won = 0;
  Cut cut;
};

int64_t SizeOf(const UOp* range) { return range->src(0)->const_int(); }

double TurnsOf(const RangeSet& ranges) {
  double turns = 1;
  for (const UOp* range : ranges) turns *= static_cast<double>(SizeOf(range));
  return turns;
}

class Model {
 public:
  explicit Model(const v1::Target& target) {
    const auto& tuning = target.tuning();
    vector_bytes_ = tuning.vector_bytes() ? tuning.vector_bytes() : 16;
    l2_bytes_ = static_cast<double>(tuning.l2_bytes() ? tuning.l2_bytes() : 1 << 20);
    l3_bytes_ = std::max(l2_bytes_, static_cast<double>(tuning.l3_bytes()));
  }

  // Whether it is worth a look.
  bool IsFar(double bytes) const { return bytes > l2_bytes_; }

  // None if it cannot be cut.
  std::optional<Plan> PlanOf(const Members& members) const {
    const std::vector<UOp*>& shared = members[0].shared;
    double turns = 1;
    for (size_t i = 0; i + 1 < shared.size(); ++i) turns *= static_cast<double>(SizeOf(shared[i]));
    const int64_t all = SizeOf(shared.back());
    double won = 0, row_bytes = 0, work = 0, around = 0;
    for (const ChainMember& member : members) {
      work += WorkOfKernel(member.kernel);
      around += BytesAround(member, members);
      if (member.buffer == nullptr) continue;
      const auto bytes = static_cast<double>(NumElements(member.buffer->shape()) * ItemSize(member.buffer->dtype()));
      won += bytes * static_cast<double>(1 + member.reads.loads) * CyclesPerByte(bytes);
      row_bytes += bytes / turns / static_cast<double>(all);
    }
    const double most = std::min(l2_bytes_, static_cast<double>(kMostLocalBytes)) / 2;
    const auto least = static_cast<int64_t>(std::min(row_bytes * static_cast<double>(all) / most, 1e9));
    const bool may_repeat = StoresOnce(members[0].kernel);
    std::optional<Plan> best;
    for (int64_t blocks = std::max<int64_t>(1, least); blocks <= 2 * least + kMostSlices; ++blocks) {
      const int64_t share = (all + blocks - 1) / blocks;
      const Cut cut{std::min(all, (share + kTileRows - 1) / kTileRows * kTileRows), blocks};
      if (share < std::min(kTileRows, all)) break;
      const double slices = turns * static_cast<double>(blocks);
      const double local = row_bytes * static_cast<double>(cut.rows);
      if (local > most || slices < 2 || (blocks - 1) * cut.rows >= all) continue;
      if (all % cut.rows != 0 && !may_repeat) continue;
      double lost = slices * around * kCopyCycles / vector_bytes_;
      if (local + around > l2_bytes_) lost += slices * around * CyclesPerByte(turns * around);
      const double again = static_cast<double>(blocks * cut.rows) / static_cast<double>(all) - 1;
      const double uneven = std::ceil(slices / kCores) * kCores / slices - 1;
      lost += work * (again + uneven);
      if (!best.has_value() || won - lost > best->won) best = Plan{won - lost, cut};
    }
    if (best.has_value() && best->won < kLeastShare * work) best.reset();
    return best;
  }

 private:
  // Of what goes through the caches that all cores share, or through memory.
  double CyclesPerByte(double bytes) const {
    return bytes <= l2_bytes_ ? 0 : bytes <= l3_bytes_ ? 1 / kNearBytesPerCycle : 1 / kFarBytesPerCycle;
  }

  // Whether each element is stored once, from registers: two threads may then both store it, the same value. What
  // is folded over a row alone may be kept in the row until it is known (kernel/keep_row.h).
  static bool StoresOnce(const PlainKernel& kernel) {
    const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(kernel.sink);
    for (const auto& [uop, ranges] : open) {
      if (uop->op() != Op::REDUCE) continue;
      for (const PlainKernel::Axis& axis : kernel.axes) {
        if (std::find(ranges.begin(), ranges.end(), axis.range) == ranges.end()) return false;
      }
    }
    return true;
  }

  double WorkOfKernel(const PlainKernel& kernel) const {
    double work = 0;
    for (const auto& [uop, open] : OpenRanges(kernel.sink)) {
      double turns = 0;
      if (uop->op() == Op::REDUCE) {
        turns = TurnsOf(open);
        for (const UOp* range : uop->src().subspan(1)) turns *= static_cast<double>(SizeOf(range));
      } else if (IsElementwise(uop->op()) && uop->dtype() != kIndexType) {
        turns = TurnsOf(open) * WorkOf(uop);
      }
      const double lanes =
          std::max(1.0, vector_bytes_ / ItemSize(uop->dtype() == DType::kVoid ? DType::kInt8 : uop->dtype()));
      work += turns / lanes / kVectorsPerCycle;
    }
    return work;
  }

  // What a slice reads of storage that is no slice's: the same for all rows.
  static double BytesAround(const ChainMember& member, const Members& members) {
    absl::flat_hash_map<const UOp*, double> bytes;
    for (UOp* uop : Toposort(member.kernel.sink)) {
      if (uop->op() != Op::LOAD) continue;
      const UOp* param = uop->src(0)->src(0);
      const bool made = std::any_of(members.begin() + 1, members.end(), [&](const ChainMember& maker) {
        return &members[maker.reader] == &member && maker.read_slot == param->arg_as<BufferArg>().slot;
      });
      if (made) continue;
      double elements = 1;
      bool rows = false;
      for (const UOp* part : Toposort(uop->src(0)->src(1))) {
        if (part->op() != Op::RANGE) continue;
        rows = rows || part == member.shared.back();
        if (std::find(member.shared.begin(), member.shared.end(), part) == member.shared.end())
          elements *= static_cast<double>(SizeOf(part));
      }
      if (rows) continue;
      elements = std::min(elements, static_cast<double>(param->shape()[0].max()));
      bytes[param] = std::max(bytes[param], elements * ItemSize(uop->dtype()));
    }
    double sum = 0;
    for (const auto& [param, each] : bytes) sum += each;
    return sum;
  }

  double vector_bytes_, l2_bytes_, l3_bytes_;
};

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
      const std::optional<std::pair<Members, Plan>> chain = ChainTo(last);
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
  std::optional<std::pair<Members, Plan>> ChainTo(size_t last) {
    std::optional<PlainKernel> kernel = PlainKernelOf(graph_, linear_->src(last));
    if (!kernel.has_value()) return std::nullopt;
    Members members(1);
    members[0].call = last;
    members[0].shared.assign(kernel->sink->src(0)->src().begin() + 1, kernel->sink->src(0)->src().end());
    members[0].kernel = *std::move(kernel);
    std::optional<Plan> plan;
    for (size_t i = 0; i < members.size(); ++i) {
      for (uint32_t slot : MakersOf(members[i].call)) {
        std::optional<Members> longer = With(members, i, slot);
        if (!longer.has_value()) continue;
        const std::optional<Plan> better = model_.PlanOf(*longer);
        if (!better.has_value() || (plan.has_value() && better->won <= plan->won)) continue;
        members = *std::move(longer);
        plan = better;
      }
    }
    if (!plan.has_value()) return std::nullopt;
    return std::make_pair(std::move(members), *plan);
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
      if (found != walker.end()) {
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

  // Whether a call may run as late as the chain's last one, and in turns with it.
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
  const Model model_;
  absl::flat_hash_map<UOp*, Uses> uses_;
  std::vector<bool> taken_;
};

}  // namespace

UOp* ChainKernels(Graph& graph, UOp* linear, const absl::flat_hash_set<UOp*>& external, const v1::Target& target) {
  return Finder(graph, linear, external, target).Run();
}

}  // namespace kiln::compiler
