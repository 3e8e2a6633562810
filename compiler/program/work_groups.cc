#include "compiler/program/work_groups.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/program/program_tree.h"
#include "compiler/program/wmma.h"

namespace kiln::compiler {
namespace {

constexpr double kMaxGroupBytes = 512 << 10;  // they stand on a thread's stack
constexpr size_t kMaxNodes = 400'000;
constexpr int64_t kZeroLanes = 16;

absl::Status TooMuch(const char* limit, double most, double used) {
  const auto limit_value = static_cast<uint64_t>(most), total = static_cast<uint64_t>(std::min(used, 1e18));
  return TooLarge(limit, limit_value, total,
                  absl::StrCat("the program has ", total, " ", limit, "; this server takes at most ", limit_value));
}

// Instructions that each item runs without waiting for the others, or the opening
// or closing of a loop or IF that all go through together.
struct Step {
  enum Kind { kRegion, kOpen, kClose };
  Kind kind;
  UOp* opener = nullptr;
  std::vector<UOp*> instructions;
  std::vector<UOp*> fetches;  // reads of earlier regions that are used here
};

bool Opens(const UOp* uop) { return uop->op() == Op::RANGE || uop->op() == Op::IF; }
bool Closes(const UOp* uop) { return uop->op() == Op::END || uop->op() == Op::ENDIF; }
bool IsRead(const UOp* uop) { return uop->op() == Op::AFTER && uop->src(0)->op() == Op::LOAD; }

class Lowering {
 public:
  Lowering(Graph& graph, UOp* linear, Zeros zeros) : graph_(graph), linear_(linear), zeros_(zeros) {
    for (UOp* uop : Toposort(linear)) {
      if (uop->op() == Op::SPECIAL) {
        const std::string& name = uop->arg_as<TextArg>().text;
        (name[0] == 'l' ? item_specials_ : group_specials_)[name] = uop;
      } else if (uop->op() == Op::BUFFER) {
        (uop->addrspace() == AddrSpace::kLocal ? local_ : registers_).push_back(uop);
      }
    }
    for (const auto& [name, special] : item_specials_) items_ *= Most(special);
  }

  absl::StatusOr<UOp*> Run() {
    Plan();
    FindFetches();
    KILN_RETURN_IF_ERROR(CheckMemory());
    OpenGroups();
    for (UOp* buffer : local_) Begin(buffer);
    if (waits_) {
      for (UOp* buffer : registers_) {
        UOp*& all = per_item_[buffer];
        all = Sized(buffer, NumElements(buffer->shape()) * items_);
        Begin(all);
      }
      for (UOp* read : crossing_) list_.push_back(scratch_.at(read));
    }
    for (const Step& step : steps_) {
      KILN_RETURN_IF_ERROR(Take(step));
    }
    if (threads_ != nullptr) list_.push_back(Closing(graph_, threads_));
    return graph_.Make(Op::LINEAR, list_, linear_->arg());
  }

 private:
  // How far a coordinate counts, at most.
  static int64_t Most(const UOp* special) { return static_cast<int64_t>(special->src(0)->bounds().max); }

  // -- What runs together

  void Plan() {
    const auto list = linear_->src();
    // By place in the list: one IF may stand there twice.
    std::vector<bool> holds(list.size(), false);  // a BARRIER
    std::vector<size_t> open;
    for (size_t i = 0; i < list.size(); ++i) {
      if (Opens(list[i])) open.push_back(i);
      if (Closes(list[i])) open.pop_back();
      if (list[i]->op() != Op::BARRIER) continue;
      waits_ = true;
      for (size_t opener : open) holds[opener] = true;
    }
    steps_.push_back({Step::kRegion});
    for (size_t i = 0; i < list.size(); ++i) {
      UOp* uop = list[i];
      if (Opens(uop)) open.push_back(i);
      const bool together = (Opens(uop) || Closes(uop)) && holds[open.back()];
      UOp* opener = together ? list[open.back()] : nullptr;
      if (Closes(uop)) open.pop_back();
      if (uop->op() == Op::BARRIER) {
        steps_.push_back({Step::kRegion});
      } else if (together) {
        steps_.push_back({Opens(uop) ? Step::kOpen : Step::kClose, opener});
        steps_.push_back({Step::kRegion});
      } else {
        steps_.back().instructions.push_back(uop);
      }
    }
  }

  // Which reads are used in another step than that which makes them.
  void FindFetches() {
    absl::flat_hash_map<UOp*, size_t> made_in;
    for (size_t i = 0; i < steps_.size(); ++i) {
      Step& step = steps_[i];
      absl::flat_hash_set<UOp*> seen;
      std::vector<UOp*> stack;
      if (step.kind == Step::kOpen) stack.push_back(step.opener->src(0));
      for (UOp* uop : step.instructions) {
        if (IsRead(uop)) {
          made_in[uop] = i;
          stack.push_back(uop->src(0));
        } else {
          stack.insert(stack.end(), uop->src().begin(), uop->src().end());
        }
      }
      while (!stack.empty()) {
        UOp* uop = stack.back();
        stack.pop_back();
        if (!seen.insert(uop).second) continue;
        if (!IsRead(uop)) {
          stack.insert(stack.end(), uop->src().begin(), uop->src().end());
        } else if (made_in.at(uop) != i) {
          step.fetches.push_back(uop);
          if (scratch_.emplace(uop, nullptr).second) crossing_.push_back(uop);
        }
      }
      nodes_ += seen.size();
      if (nodes_ > kMaxNodes) return;
    }
  }

  absl::Status CheckMemory() {
    if (nodes_ > kMaxNodes) return TooMuch("instructions between BARRIERs", kMaxNodes, static_cast<double>(nodes_));
    auto bytes = [](const UOp* uop, double elements) { return elements * ItemSize(uop->dtype()); };
    double total = 0;
    const double items = waits_ ? static_cast<double>(items_) : 1;
    for (UOp* buffer : local_) total += bytes(buffer, static_cast<double>(NumElements(buffer->shape())));
    for (UOp* buffer : registers_) total += bytes(buffer, static_cast<double>(NumElements(buffer->shape())) * items);
    for (UOp* read : crossing_) total += bytes(read, static_cast<double>(NumElements(read->shape())) * items);
    if (total > kMaxGroupBytes)
      return TooMuch("bytes of LOCAL and REG memory, and of values kept over BARRIERs, in a work group", kMaxGroupBytes,
                     total);
    for (UOp* read : crossing_) {
      BufferArg arg;
      arg.slot = static_cast<uint32_t>(graph_.NextId());
      arg.dtype = read->dtype();
      arg.addrspace = AddrSpace::kReg;
      scratch_[read] = graph_.Make(Op::BUFFER, {ShapeSource(graph_, {NumElements(read->shape()) * items_})}, arg);
    }
    return absl::OkStatus();
  }

  UOp* Sized(UOp* buffer, int64_t elements) {
    return graph_.Make(Op::BUFFER, {ShapeSource(graph_, {elements})}, buffer->arg());
  }

  // -- Loops

  void OpenGroups() {
    if (group_specials_.empty()) return;
    int64_t number = 1;
    UOp* varying = nullptr;
    for (const auto& [name, special] : group_specials_) {
      UOp* bound = special->src(0);
      if (bound->IsConst()) {
        number *= bound->const_int();
      } else {
        varying = varying == nullptr ? bound : Mul(graph_, varying, bound);
      }
    }
    UOp* total = Idx(graph_, number);
    if (varying != nullptr) total = number == 1 ? varying : Mul(graph_, varying, total);
    threads_ = graph_.Make(Op::RANGE, {total}, RangeArg{graph_.NextId(), AxisType::kThread});
    list_.push_back(threads_);
    // The first coordinate runs fastest.
    UOp* rest = threads_;
    size_t left = group_specials_.size();
    for (const auto& [name, special] : group_specials_) {
      UOp* bound = special->src(0);
      base_[special] = --left == 0 ? rest : graph_.Make(Op::FLOORMOD, {rest, bound});
      rest = graph_.Make(Op::FLOORDIV, {rest, bound});
    }
  }

  // A buffer's life begins: it holds zeros.
  void Begin(UOp* buffer) {
    list_.push_back(buffer);
    if (zeros_ == Zeros::kDeclared) return;
    const int64_t size = NumElements(buffer->shape());
    auto zero = [&](UOp* index) {
      list_.push_back(
          graph_.Make(Op::STORE, {graph_.Make(Op::INDEX, {buffer, index}), ConstNumber(graph_, buffer->dtype(), 0)}));
    };
    const int64_t iterations = size / kZeroLanes;
    if (iterations > 0) {
      UOp* loop = graph_.Make(Op::RANGE, {Idx(graph_, iterations)}, RangeArg{graph_.NextId(), AxisType::kLoop});
      list_.push_back(loop);
      zero(Add(graph_, Mul(graph_, loop, Idx(graph_, kZeroLanes)), Iota(graph_, kZeroLanes)));
      list_.push_back(Closing(graph_, loop));
    }
    for (int64_t i = iterations * kZeroLanes; i < size; ++i) zero(Idx(graph_, i));
  }

  absl::Status Take(const Step& step) {
    if (step.kind == Step::kRegion) {
      if (!step.instructions.empty()) TakeRegion(step);
      return absl::OkStatus();
    }
    if (step.kind == Step::kClose) {
      list_.push_back(Closing(graph_, base_.at(step.opener)));
      return absl::OkStatus();
    }
    // All items agree: the first one's values do.
    done_ = base_;
    Fetch(step, Idx(graph_, 0));
    UOp* opened = graph_.Make(step.opener->op(), {Copy(step.opener->src(0))}, step.opener->arg());
    base_[step.opener] = opened;
    list_.push_back(opened);
    return absl::OkStatus();
  }

  void TakeRegion(const Step& step) {
    done_ = base_;
    std::vector<UOp*> loops;
    item_ = nullptr;
    int64_t stride = 1;
    for (const auto& [name, special] : item_specials_) {
      UOp* loop = graph_.Make(Op::RANGE, {special->src(0)}, RangeArg{graph_.NextId(), AxisType::kLoop});
      done_[special] = loop;
      loops.push_back(loop);
      UOp* part = stride == 1 ? loop : Mul(graph_, loop, Idx(graph_, stride));
      item_ = item_ == nullptr ? part : Add(graph_, item_, part);
      stride *= Most(special);
    }
    if (item_ == nullptr) item_ = Idx(graph_, 0);
    list_.insert(list_.end(), loops.rbegin(), loops.rend());
    if (!waits_) {
      for (UOp* buffer : registers_) Begin(buffer);
    }
    Fetch(step, item_);
    for (UOp* uop : step.instructions) TakeInstruction(uop);
    for (UOp* loop : loops) list_.push_back(Closing(graph_, loop));
  }

  void TakeInstruction(UOp* uop) {
    if (Closes(uop)) {
      list_.push_back(Closing(graph_, open_.back()));
      open_.pop_back();
      return;
    }
    if (IsRead(uop)) {
      UOp* read = graph_.Make(Op::AFTER, {Copy(uop->src(0)), uop->src(1)});
      graph_.InheritOrigin(read, uop);
      done_[uop] = read;
      list_.push_back(read);
      if (const auto kept = scratch_.find(uop); kept != scratch_.end())
        list_.push_back(graph_.Make(Op::STORE, {Place(kept->second, uop, item_), read}));
      return;
    }
    UOp* made = Copy(uop);
    list_.push_back(made);
    if (Opens(uop)) open_.push_back(made);
  }

  // Where item `item` keeps `read`.
  UOp* Place(UOp* scratch, UOp* read, UOp* item) {
    UOp* index = item;
    if (!read->shape().empty()) {
      const int64_t lanes = NumElements(read->shape());
      index = Add(graph_, Mul(graph_, item, Idx(graph_, lanes)), Iota(graph_, lanes));
    }
    return graph_.Make(Op::INDEX, {scratch, index});
  }

  void Fetch(const Step& step, UOp* item) {
    for (UOp* read : step.fetches) {
      list_.push_back(ReadOf(graph_, Place(scratch_.at(read), read, item)));
      done_[read] = list_.back();
    }
  }

  // `uop` with what `done_` says about its sources.
  UOp* Copy(UOp* uop) {
    std::vector<UOp*> stack = {uop};
    while (!stack.empty()) {
      UOp* top = stack.back();
      if (done_.contains(top)) {
        stack.pop_back();
        continue;
      }
      bool ready = true;
      for (UOp* source : top->src()) {
        if (done_.contains(source)) continue;
        stack.push_back(source);
        ready = false;
      }
      if (!ready) continue;
      std::vector<UOp*> src;
      for (UOp* source : top->src()) src.push_back(done_[source]);
      if (const auto all = top->op() == Op::INDEX ? per_item_.find(top->src(0)) : per_item_.end();
          all != per_item_.end()) {
        const int64_t size = NumElements(top->src(0)->shape());
        src = {all->second, Add(graph_, Mul(graph_, item_, Idx(graph_, size)), src[1])};
      }
      done_[top] = graph_.Make(top->op(), src, top->arg());
      graph_.InheritOrigin(done_[top], top);
      stack.pop_back();
    }
    return done_[uop];
  }

  Graph& graph_;
  UOp* const linear_;
  const Zeros zeros_;
  std::map<std::string, UOp*> group_specials_, item_specials_;
  std::vector<UOp*> local_, registers_;
  int64_t items_ = 1;   // of a group, at most
  bool waits_ = false;  // there is a BARRIER
  size_t nodes_ = 0;
  std::vector<Step> steps_;
  std::vector<UOp*> crossing_;                   // reads that are used in other steps
  absl::flat_hash_map<UOp*, UOp*> scratch_;      // where they are kept
  absl::flat_hash_map<UOp*, UOp*> per_item_;     // REG buffer -> one for all items
  absl::flat_hash_map<UOp*, UOp*> base_, done_;  // nodes as they are now: everywhere, and in this region
  UOp* threads_ = nullptr;
  UOp* item_ = nullptr;  // the number of this region's item
  std::vector<UOp*> open_, list_;
};

}  // namespace

absl::StatusOr<UOp*> LowerWorkGroups(Graph& graph, UOp* linear, Zeros zeros) {
  return Lowering(graph, linear, zeros).Run();
}

}  // namespace kiln::compiler
