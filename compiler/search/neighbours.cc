#include "compiler/search/neighbours.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/opt_ops.h"
#include "compiler/opt/schedule_text.h"
#include "compiler/structure/group_product.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kRows[] = {2, 3, 4, 5, 6, 7, 8, 12, 16};      // of a register tile
constexpr int64_t kBlocks[] = {2, 4, 8, 16, 32, 64, 128, 256};  // iterations of a loop cut off another
constexpr int64_t kVectors[] = {1, 2, 4, 8};                    // at once
constexpr int64_t kItems[] = {32, 64, 128, 256, 16, 8, 4, 2};   // of a work group along an axis
constexpr size_t kMaxOps = 24;                                  // of one schedule

// One more of which kind, the most promising first; `kLater` comes after those that leave one out.
constexpr OptOp::Kind kFirst[] = {OptOp::kTensor, OptOp::kSplit, OptOp::kLocal};
constexpr OptOp::Kind kLater[] = {OptOp::kSwap, OptOp::kFuse, OptOp::kPadTo, OptOp::kThread};
static_assert(std::size(kFirst) + std::size(kLater) == std::size(kOptOps), "a row of opt_ops.def has no place here");

bool IsLanes(const OptOp& opt) {
  return opt.kind == OptOp::kSplit && (opt.target == AxisType::kUpcast || opt.target == AxisType::kUnroll);
}

int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Lane dimensions 0, 1, 2, … in the order in which they were.
void CountDimensions(Schedule& opts) {
  std::vector<int64_t> taken;
  for (const OptOp& opt : opts) {
    if (IsLanes(opt)) taken.push_back(opt.dimension);
  }
  std::sort(taken.begin(), taken.end());
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  for (OptOp& opt : opts) {
    if (IsLanes(opt)) opt.dimension = std::lower_bound(taken.begin(), taken.end(), opt.dimension) - taken.begin();
  }
}

class Explorer {
 public:
  Explorer(Graph& graph, UOp* plain, const Schedule& from, const v1::Target& target, const std::function<bool()>& stop)
      : graph_(graph), plain_(plain), from_(from), target_(target), stop_(stop), now_(graph, plain, target) {
    for (const OptOp& opt : from) legal_ = legal_ && now_.Apply(opt).ok();
    axes_ = AxesOf(now_.sink());
    const auto& tuning = target.tuning();
    int64_t widest = 1;
    for (const UOp* uop : Toposort(plain)) {
      if (uop->dtype() != kIndexType && (IsElementwise(uop->op()) || uop->op() == Op::LOAD))
        widest = std::max<int64_t>(widest, ItemSize(uop->dtype()));
    }
    lanes_ = std::max<int64_t>(1, (tuning.vector_bytes() ? tuning.vector_bytes() : 16) / widest);
    has_items_ = target.kind() == v1::Target::NVPTX || target.kind() == v1::Target::AMDGPU;
    seen_.insert(ToString(from));
  }

  std::vector<Schedule> Run() {
    if (!legal_) return {};
    for (size_t i = 0; i < from_.size(); ++i) Resize(i);
    for (OptOp::Kind kind : kFirst) More(kind);
    for (size_t i = 0; i < from_.size(); ++i) LeaveOut(i);
    for (OptOp::Kind kind : kLater) More(kind);
    Blocks();
    return std::move(found_);
  }

 private:
  int64_t Size(int64_t axis) const { return axes_[static_cast<size_t>(axis)]->src(0)->const_int(); }

  // Keeps `opts` if it is legal and new.
  void Try(Schedule opts) {
    if (found_.size() >= kMaxNeighbours || opts.size() > kMaxOps || stop_()) return;
    CountDimensions(opts);
    if (!seen_.insert(ToString(opts)).second) return;
    CheckedSchedule made(graph_, plain_, target_);
    for (const OptOp& opt : opts) {
      if (!made.Apply(opt).ok()) return;
    }
    found_.push_back(std::move(opts));
  }

  void TryMore(std::vector<OptOp> more) {
    Schedule opts = from_;
    opts.insert(opts.end(), more.begin(), more.end());
    Try(std::move(opts));
  }

  // -- What there is, larger or smaller

  void Resize(size_t i) {
    switch (from_[i].kind) {
#define OPT_OP(Name, ...) \
  case OptOp::k##Name: return Resize##Name(i);
#include "compiler/opt/opt_ops.def"
#undef OPT_OP
    }
  }

  void ResizeSplit(size_t i) {
    const OptOp& opt = from_[i];
    std::vector<int64_t> sizes = {opt.amount * 2, opt.amount / 2};
    if (IsLanes(opt) && opt.amount <= 16) sizes.insert(sizes.end(), {opt.amount + 1, opt.amount - 1});
    for (int64_t size : sizes) {
      if (size > 1) Try(WithFactor(i, size));
    }
  }

  void ResizePadTo(size_t) {}  // with its SPLIT
  void ResizeSwap(size_t) {}
  void ResizeFuse(size_t) {}
  void ResizeThread(size_t) {}

  // A PADTO that makes room for a factor goes with it.
  Schedule WithFactor(size_t i, int64_t factor) const {
    Schedule opts = from_;
    const OptOp old = opts[i];
    opts[i].amount = factor;
    for (size_t k = 0; k < i; ++k) {
      if (opts[k].kind != OptOp::kPadTo || opts[k].axis != old.axis || opts[k].amount % old.amount != 0) continue;
      opts[k].amount = opts[k].amount / old.amount * factor;
      return opts;
    }
    CheckedSchedule before(graph_, plain_, target_);
    for (size_t k = 0; k < i; ++k) (void)before.Apply(opts[k]);
    const std::vector<UOp*> axes = AxesOf(before.sink());
    if (static_cast<size_t>(old.axis) < axes.size() &&
        axes[static_cast<size_t>(old.axis)]->src(0)->const_int() % factor != 0) {
      OptOp pad{OptOp::kPadTo, old.axis, factor};
      pad.clamp = true;
      opts.insert(opts.begin() + static_cast<int64_t>(i), pad);
    }
    return opts;
  }

  void ResizeLocal(size_t i) {
    for (int axis = 0; axis < now_.outputs(); ++axis) {
      Schedule opts = from_;
      opts[i].axis = axis;
      Try(std::move(opts));
    }
  }

  void ResizeTensor(size_t i) {
    for (size_t tile = 0; tile < MatrixTiles().size(); ++tile) {
      Schedule opts = from_;
      opts[i].dimension = static_cast<int64_t>(tile);
      Try(std::move(opts));
    }
  }

  void LeaveOut(size_t i) {
    Schedule opts = from_;
    opts.erase(opts.begin() + static_cast<int64_t>(i));
    Try(std::move(opts));
  }

  // -- One more

  void More(OptOp::Kind kind) {
    switch (kind) {
#define OPT_OP(Name, ...) \
  case OptOp::k##Name: return More##Name();
#include "compiler/opt/opt_ops.def"
#undef OPT_OP
    }
  }

  void MoreSplit() {
    if (has_items_) Items();
    Vectors();
    Tiles();
  }

  void MorePadTo() {}   // with a SPLIT
  void MoreThread() {}  // its applier's (neighbours.h)

  // `factor` lanes of `axis`, padded where it must be. `dimension`: -1 outside of all others.
  void Lanes(int axis, int64_t factor, bool innermost) {
    Schedule opts = from_;
    const bool reduced = axis >= now_.outputs();
    OptOp split{OptOp::kSplit, axis, factor, reduced ? AxisType::kUnroll : AxisType::kUpcast, 0};
    if (innermost) {
      split.dimension = std::min<int64_t>(now_.FreeDimension(axis), kLaneDimensions - 1);
    } else {
      for (OptOp& opt : opts) opt.dimension += IsLanes(opt) ? 1 : 0;
    }
    if (Size(axis) % factor != 0) {
      if (RoundUp(Size(axis), factor) > 2 * Size(axis)) return;
      OptOp pad{OptOp::kPadTo, axis, factor};
      opts.push_back(pad);
    }
    opts.push_back(split);
    Try(std::move(opts));
  }

  bool WalksContiguously(int axis) const {
    const std::vector<UOp*> order = Toposort(now_.sink());
    return std::any_of(order.begin(), order.end(), [&](UOp* uop) {
      return (uop->op() == Op::LOAD || uop->op() == Op::STORE) &&
             StrideIn(uop->src(0)->src(1), axes_[static_cast<size_t>(axis)]) == 1;
    });
  }

  // Whole vectors, along what memory is contiguous in.
  void Vectors() {
    for (int axis = 0; axis < static_cast<int>(axes_.size()); ++axis) {
      if (Size(axis) < 2 || !WalksContiguously(axis)) continue;
      for (int64_t vectors : kVectors) Lanes(axis, vectors * lanes_, true);
      if (Size(axis) < lanes_) Lanes(axis, Size(axis), true);
    }
  }

  // Several rows beside each other.
  void Tiles() {
    for (int axis = 0; axis < static_cast<int>(axes_.size()); ++axis) {
      for (int64_t rows : kRows) {
        if (rows <= Size(axis) && (Size(axis) % rows == 0 || Size(axis) > 4 * rows)) Lanes(axis, rows, false);
      }
    }
  }

  // Of GPUs: a product by their matrix units, whichever axes are its rows and columns.
  void MoreTensor() {
    if (!has_items_) return;
    for (size_t tile = 0; tile < MatrixTiles().size(); ++tile) {
      for (int row = 0; row < now_.outputs(); ++row) {
        for (int column = 0; column < now_.outputs(); ++column) {
          if (row != column) TryMore({{OptOp::kTensor, row, column, AxisType::kUpcast, static_cast<int64_t>(tile)}});
        }
      }
    }
  }

  // Of GPUs: items of a group beside each other, padded where they must be, and items that reduce together.
  void Items() {
    for (int axis = 0; axis < static_cast<int>(axes_.size()); ++axis) {
      const bool output = axis < now_.outputs();
      for (int64_t items : kItems) {
        if (items > RoundUp(Size(axis), 32) || (!output && Size(axis) % items != 0)) continue;
        OptOp pad{OptOp::kPadTo, axis, items};
        pad.clamp = true;
        const OptOp split{OptOp::kSplit, axis, items, output ? AxisType::kLocal : AxisType::kGroupReduce};
        Size(axis) % items == 0 ? TryMore({split}) : TryMore({pad, split});
      }
    }
  }

  void MoreLocal() {
    if (has_items_) return;
    const auto operands = static_cast<int64_t>(OperandsOf(now_.sink()).size());
    for (int axis = 0; axis < now_.outputs(); ++axis) {
      for (int64_t operand = 0; operand < operands; ++operand) TryMore({{OptOp::kLocal, axis, operand}});
    }
  }

  void MoreSwap() {
    const auto count = static_cast<int>(axes_.size());
    for (int axis = 0; axis + 1 < count; ++axis) TryMore({{OptOp::kSwap, axis, axis + 1}});
  }

  void MoreFuse() {
    for (int axis = 0; axis + 1 < now_.outputs(); ++axis) TryMore({{OptOp::kFuse, axis}});
  }

  // Loops cut in two: the least promising.
  void Blocks() {
    for (int axis = 0; axis < static_cast<int>(axes_.size()); ++axis) {
      const bool output = axis < now_.outputs();
      for (int64_t block : kBlocks) {
        if (block >= Size(axis)) break;
        if (Size(axis) % block == 0)
          TryMore({{OptOp::kSplit, axis, block, output ? AxisType::kLoop : AxisType::kReduce}});
      }
    }
  }

  Graph& graph_;
  UOp* const plain_;
  const Schedule& from_;
  const v1::Target& target_;
  const std::function<bool()>& stop_;
  CheckedSchedule now_;
  bool legal_ = true, has_items_ = false;
  std::vector<UOp*> axes_;
  int64_t lanes_ = 1;  // of a whole vector
  absl::flat_hash_set<std::string> seen_;
  std::vector<Schedule> found_;
};

}  // namespace

std::vector<Schedule> Neighbours(Graph& graph, UOp* plain, const Schedule& from, const v1::Target& target,
                                 const std::function<bool()>& stop) {
  return Explorer(graph, plain, from, target, stop).Run();
}

}  // namespace kiln::compiler
