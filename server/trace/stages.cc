// Tested by server/trace/trace_test.cc.
#include "server/trace/stages.h"

#include <algorithm>

namespace kiln::server {

void CompileStages::Add(const StageTime& stage) {
  if (count_ < kMost) ++count_;
  stages_[count_ - 1] = stage;
}

void CompileStages::Add(CompileStage stage, absl::Time begin, absl::Time end) {
  const int64_t from = std::max(absl::ToUnixNanos(begin), count_ == 0 ? 0 : stages_[count_ - 1].time.end_ns);
  Add({{from, std::max(from, absl::ToUnixNanos(end))}, stage});
}

CompileStages CompileStages::Within(const Interval& time) const {
  CompileStages within;
  for (StageTime stage : all()) {
    stage.time.begin_ns = std::max(stage.time.begin_ns, time.begin_ns);
    stage.time.end_ns = std::min(stage.time.end_ns, time.end_ns);
    // One that failed is the answer, however short it was.
    const bool is_there =
        stage.failed ? stage.time.begin_ns <= stage.time.end_ns : stage.time.begin_ns < stage.time.end_ns;
    if (is_there) within.Add(stage);
  }
  return within;
}

}  // namespace kiln::server
