#include "compiler/opt/cpu/scan.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/ir/build.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/scan.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kMaxVectors = 4;  // along another axis than the scan's

class Scheduler {
 public:
  Scheduler(Graph& graph, UOp* sink, const v1::Target& target)
      : graph_(graph), sink_(sink), simplify_(SymbolicRules(), graph), loops_(OutputRanges(sink)) {
    vector_bytes_ = target.tuning().vector_bytes() ? target.tuning().vector_bytes() : 16;
  }

  const UOp* LoopWithoutIterations() {
    const auto* arg = std::get_if<KernelArg>(&sink_->arg());
    const bool requested = arg != nullptr && !arg->opts.empty();  // then its loops stay as they are
    return !requested && Find() ? reduce_->src(1) : nullptr;
  }

  UOp* Run() {
    if (!Find()) return nullptr;
    const auto inner = std::find_if(loops_.begin(), loops_.end(), [&](UOp* loop) {
      return loop != along_ && StrideIn(place_, loop) == 1 && LanesAcross(loop) > 1;
    });
    if (inner != loops_.end()) return Across(*inner, LanesAcross(*inner));
    const bool contiguous = StrideIn(place_, along_) == 1;
    return Along(contiguous && size_ >= lanes_ ? lanes_ : 1);
  }

 private:
  // The STORE and the REDUCE, and along which loop that is a scan.
  bool Find() {
    UOp* end = sink_->src(0);
    if (sink_->src().size() != 1 || end->op() != Op::END || end->src(0)->op() != Op::STORE) return false;
    store_ = end->src(0);
    if (store_->src().size() != 2 || store_->src(0)->op() != Op::INDEX) return false;
    place_ = store_->src(0)->src(1);
    int64_t widest = 1;
    for (UOp* uop : Toposort(store_->src(1))) {
      if (uop->op() == Op::REDUCE) {
        if (reduce_ != nullptr) return false;
        reduce_ = uop;
      }
      if (uop->op() == Op::LOAD || (IsElementwise(uop->op()) && uop->dtype() != kIndexType))
        widest = std::max<int64_t>(widest, ItemSize(uop->dtype()));
    }
    if (reduce_ == nullptr) return false;
    lanes_ = std::max<int64_t>(1, vector_bytes_ / widest);
    for (UOp* loop : loops_) {
      // Each iteration stores to a place of its own.
      const std::optional<int64_t> stride = StrideIn(place_, loop);
      if (!stride.has_value() || stride == 0) return false;
    }
    for (UOp* loop : loops_) {
      if (std::optional<Scan> scan = ScanOf(graph_, simplify_, reduce_, loop)) {
        along_ = loop;
        element_ = scan->element;
        descending_ = scan->descending;
        size_ = loop->src(0)->const_int();
        return true;
      }
    }
    return false;
  }

  int64_t LanesAcross(const UOp* loop) const {
    if (!loop->src(0)->IsConst()) return 1;
    const int64_t size = loop->src(0)->const_int();
    for (int64_t amount = kMaxVectors * lanes_; amount > 1; amount /= 2) {
      if (size % amount == 0) return amount;
    }
    return 1;
  }

  UOp* Range(int64_t size, AxisType type) {
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{graph_.NextId(), type});
  }
  UOp* Lane(int64_t size, AxisType type, bool another = false) {
    const int64_t id = kLaneIds + (another ? graph_.NextId() * kLaneDimensions : 0);
    return graph_.Make(Op::RANGE, {Idx(graph_, size)}, RangeArg{id, type});
  }
  UOp* At(UOp* uop, UOp* loop, UOp* index) { return simplify_.Rewrite(Substitute(uop, {{loop, index}}, graph_)); }
  // Iteration `iteration` of `iterations`, from the end the scan begins at.
  UOp* InOrder(UOp* iteration, int64_t iterations) {
    return descending_ ? Add(graph_, Mul(graph_, iteration, Idx(graph_, -1)), Idx(graph_, iterations - 1)) : iteration;
  }

  // The accumulator, its start, and its value in each iteration of `loop`, which is inside `outer`.
  void Accumulate(UOp* loop, const std::vector<UOp*>& outer) {
    BufferArg arg;
    arg.slot = static_cast<uint32_t>(graph_.NextId());
    arg.dtype = reduce_->dtype();
    arg.addrspace = AddrSpace::kReg;
    UOp* acc = graph_.Make(Op::BUFFER, {ShapeSource(graph_, {})}, arg);
    std::vector<UOp*> around = {acc};
    around.insert(around.end(), outer.begin(), outer.end());
    UOp* start = graph_.Make(Op::STORE, {outer.empty() ? acc : graph_.Make(Op::AFTER, around),
                                         Identity(graph_, reduce_op(), reduce_->dtype())});
    acc_in_loop_ = graph_.Make(Op::AFTER, {acc, start, loop});
    before_ = graph_.Make(Op::LOAD, {acc_in_loop_});
  }

  Op reduce_op() const { return reduce_->arg_as<ReduceArg>().op; }

  // The kernel that stores what is made of `running` at `index` of the scanned loop, in the
  // iteration in which the accumulator becomes `next`.
  UOp* Finish(UOp* running, UOp* next, UOp* index, UOp* gate, std::vector<UOp*> loops) {
    UOp* update = graph_.Make(Op::STORE, {acc_in_loop_, next});
    UOp* value = At(Substitute(store_->src(1), {{reduce_, before_}}, graph_), along_, index);
    value = Substitute(value, {{before_, running}}, graph_);                 // which stays as it is written
    UOp* target = graph_.Make(Op::AFTER, {store_->src(0)->src(0), update});  // in the same iteration
    std::vector<UOp*> store = {graph_.Make(Op::INDEX, {target, At(place_, along_, index)}), value};
    if (gate != nullptr) store.push_back(gate);
    loops.insert(loops.begin(), graph_.Make(Op::STORE, store));
    return graph_.Make(Op::SINK, {graph_.Make(Op::END, loops)}, sink_->arg());
  }

  std::vector<UOp*> Others(UOp* but = nullptr) const {
    std::vector<UOp*> others;
    for (UOp* loop : loops_) {
      if (loop != along_ && loop != but) others.push_back(loop);
    }
    return others;
  }

  // Iterations of the outermost loop may be shared out.
  UOp* Threaded(UOp* sink, UOp* outermost) {
    if (outermost == nullptr) return sink;
    UOp* shared = graph_.Make(Op::RANGE, outermost->src(), RangeArg{graph_.NextId(), AxisType::kThread});
    return Substitute(sink, {{outermost, shared}}, graph_);
  }

  UOp* Across(UOp* inner, int64_t amount) {
    std::vector<UOp*> outer = Others(inner);
    UOp* block = Range(inner->src(0)->const_int() / amount, AxisType::kLoop);
    UOp* lane = Lane(amount, AxisType::kUpcast);
    UOp* loop = Range(size_, AxisType::kLoop);
    outer.push_back(block);
    UOp* index = InOrder(loop, size_);
    Accumulate(loop, outer);
    UOp* running = graph_.Make(reduce_op(), {before_, At(element_, along_, index)});
    std::vector<UOp*> loops = outer;
    loops.insert(loops.end(), {loop, lane});
    UOp* sink = Finish(running, running, index, nullptr, loops);
    UOp* split = Add(graph_, Mul(graph_, block, Idx(graph_, amount)), lane);
    sink = simplify_.Rewrite(Substitute(sink, {{inner, split}}, graph_));
    return Threaded(sink, outer.front());
  }

  UOp* Along(int64_t lanes) {
    const std::vector<UOp*> outer = Others();
    const int64_t blocks = (size_ + lanes - 1) / lanes;
    UOp* loop = Range(blocks, AxisType::kLoop);
    UOp* first = Mul(graph_, InOrder(loop, blocks), Idx(graph_, lanes));
    Accumulate(loop, outer);
    std::vector<UOp*> loops = outer;
    loops.push_back(loop);
    UOp* sink = nullptr;
    if (lanes == 1) {
      UOp* index = InOrder(loop, size_);
      UOp* running = graph_.Make(reduce_op(), {before_, At(element_, along_, index)});
      sink = Finish(running, running, index, nullptr, loops);
    } else {
      UOp* lane = Lane(lanes, AxisType::kUpcast);
      UOp* other = Lane(lanes, AxisType::kUnroll, true);
      UOp* index = Add(graph_, first, lane);
      UOp* inside = size_ % lanes == 0 ? nullptr : Lt(graph_, index, Idx(graph_, size_));
      UOp* nothing = Identity(graph_, reduce_op(), reduce_->dtype());
      UOp* element = Gated(At(element_, along_, index), inside, nothing);
      UOp* value = Substitute(element, {{lane, other}}, graph_);
      const ReduceArg arg{reduce_op(), {}};
      UOp* later = descending_ ? Lt(graph_, other, lane) : Lt(graph_, lane, other);
      UOp* so_far = graph_.Make(Op::REDUCE, {Where(graph_, later, nothing, value), other}, arg);
      UOp* total = graph_.Make(Op::REDUCE, {value, other}, arg);
      loops.push_back(lane);
      sink = Finish(graph_.Make(reduce_op(), {before_, so_far}), graph_.Make(reduce_op(), {before_, total}), index,
                    inside, loops);
    }
    return Threaded(sink, outer.empty() ? nullptr : outer.front());
  }

  // `value` where `inside` holds, and elsewhere `nothing`, without a read.
  UOp* Gated(UOp* value, UOp* inside, UOp* nothing) {
    if (inside == nullptr) return value;
    absl::flat_hash_map<UOp*, UOp*> done;
    for (UOp* uop : Toposort(value)) {
      std::vector<UOp*> src;
      for (UOp* source : uop->src()) src.push_back(done.at(source));
      if (uop->op() == Op::LOAD) {
        if (src.size() < 2) src.push_back(ConstNumber(graph_, uop->dtype(), 0));
        if (src.size() < 3) {
          src.push_back(inside);
        } else {
          src[2] = And(graph_, src[2], inside);
        }
      }
      done[uop] = graph_.Make(uop->op(), src, uop->arg());
    }
    return Where(graph_, inside, done.at(value), nothing);
  }

  Graph& graph_;
  UOp* sink_;
  Rewriter simplify_;
  const std::vector<UOp*> loops_;
  int64_t vector_bytes_ = 16, lanes_ = 1, size_ = 0;
  UOp *store_ = nullptr, *place_ = nullptr, *reduce_ = nullptr;
  UOp *along_ = nullptr, *element_ = nullptr;
  bool descending_ = false;
  UOp *acc_in_loop_ = nullptr, *before_ = nullptr;  // the accumulator in the loop, and its value before
};

}  // namespace

UOp* ScheduleScan(Graph& graph, UOp* sink, const v1::Target& target) { return Scheduler(graph, sink, target).Run(); }

const UOp* LoopWithoutIterations(Graph& graph, UOp* sink) { return Scheduler(graph, sink, {}).LoopWithoutIterations(); }

}  // namespace kiln::compiler
