#include "compiler/target/cstyle/program.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/program/program_tree.h"
#include "compiler/program/wmma.h"
#include "compiler/program/zero_shared.h"
#include "compiler/target/cstyle/literal.h"
#include "compiler/target/cstyle/scalarize.h"

namespace kiln::compiler {
namespace {

// A rule applied to nodes whose sources have been through it, each node once.
class Mapper {
 public:
  Mapper(Graph& graph, NodeRule rule) : graph_(graph), rule_(std::move(rule)) {}

  absl::StatusOr<UOp*> Map(UOp* root) {
    std::vector<UOp*> stack = {root};
    while (!stack.empty()) {
      UOp* top = stack.back();
      if (done_.contains(top)) {
        stack.pop_back();
        continue;
      }
      const size_t waiting = stack.size();
      for (UOp* source : top->src()) {
        if (!done_.contains(source)) stack.push_back(source);
      }
      if (stack.size() > waiting) continue;
      std::vector<UOp*> src;
      for (UOp* source : top->src()) src.push_back(done_.at(source));
      UOp* updated = graph_.Make(top->op(), src, top->arg());
      graph_.InheritOrigin(updated, top);
      const absl::StatusOr<UOp*> made = rule_(updated);
      if (!made.ok()) return graph_.Locate(made.status(), top);
      graph_.InheritOrigin(*made, top);
      done_[top] = *made;
      stack.pop_back();
    }
    return done_.at(root);
  }

 private:
  Graph& graph_;
  const NodeRule rule_;
  absl::flat_hash_map<UOp*, UOp*> done_;
};

// AFTER(STACK(LOADs), n) is a STACK of reads.
UOp* ReadLanes(Graph& graph, UOp* read) {
  UOp* loads = read->src(0);
  if (loads->op() == Op::LOAD) return read;
  if (loads->op() != Op::STACK) return loads;
  std::vector<UOp*> lanes;
  for (UOp* load : loads->src()) {
    lanes.push_back(load->op() == Op::LOAD ? graph.Make(Op::AFTER, {load, Idx(graph, graph.NextId())}) : load);
    graph.InheritOrigin(lanes.back(), read);
  }
  return graph.Make(Op::STACK, lanes);
}

// A list in which no value stands where an open scope has it already.
class OpenList {
 public:
  OpenList() { scopes_.emplace_back(); }

  void Push(UOp* uop) {
    if (uop->op() == Op::END || uop->op() == Op::ENDIF) {
      for (UOp* known : scopes_.back()) known_.erase(known);
      scopes_.pop_back();
    } else if (uop->op() == Op::RANGE || uop->op() == Op::IF) {
      scopes_.emplace_back();
    } else if (uop->dtype() != DType::kVoid) {
      if (!known_.insert(uop).second) return;
      scopes_.back().push_back(uop);
    }
    list_.push_back(uop);
  }

  absl::Span<UOp* const> list() const { return list_; }

 private:
  std::vector<UOp*> list_;
  absl::flat_hash_set<UOp*> known_;
  std::vector<std::vector<UOp*>> scopes_;  // what each open one has listed
};

}  // namespace

absl::StatusOr<UOp*> SelectProgramValues(Graph& graph, UOp* linear, const Dialect& dialect) {
  std::vector<UOp*> list;
  if (dialect.HasWorkItems()) linear = ZeroShared(graph, linear);
  const auto take = [&](UOp* uop) {
    if (uop->op() == Op::ATOMICADD && !dialect.HasWorkItems()) {
      UOp* before = ReadOf(graph, uop->src(0));
      list.insert(list.end(), {before, graph.Make(Op::STORE, {uop->src(0), Add(graph, before, uop->src(1))})});
    } else {
      list.push_back(uop);
    }
  };
  const NodeRule scalarize = ScalarizeRule(graph, dialect, Reads::kNamed);
  Mapper mapper(graph, [&](UOp* uop) -> absl::StatusOr<UOp*> {
    return uop->op() == Op::AFTER ? ReadLanes(graph, uop) : scalarize(uop);
  });
  for (UOp* uop : linear->src()) {
    KILN_ASSIGN_OR_RETURN(UOp * made, mapper.Map(uop));
    const bool several = made->op() == Op::STACK || made->op() == Op::GROUP;
    for (UOp* part : several ? made->src() : absl::Span<UOp* const>(&made, 1)) {
      if (uop->op() != Op::AFTER || part->op() == Op::AFTER) take(part);  // no read that came to a value
    }
  }
  return graph.Make(Op::LINEAR, list, linear->arg());
}

UOp* NumberReads(Graph& graph, UOp* linear, UOp* program) {
  OpenList list;
  absl::flat_hash_set<uint32_t> slots;
  for (const UOp* uop : Toposort(linear)) {
    if (uop->op() == Op::PARAM) slots.insert(uop->arg_as<BufferArg>().slot);
  }
  for (UOp* uop : Toposort(program)) {
    if (uop->op() != Op::PARAM || !slots.insert(uop->arg_as<BufferArg>().slot).second) continue;
    BufferArg arg = uop->arg_as<BufferArg>();
    if (IsFloat(arg.dtype) && ItemSize(arg.dtype) == 1) arg.dtype = DType::kUint8;  // as those that are read
    list.Push(graph.Make(Op::PARAM, {uop->src(0)}, arg));
  }
  Mapper mapper(graph, [&](UOp* uop) -> absl::StatusOr<UOp*> {
    if (uop->IsConst()) return ConstOrBits(graph, uop);
    if (uop->op() != Op::AFTER) return uop;  // two that differed in an AFTER may now be one
    UOp* load = uop->src(0);
    if (load->op() != Op::LOAD) return load;
    std::vector<UOp*> src(load->src().begin(), load->src().end());
    src[0] = graph.Make(Op::AFTER, {src[0], uop->src(1)});
    return graph.Make(Op::LOAD, src);
  });
  for (UOp* uop : linear->src()) {
    if (uop->op() == Op::LOAD) continue;  // its AFTER is listed
    UOp* made = *mapper.Map(uop);
    if (uop->op() == Op::AFTER) {
      if (made->op() != Op::LOAD) continue;  // a value, which is listed
      list.Push(made->src(0));
    }
    list.Push(made);
  }
  return graph.Make(Op::LINEAR, list.list(), linear->arg());
}

}  // namespace kiln::compiler
