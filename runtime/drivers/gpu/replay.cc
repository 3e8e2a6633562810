#include "runtime/drivers/gpu/replay.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace kiln::runtime::gpu {
namespace {

// Fewer launches are asked for one by one as fast.
constexpr size_t kWorthIt = 3;
// Callers take turns with a few sets of buffers at most.
constexpr size_t kMostKnown = 8;

bool Same(const hal::LaunchStep& a, const hal::LaunchStep& b) {
  return a.kernel == b.kernel && a.first_operand == b.first_operand && a.operand_count == b.operand_count;
}

// All that the steps have operands in.
absl::Span<void* const> OperandsOf(absl::Span<const hal::LaunchStep> steps, void* const* operands) {
  uint32_t end = 0;
  for (const hal::LaunchStep& step : steps) end = std::max(end, step.first_operand + step.operand_count);
  return {operands, end};
}

}  // namespace

Replay::Known* Replay::Find(absl::Span<const hal::LaunchStep> steps, absl::Span<void* const> operands) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    return known.operands.size() == operands.size() &&
           std::equal(operands.begin(), operands.end(), known.operands.begin()) && known.steps.size() == steps.size() &&
           std::equal(steps.begin(), steps.end(), known.steps.begin(), Same);
  });
  if (found == known_.end()) return nullptr;
  std::rotate(known_.begin(), found, found + 1);
  return &known_.front();
}

absl::Status Replay::Capture(Known& known, absl::FunctionRef<absl::Status(Stream)> ask) {
  if (!stream_) {
    KILN_ASSIGN_OR_RETURN(const Stream stream, card_->MakeStream());
    stream_ = OwnedStream(card_, stream);
  }
  KILN_ASSIGN_OR_RETURN(const Graph graph, card_->Capture(stream_.get(), [&] { return ask(stream_.get()); }));
  known.graph = OwnedGraph(card_, graph);
  return absl::OkStatus();
}

absl::Status Replay::Launch(absl::Span<const hal::LaunchStep> steps, void* const* operands, Stream stream,
                            absl::FunctionRef<absl::Status(Stream)> ask) {
  if (steps.size() < kWorthIt || broken_) return ask(stream);
  const absl::Span<void* const> all = OperandsOf(steps, operands);
  Known* const known = Find(steps, all);
  if (known == nullptr) {
    if (known_.size() == kMostKnown) {
      if (known_.back().graph) KILN_RETURN_IF_ERROR(card_->Finish(stream));  // it may still run
      known_.pop_back();
    }
    known_.push_front({{steps.begin(), steps.end()}, {all.begin(), all.end()}, {}});
    return ask(stream);
  }
  if (!known->graph && !Capture(*known, ask).ok()) {
    // What is wrong with the launches themselves shows when they are asked for.
    broken_ = true;
    return ask(stream);
  }
  return card_->LaunchGraph(stream, known->graph.get());
}

}  // namespace kiln::runtime::gpu
