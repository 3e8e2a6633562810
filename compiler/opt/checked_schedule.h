// A schedule that is made one OptOp at a time, each of which is checked before it is
// applied: for schedules that do not come from our own rules.
//
// What is refused would change a value, or is beyond what the target holds. What may
// merely be slow is accepted: a search finds that out, and a client may know better.
#ifndef KILN_COMPILER_OPT_CHECKED_SCHEDULE_H_
#define KILN_COMPILER_OPT_CHECKED_SCHEDULE_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "compiler/kernel/dots.h"
#include "compiler/opt/apply.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// Padding may make a kernel this many times as long, or one of so few iterations.
inline constexpr double kMaxPadding = 64, kMaxPaddedIterations = 1 << 16;
inline constexpr int64_t kMaxMultiple = 4096;  // of a PADTO

class CheckedSchedule {
 public:
  // Of `plain`, a kernel of one STORE that no OptOp has changed. The graph must outlive it.
  CheckedSchedule(Graph& graph, UOp* plain, const v1::Target& target);

  // Applies `opt`; or BAD_ARGUMENT with the reason, and nothing has changed.
  absl::Status Apply(const OptOp& opt);

  // The kernel with what has been applied, cleaned up: what ApplyOpts would give.
  UOp* Finish() const { return ApplyOpts(*graph_, sink_, {}); }

  UOp* sink() const { return sink_; }
  const std::vector<OptOp>& opts() const { return opts_; }
  // Of AxesOf(sink()), how many are loops of the output: they come first.
  int64_t outputs() const { return outputs_; }
  // The least lane dimension above those of lanes that a node would have together with
  // lanes of `axis`.
  int64_t FreeDimension(int axis) const;
  // Whether parallel loops are work items.
  bool has_items() const { return has_items_; }
  // Whether the threads have been given a loop, or may be.
  bool threads() const { return threads_; }
  bool may_thread() const { return !has_items_ && !threads_ && outputs_ > 0 && CheckThread({OptOp::kThread, 0}).ok(); }

 private:
  absl::Status CheckSplit(const OptOp& opt) const;
  absl::Status CheckLanes(const OptOp& opt) const;
  absl::Status CheckPadTo(const OptOp& opt) const;
  absl::Status CheckSwap(const OptOp& opt) const;
  absl::Status CheckFuse(const OptOp& opt) const;
  absl::Status CheckLocal(const OptOp& opt) const;
  absl::Status CheckThread(const OptOp& opt) const;
  absl::Status CheckTensor(const OptOp& opt) const;
  absl::Status Check(const OptOp& opt) const;
  absl::Status CheckRegisters(UOp* sink) const;
  absl::Status CheckItems(UOp* sink) const;
  absl::Status NotWhileIterationsCollide() const;

  int64_t Size(int64_t axis) const { return axes_[static_cast<size_t>(axis)]->src(0)->const_int(); }
  void Set(UOp* sink);

  Graph* graph_;
  UOp* sink_ = nullptr;
  std::vector<UOp*> axes_;
  std::vector<UOp*> reduces_;  // the reduced loops outside of the output's: only LOCAL takes them, behind the axes
  int64_t outputs_ = 0;
  std::vector<OptOp> opts_;
  int64_t vector_bytes_, registers_;
  const v1::Target target_;
  const bool has_items_;
  DotUnits dots_;
  bool stores_apart_;
  bool threads_ = false, tiled_ = false;
  double iterations_ = 1, padding_ = 1;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_CHECKED_SCHEDULE_H_
