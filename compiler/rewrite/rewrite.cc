#include "compiler/rewrite/rewrite.h"

#include <vector>

namespace kiln::compiler {
namespace {

// Far above what any graph within the limits takes.
constexpr size_t kMaxSteps = 50'000'000;
// How often what a rule made may be made anew by rules.
constexpr size_t kMaxRounds = 1000;

}  // namespace

UOp* Rewriter::Rewrite(UOp* root) {
  // A frame waits until its node's sources are done; then the node is rebuilt
  // and tried. A replacement is pushed in turn, and its result is the node's.
  struct Frame {
    UOp* uop;
    size_t next_source = 0;
    size_t rounds = 0;       // replacements in replacements so far
    UOp* pending = nullptr;  // what the node became; its own result is awaited
  };
  std::vector<Frame> stack = {{root}};
  std::vector<UOp*> src;
  while (!stack.empty()) {
    Frame& frame = stack.back();
    UOp* uop = frame.uop;
    if (done_.contains(uop)) {
      stack.pop_back();
      continue;
    }
    if (frame.pending != nullptr) {
      auto found = done_.find(frame.pending);
      if (found != done_.end()) {
        UOp* result = found->second;
        done_.emplace(uop, result);
        stack.pop_back();
      } else {
        stack.push_back({frame.pending, 0, frame.rounds + 1});
      }
      continue;
    }
    bool waits = false;
    while (frame.next_source < uop->src().size()) {
      UOp* source = uop->src(frame.next_source++);
      if (!done_.contains(source)) {
        stack.push_back({source, 0, frame.rounds});
        waits = true;
        break;
      }
    }
    if (waits) continue;

    src.clear();
    bool changed = false;
    for (UOp* source : uop->src()) {
      src.push_back(done_[source]);
      changed |= src.back() != source;
    }
    UOp* rebuilt = changed ? graph_.Make(uop->op(), src, uop->arg()) : uop;
    if (changed && done_.contains(rebuilt)) {
      UOp* result = done_[rebuilt];
      done_.emplace(uop, result);
      stack.pop_back();
      continue;
    }
    UOp* replacement = rules_.Apply(rebuilt, graph_);
    if (replacement != nullptr && (frame.rounds >= kMaxRounds || ++steps_ > kMaxSteps)) {
      graph_.CountRestless();
      replacement = nullptr;
    }
    if (replacement == nullptr) {
      done_.emplace(uop, rebuilt);
      done_.emplace(rebuilt, rebuilt);
      stack.pop_back();
    } else {
      frame.pending = replacement;
    }
  }
  return done_[root];
}

UOp* GraphRewrite(UOp* root, const RuleSet& rules, Graph& graph) { return Rewriter(rules, graph).Rewrite(root); }

UOp* Substitute(UOp* root, const absl::flat_hash_map<UOp*, UOp*>& replacements, Graph& graph) {
  absl::flat_hash_map<UOp*, UOp*> done(replacements);
  std::vector<UOp*> src;
  for (UOp* uop : Toposort(root)) {
    if (done.contains(uop)) continue;
    src.clear();
    bool changed = false;
    for (UOp* source : uop->src()) {
      src.push_back(done[source]);
      changed |= src.back() != source;
    }
    UOp* result = changed ? graph.Make(uop->op(), src, uop->arg()) : uop;
    done.emplace(uop, result);
  }
  return done[root];
}

}  // namespace kiln::compiler
