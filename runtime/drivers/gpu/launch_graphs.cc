#include "runtime/drivers/gpu/launch_graphs.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace kiln::runtime::gpu {
namespace {

// Fewer launches are asked for one by one as fast.
constexpr size_t kWorthIt = 3;
// Callers take turns with a few sets of buffers at most.
constexpr size_t kMaxKnown = 8;
// Graphs take memory of the card's that no allocator accounts for.
constexpr size_t kMaxLaunches = size_t{1} << 16;

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

LaunchGraphs::Known* LaunchGraphs::Find(absl::Span<const hal::LaunchStep> steps, void* const* operands, size_t piece,
                                        Stream stream) {
  if (steps.size() < kWorthIt || steps.size() > kMaxLaunches || broken_) return nullptr;
  const absl::Span<void* const> all = OperandsOf(steps, operands);
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    return known.piece == piece && known.operands.size() == all.size() &&
           std::equal(all.begin(), all.end(), known.operands.begin()) && known.steps.size() == steps.size() &&
           std::equal(steps.begin(), steps.end(), known.steps.begin(), Same);
  });
  if (found != known_.end()) {
    std::rotate(known_.begin(), found, found + 1);
    known_.front().again = true;
    return &known_.front();
  }
  // What is wrong with the stream shows when it is asked for launches.
  if (!MakeRoom(steps.size(), stream).ok()) return nullptr;
  Known known;
  known.steps.assign(steps.begin(), steps.end());
  known.operands.assign(all.begin(), all.end());
  known.piece = piece;
  known.graphs.resize((steps.size() + piece - 1) / piece);
  known_.push_front(std::move(known));
  launches_ += steps.size();
  return &known_.front();
}

absl::Status LaunchGraphs::MakeRoom(size_t launches, Stream stream) {
  while (known_.size() == kMaxKnown || launches_ + launches > kMaxLaunches) {
    if (known_.back().again) KILN_RETURN_IF_ERROR(card_->Finish(stream));  // they may still run
    launches_ -= known_.back().steps.size();
    known_.pop_back();
  }
  return absl::OkStatus();
}

absl::Status LaunchGraphs::Capture(OwnedGraph& graph, absl::FunctionRef<absl::Status(Stream)> ask) {
  // One that nobody else uses.
  KILN_ASSIGN_OR_RETURN(const Stream stream, card_->MakeStream());
  const OwnedStream owned(card_, stream);
  KILN_ASSIGN_OR_RETURN(const Graph made, card_->Capture(stream, [&] { return ask(stream); }));
  graph = OwnedGraph(card_, made);
  return absl::OkStatus();
}

absl::Status LaunchGraphs::Launch(Known* known, size_t number, size_t count, Stream stream,
                                  absl::FunctionRef<absl::Status(Stream)> ask) {
  if (known == nullptr || !known->again || count < kWorthIt || broken_) return ask(stream);
  OwnedGraph& graph = known->graphs[number];
  if (!graph && !Capture(graph, ask).ok()) {
    // What is wrong with the launches themselves shows when they are asked for.
    broken_ = true;
    return ask(stream);
  }
  return card_->LaunchGraph(stream, graph.get());
}

}  // namespace kiln::runtime::gpu
