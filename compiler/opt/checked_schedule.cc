#include "compiler/opt/checked_schedule.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/kernel/dots.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/gpu_dims.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/outer_reduce.h"
#include "compiler/opt/tensor_tile.h"
#include "compiler/program/kernel_form.h"
#include "compiler/structure/core_product.h"

namespace kiln::compiler {
namespace {

// A value of more vectors than this many times the target's registers spills most of
// itself, and takes the code generator long.
constexpr int64_t kMaxSpilled = 2;
// Of a work item: 255 words, some of which hold addresses.
constexpr int64_t kItemRegisters = 56, kItemVectorBytes = 16;

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat(parts...));
}

bool IsLane(const UOp* range) {
  const AxisType type = range->arg_as<RangeArg>().type;
  return type == AxisType::kUpcast || type == AxisType::kUnroll;
}

bool Has(absl::Span<UOp* const> ranges, const UOp* range) {
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

absl::Span<UOp* const> ClosedBy(const UOp* uop) {
  if (uop->op() == Op::END || uop->op() == Op::REDUCE) return uop->src().subspan(1);
  return {};
}

// The ranges that `uop` depends on, and those that it closes.
RangeSet RangesAt(const absl::flat_hash_map<UOp*, RangeSet>& open, UOp* uop) {
  RangeSet ranges = open.at(uop);
  const auto closed = ClosedBy(uop);
  ranges.insert(ranges.end(), closed.begin(), closed.end());
  return ranges;
}

// The copies into local buffers (local_buffer.h): each is an AFTER of the END that fills it.
std::vector<UOp*> Fills(UOp* sink) {
  std::vector<UOp*> fills;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::AFTER && uop->src(0)->op() == Op::BUFFER) fills.push_back(uop->src(1));
  }
  return fills;
}

bool ReadsLocal(UOp* operand) {
  const std::vector<UOp*> order = Toposort(operand);
  return std::any_of(order.begin(), order.end(), [](const UOp* uop) { return uop->op() == Op::BUFFER; });
}

// Vector registers of a value of `item` bytes in the lanes `ranges`, of which those of
// dimension `last` lie in one register beside each other.
int64_t VectorsOf(absl::Span<UOp* const> ranges, int64_t last, int64_t item, int64_t vector_bytes) {
  int64_t rows = 1, bytes = item;
  for (const UOp* range : ranges) {
    if (IsLane(range)) (LaneDimension(range) == last ? bytes : rows) *= range->src(0)->const_int();
  }
  return rows * ((bytes + vector_bytes - 1) / vector_bytes);
}

}  // namespace

CheckedSchedule::CheckedSchedule(Graph& graph, UOp* plain, const v1::Target& target)
    : graph_(&graph),
      vector_bytes_(target.tuning().vector_bytes() ? target.tuning().vector_bytes() : 16),
      registers_(target.tuning().vector_registers() ? target.tuning().vector_registers() : 16),
      target_(target),
      has_items_(target.kind() == v1::Target::NVPTX || target.kind() == v1::Target::AMDGPU),
      dots_(DotUnitsOf(target)),
      stores_apart_(IterationsStoreApart(plain)) {
  if (has_items_) {
    vector_bytes_ = kItemVectorBytes;
    registers_ = kItemRegisters;
  }
  Set(plain);
  for (const UOp* axis : axes_)
    iterations_ *= axis->src(0)->IsConst() ? static_cast<double>(axis->src(0)->const_int()) : 1;
}

void CheckedSchedule::Set(UOp* sink) {
  sink_ = sink;
  axes_ = AxesOf(sink);
  reduces_.clear();
  for (const UOp* reduce : OuterReduces(sink)) reduces_.push_back(reduce->src(1));
  const std::vector<UOp*> output = OutputRanges(sink);
  outputs_ = std::count_if(axes_.begin(), axes_.end(), [&](const UOp* axis) { return Has(output, axis); });
}

absl::Status CheckedSchedule::Apply(const OptOp& opt) {
  KILN_RETURN_IF_ERROR(Check(opt));
  UOp* made = ApplyOpt(*graph_, sink_, opt);
  KILN_RETURN_IF_ERROR(CheckRegisters(made));
  if (has_items_) KILN_RETURN_IF_ERROR(CheckItems(made));
  if (opt.kind == OptOp::kPadTo)
    padding_ *= static_cast<double>((Size(opt.axis) + opt.multiple() - 1) / opt.multiple() * opt.multiple()) /
                static_cast<double>(Size(opt.axis));
  threads_ |= opt.kind == OptOp::kThread;
  tiled_ |= opt.kind == OptOp::kTensor;
  opts_.push_back(opt);
  Set(made);
  return absl::OkStatus();
}

absl::Status CheckedSchedule::Check(const OptOp& opt) const {
  const auto count = static_cast<int64_t>(axes_.size());
  if (count == 0) return Bad("the kernel has no loops");
  const auto outer = opt.kind == OptOp::kLocal ? static_cast<int64_t>(reduces_.size()) : 0;
  if (opt.axis < 0 || opt.axis >= count + outer) return Bad("the kernel has axes 0 to ", count + outer - 1);
  if (opt.axis < count && !axes_[static_cast<size_t>(opt.axis)]->src(0)->IsConst())
    return Bad("the size of the axis is not a number, but known when the kernel runs");
  if (threads_) return Bad("it stands behind THREAD, which is the last");
  if (tiled_) return Bad("it stands behind TC, which is the last");
  switch (opt.kind) {
#define OPT_OP(Name, ...) \
  case OptOp::k##Name: return Check##Name(opt);
#include "compiler/opt/opt_ops.def"
#undef OPT_OP
  }
  return Bad("no such transform");
}

// What changes the order of iterations, or runs several at once, is legal if each stores to a place of its own.
absl::Status CheckedSchedule::NotWhileIterationsCollide() const {
  if (stores_apart_) return absl::OkStatus();
  return Bad("two iterations of the output's loops may store to the same place, and the later one must win");
}

absl::Status CheckedSchedule::CheckSplit(const OptOp& opt) const {
  const int64_t size = Size(opt.axis);
  if (opt.factor() < 1 || size % opt.factor() != 0)
    return Bad("a factor of ", opt.factor(), "; it must be a divisor of the axis's ", size);
  const bool reduced = opt.axis >= outputs_;
  const bool lanes = opt.target == (reduced ? AxisType::kUnroll : AxisType::kUpcast);
  const bool item = reduced ? opt.target == AxisType::kGroupReduce
                            : opt.target == AxisType::kLocal || opt.target == AxisType::kGlobal;
  if (has_items_ && item) return reduced ? absl::OkStatus() : NotWhileIterationsCollide();
  if (!lanes && opt.target != (reduced ? AxisType::kReduce : AxisType::kLoop)) {
    return Bad("a target AxisType of ", static_cast<int>(opt.target), "; ",
               reduced ? "a reduced axis takes UNROLL, REDUCE or GROUP_REDUCE"
                       : "an output axis takes UPCAST, LOOP, LOCAL, THREAD, or of a GPU GLOBAL");
  }
  return lanes ? CheckLanes(opt) : absl::OkStatus();
}

int64_t CheckedSchedule::FreeDimension(int axis) const {
  const UOp* range = axes_[static_cast<size_t>(axis)];
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink_);
  int64_t dimension = 0;
  for (const auto& [uop, ranges] : open) {
    const RangeSet here = RangesAt(open, uop);
    if (!Has(here, range)) continue;
    for (const UOp* other : here) {
      if (IsLane(other)) dimension = std::max(dimension, LaneDimension(other) + 1);
    }
  }
  return dimension;
}

absl::Status CheckedSchedule::CheckLanes(const OptOp& opt) const {
  UOp* range = axes_[static_cast<size_t>(opt.axis)];
  if (opt.axis < outputs_) KILN_RETURN_IF_ERROR(NotWhileIterationsCollide());
  if (opt.dimension < 0 || opt.dimension >= kLaneDimensions)
    return Bad("lane dimension ", opt.dimension, "; there are 0 to ", kLaneDimensions - 1);
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink_);
  for (const auto& [uop, ranges] : open) {
    const RangeSet here = RangesAt(open, uop);
    if (!Has(here, range)) continue;
    for (const UOp* other : here) {
      if (IsLane(other) && LaneDimension(other) == opt.dimension)
        return Bad("lane dimension ", opt.dimension, " is taken by other lanes of the same values; ",
                   FreeDimension(opt.axis), " is free");
    }
  }
  for (UOp* fill : Fills(sink_)) {
    if (Has(open.at(fill), range))
      return Bad("a LOCAL copy is made inside this loop, in each of its iterations; its lanes would share one copy");
  }
  return absl::OkStatus();
}

absl::Status CheckedSchedule::CheckItems(UOp* sink) const {
  const std::vector<int64_t> items = ItemsAskedFor(*graph_, sink);
  if (items.size() > 3)
    return Bad("LOCAL and GROUP_REDUCE axes of ", items.size(), " kinds; work items have 3 coordinates");
  int64_t all = 1;
  for (const int64_t along : items) {
    if (along <= kMaxItemsOfGroup / all) {
      all *= along;
      continue;
    }
    return Bad("too many work items in a group: ", all, " x ", along, "; it may have ", kMaxItemsOfGroup);
  }
  return absl::OkStatus();
}

// Both of all values, which may spill, and of accumulators, which must not.
absl::Status CheckedSchedule::CheckRegisters(UOp* sink) const {
  absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  int64_t last = 0;
  const std::vector<UOp*> order = Toposort(sink);
  for (const UOp* uop : order) {
    if (uop->op() == Op::RANGE && IsLane(uop)) last = std::max(last, LaneDimension(uop));
  }
  for (UOp* uop : order) {
    // Dot products take words of several lanes, and reduce them at once.
    if (uop->op() != Op::REDUCE) continue;
    const std::optional<DotFactors> factors = DotFactorsOf(uop->src(0), dots_);
    UOp* dot_lanes = factors.has_value() ? DotLanesIn(factors->a) : nullptr;
    if (dot_lanes == nullptr) continue;
    for (auto& [node, ranges] : open) ranges.erase(std::remove(ranges.begin(), ranges.end(), dot_lanes), ranges.end());
  }
  for (UOp* uop : order) {
    // Of indices, only quotients are computed lane by lane.
    const bool computed = uop->dtype() != kIndexType || uop->op() == Op::FLOORDIV || uop->op() == Op::FLOORMOD;
    if (computed && (IsElementwise(uop->op()) || uop->op() == Op::LOAD)) {
      const int64_t vectors = VectorsOf(open.at(uop), last, ItemSize(uop->dtype()), vector_bytes_);
      if (vectors > kMaxSpilled * registers_)
        return Bad("lanes too wide: a value takes ", vectors, " vector registers; this target has ", registers_,
                   ", and a value may take at most ", kMaxSpilled * registers_);
    }
    if (uop->op() != Op::REDUCE) continue;
    RangeSet lanes = open.at(uop->src(0));
    const std::optional<DotFactors> dots = DotFactorsOf(uop->src(0), dots_);
    for (UOp* closed : ClosedBy(uop)) {
      if (!Has(lanes, closed) && !(dots.has_value() && closed->src(0)->IsConstInt(dots->terms())))
        lanes.push_back(closed);
    }
    const int64_t accumulators = VectorsOf(lanes, last, ItemSize(uop->dtype()), vector_bytes_);
    // A matrix unit has registers of its own for them.
    const bool tiles = dots.has_value() && dots_.TakesTilesOf(dots->a->dtype());
    const int64_t most = tiles ? std::max(registers_, kMostTilesOfSum * kTileRows) : registers_;
    if (accumulators > most)
      return Bad("too many registers: the accumulators of a REDUCE take ", accumulators, " vector registers of ",
                 vector_bytes_, " bytes; this target has ", most);
  }
  return absl::OkStatus();
}

absl::Status CheckedSchedule::CheckPadTo(const OptOp& opt) const {
  if (opt.multiple() < 1 || opt.multiple() > kMaxMultiple)
    return Bad("a multiple of ", opt.multiple(), "; it is from 1 to ", kMaxMultiple);
  const auto size = static_cast<double>(Size(opt.axis));
  const auto padded = static_cast<double>((Size(opt.axis) + opt.multiple() - 1) / opt.multiple() * opt.multiple());
  const double padding = padding_ * padded / size;
  if (padding > kMaxPadding && padding * iterations_ > kMaxPaddedIterations)
    return Bad("padding makes the kernel ", padding, " times as long; at most ", kMaxPadding, " times");
  return absl::OkStatus();
}

absl::Status CheckedSchedule::CheckSwap(const OptOp& opt) const {
  const auto count = static_cast<int64_t>(axes_.size());
  if (opt.other() < 0 || opt.other() >= count) return Bad("it wants (axis), from 0 to ", count - 1);
  UOp* a = axes_[static_cast<size_t>(opt.axis)];
  UOp* b = axes_[static_cast<size_t>(opt.other())];
  if (has_items_ && (opt.axis < outputs_) != (opt.other() < outputs_))
    return Bad("a reduced loop outside of one of the output needs memory of a thread's own; work items have none");
  if (opt.axis < outputs_ && opt.other() >= outputs_) return CheckOuterReduce(sink_, a, b);
  if (opt.other() < outputs_ && opt.axis >= outputs_) return CheckOuterReduce(sink_, b, a);
  const std::vector<UOp*> order = Toposort(sink_);
  const bool together = std::any_of(order.begin(), order.end(),
                                    [&](const UOp* uop) { return Has(ClosedBy(uop), a) && Has(ClosedBy(uop), b); });
  if (!together)
    return Bad("axis ", opt.other(),
               " is of another nest; two axes of one REDUCE swap, two of the output, or one of each");
  return opt.axis < outputs_ ? NotWhileIterationsCollide() : absl::OkStatus();
}

absl::Status CheckedSchedule::CheckFuse(const OptOp& opt) const {
  if (opt.axis + 1 >= outputs_)
    return Bad("there is no loop of the output inside it to fuse it with; the output has axes 0 to ", outputs_ - 1);
  if (!axes_[static_cast<size_t>(opt.axis) + 1]->src(0)->IsConst())
    return Bad("the size of axis ", opt.axis + 1, " is not a number, but known when the kernel runs");
  return absl::OkStatus();
}

absl::Status CheckedSchedule::CheckLocal(const OptOp& opt) const {
  if (has_items_) return MakeError(v1::UNSUPPORTED_OP, "copies to shared memory are not made yet");
  const auto axis = static_cast<size_t>(opt.axis);
  if (opt.axis >= outputs_ && axis < axes_.size())
    return Bad(
        "a copy is made in each iteration of a loop of the output, or of a reduced one that a SWAP brought outside; "
        "this one is reduced");
  UOp* level = axis < axes_.size() ? axes_[axis] : reduces_[axis - axes_.size()];
  const std::vector<UOp*> operands = OperandsOf(sink_);
  const auto count = static_cast<int64_t>(operands.size());
  if (count == 0) return Bad("the kernel reads nothing again in several iterations of the output: a copy is for that");
  if (opt.operand() < 0 || opt.operand() >= 2 * count)
    return Bad("it wants (operand), from 0 to ", count - 1, ", or ", count, " more to copy it in words");
  UOp* operand = operands[static_cast<size_t>(opt.operand() % count)];
  if (ReadsLocal(operand)) return Bad("operand ", opt.operand() % count, " is a copy already");
  UOp* sink = sink_;
  if (opt.operand() >= count) {
    const std::optional<Packed> packed = PackInWords(*graph_, sink_, operand);
    if (!packed.has_value())
      return Bad("operand ", opt.operand() % count,
                 " cannot be copied in words: a word is of four UNROLL lanes of an 8-bit integer "
                 "that is widened, or of two of a bfloat16");
    sink = packed->sink;
    operand = packed->operand;
  }
  const int64_t bytes = LocalBytes(sink, operand, level);
  if (bytes == 0) return Bad("operand ", opt.operand() % count, " cannot be copied: the kernel writes what it reads");
  const int64_t all = bytes + LocalBytes(sink_);
  if (bytes > kMaxLocalBytes)
    return Bad("too much local memory: more than ", kMaxLocalBytes, " bytes; a kernel may have ", kMaxLocalBytes);
  if (all > kMaxLocalBytes)
    return Bad("too much local memory: ", all, " bytes together; a kernel may have ", kMaxLocalBytes);
  return absl::OkStatus();
}

absl::Status CheckedSchedule::CheckTensor(const OptOp& opt) const {
  if (!has_items_) return MakeError(v1::UNSUPPORTED_OP, "this target has no tensor cores");
  const auto count = static_cast<int64_t>(axes_.size()), tiles = static_cast<int64_t>(MatrixTiles().size());
  if (opt.tile() < 0 || opt.tile() >= tiles) return Bad("tile ", opt.tile(), "; there are tiles 0 to ", tiles - 1);
  if (opt.columns() < 0 || opt.columns() >= count) return Bad("its columns are an axis from 0 to ", count - 1);
  KILN_RETURN_IF_ERROR(NotWhileIterationsCollide());
  return CheckTile(sink_, axes_[static_cast<size_t>(opt.axis)], axes_[static_cast<size_t>(opt.columns())],
                   MatrixTiles()[static_cast<size_t>(opt.tile())], target_);
}

absl::Status CheckedSchedule::CheckThread(const OptOp& opt) const {
  if (has_items_) return Bad("threads are a processor's; of a GPU it is GLOBAL and LOCAL");
  if (opt.axis != 0 || outputs_ == 0)
    return Bad("threads share the outermost loop of the output, axis 0: SWAP brings another one there");
  if (ReducesOutside(sink_, axes_[0]))
    return Bad("the accumulators of a REDUCE are updated outside of this loop: each thread would update all of them");
  return NotWhileIterationsCollide();
}

}  // namespace kiln::compiler
