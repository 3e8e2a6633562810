#include "compiler/opt/hoist.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

// What all copies together may take: so many bytes, or so many times what they are made of. A copy
// for every place of a window over an image holds each of its elements as often as the window does.
constexpr int64_t kLittle = 64 << 10;
constexpr int64_t kMaxTimes = 4;

bool IsStorage(const UOp* uop) { return uop->op() == Op::PARAM && !uop->IsVariable(); }

// The one constant that `root` reads; null if it reads none, or anything else.
UOp* OnlyConstant(UOp* root) {
  UOp* only = nullptr;
  for (UOp* uop : Toposort(root)) {
    if (uop->op() == Op::PARAM && !IsStorage(uop)) return nullptr;
    if (uop->op() == Op::LOAD && uop->src(0)->src(0)->op() != Op::PARAM) return nullptr;
    if (!IsStorage(uop)) continue;
    if (!uop->arg_as<BufferArg>().constant || (only != nullptr && only != uop)) return nullptr;
    only = uop;
  }
  return only;
}

UOp* Storage(Graph& graph, const UOp* like, uint32_t slot, int64_t elements) {
  BufferArg arg;
  arg.slot = slot;
  arg.dtype = like->dtype();
  return graph.Make(Op::PARAM, {ShapeSource(graph, {elements})}, arg);
}

// With the loops numbered from 0: what does the same is the same kernel, in every program.
UOp* Renumbered(Graph& graph, UOp* sink) {
  absl::flat_hash_map<UOp*, UOp*> numbered;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::RANGE) continue;
    RangeArg arg = uop->arg_as<RangeArg>();
    const auto number = static_cast<int64_t>(numbered.size());
    const bool lane = arg.type == AxisType::kUpcast || arg.type == AxisType::kUnroll;
    arg.id = lane ? kLaneIds + LaneDimension(uop) + number * kLaneDimensions : number;
    numbered[uop] = graph.Make(Op::RANGE, uop->src(), arg);
  }
  return Substitute(sink, numbered, graph);
}

// One copy: AFTER(buffer, fill), where the fill is a STORE, or the END of one.
class Copy {
 public:
  // None if it must stay where it is.
  static std::optional<Copy> Of(UOp* sink, UOp* filled, const absl::flat_hash_map<UOp*, RangeSet>& open) {
    if (filled->op() != Op::AFTER || filled->src().size() != 2 || filled->src(0)->op() != Op::BUFFER)
      return std::nullopt;
    Copy copy;
    copy.buffer_ = filled->src(0);
    copy.fill_ = filled->src(1);
    copy.store_ = copy.fill_->op() == Op::END ? copy.fill_->src(0) : copy.fill_;
    if (copy.buffer_->addrspace() != AddrSpace::kLocal || copy.store_->op() != Op::STORE ||
        copy.store_->src().size() != 2 || copy.store_->src(0)->op() != Op::INDEX)
      return std::nullopt;
    copy.constant_ = OnlyConstant(copy.store_->src(1));
    if (copy.constant_ == nullptr) return std::nullopt;
    std::vector<UOp*> loops = OutputRanges(sink);
    for (const UOp* reduce : OuterReduces(sink)) loops.push_back(reduce->src(1));
    for (UOp* range : loops) {
      const RangeSet& around = open.at(copy.fill_);
      if (std::find(around.begin(), around.end(), range) == around.end()) continue;
      const AxisType type = range->arg_as<RangeArg>().type;
      if (type == AxisType::kUpcast || type == AxisType::kUnroll || !range->src(0)->IsConst()) return std::nullopt;
      copy.around_.push_back(range);
    }
    if (copy.around_.size() != open.at(copy.fill_).size() || !copy.IsSmall()) return std::nullopt;
    return copy;
  }

  int64_t Elements() const {
    int64_t elements = NumElements(buffer_->shape());
    for (const UOp* range : around_) elements *= range->src(0)->const_int();
    return elements;
  }
  int64_t bytes() const { return Elements() * ItemSize(buffer_->dtype()); }
  uint32_t slot() const { return constant_->arg_as<BufferArg>().slot; }

  // `place` of the copy that the loops around it are at, in `all`, which has one copy after the other.
  UOp* Access(Graph& graph, UOp* all, UOp* place) const {
    UOp* at = Idx(graph, 0);
    for (UOp* range : around_) at = Add(graph, Mul(graph, at, range->src(0)), range);
    return graph.Make(Op::INDEX, {all, Add(graph, Mul(graph, at, Idx(graph, NumElements(buffer_->shape()))), place)});
  }

  // The kernel that makes all of them.
  UOp* Kernel(Graph& graph) const {
    UOp* index = store_->src(0);
    UOp* source = Storage(graph, constant_, 0, MaxElements(constant_->shape()));
    UOp* target = Access(graph, Storage(graph, buffer_, 1, Elements()), index->src(1));
    std::vector<UOp*> src = {graph.Make(Op::STORE, {target, store_->src(1)})};
    absl::flat_hash_map<UOp*, UOp*> own = {{constant_, source}};
    for (UOp* range : around_) {
      const AxisType type = src.size() == 1 ? AxisType::kThread : AxisType::kLoop;
      own[range] = graph.Make(Op::RANGE, range->src(), RangeArg{graph.NextId(), type});
      src.push_back(own[range]);
    }
    if (fill_->op() == Op::END) src.insert(src.end(), fill_->src().begin() + 1, fill_->src().end());
    src[0] = Substitute(src[0], own, graph);
    UOp* body = src.size() == 1 ? src[0] : graph.Make(Op::END, src);
    KernelArg arg;
    arg.name = "pack";
    return Renumbered(graph, GraphRewrite(graph.Make(Op::SINK, {body}, arg), SymbolicRules(), graph));
  }

 private:
  // Counts no farther than it must: the sizes of loops are a client's.
  bool IsSmall() const {
    const int64_t source = MaxElements(constant_->shape()) * ItemSize(constant_->dtype());
    const int64_t max_bytes = std::max(kLittle, kMaxTimes * source);
    int64_t bytes = NumElements(buffer_->shape()) * ItemSize(buffer_->dtype());
    for (const UOp* range : around_) {
      const int64_t iterations = range->src(0)->const_int();
      if (iterations > 0 && bytes > max_bytes / iterations) return false;
      bytes *= iterations;
    }
    return bytes <= max_bytes;
  }

  UOp* buffer_ = nullptr;
  UOp* fill_ = nullptr;
  UOp* store_ = nullptr;
  UOp* constant_ = nullptr;
  std::vector<UOp*> around_;  // the loops that say which copy it is, outermost first
};

}  // namespace

UOp* MarkConstants(Graph& graph, UOp* body, absl::Span<const uint32_t> slots) {
  absl::flat_hash_map<UOp*, UOp*> marked;
  for (UOp* uop : Toposort(body)) {
    if (!IsStorage(uop)) continue;
    BufferArg arg = uop->arg_as<BufferArg>();
    if (std::find(slots.begin(), slots.end(), arg.slot) == slots.end()) continue;
    arg.constant = true;
    marked[uop] = graph.Make(Op::PARAM, uop->src(), arg);
  }
  return Substitute(body, marked, graph);
}

bool OfConstants(UOp* root) { return OnlyConstant(root) != nullptr; }

UOp* HoistCopies(Graph& graph, UOp* sink, uint32_t slots, std::vector<Hoisted>& hoisted) {
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  absl::flat_hash_map<UOp*, std::pair<Copy, UOp*>> copies;  // and what stands for it
  absl::flat_hash_map<UOp*, UOp*> replaced;
  for (UOp* uop : Toposort(sink)) {
    if (const std::optional<Copy> copy = Copy::Of(sink, uop, open)) {
      UOp* all = Storage(graph, uop, slots + static_cast<uint32_t>(hoisted.size()), copy->Elements());
      hoisted.push_back({copy->Kernel(graph), copy->slot(), copy->bytes()});
      copies.emplace(uop, std::make_pair(*copy, all));
    } else if (uop->op() == Op::INDEX && copies.contains(uop->src(0))) {
      const auto& [made, all] = copies.at(uop->src(0));
      replaced[uop] = made.Access(graph, all, uop->src(1));
    }
  }
  if (replaced.empty()) return sink;
  return GraphRewrite(Substitute(sink, replaced, graph), SymbolicRules(), graph);
}

}  // namespace kiln::compiler
