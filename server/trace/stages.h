// When the stages of a compilation were: what the part "compile" of a call was spent on (docs/tracing.md).
//
// They are noted where a program is made, kept with it, and shown in each call that waited for it. A search, which
// compiles a program many times, is one stage. Of a compilation that fails, the last one is where it did.
#ifndef KILN_SERVER_TRACE_STAGES_H_
#define KILN_SERVER_TRACE_STAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/trace/parts.h"

// In the order in which they come; the compiler's own are compiler/options/observer.h's.
#define KILN_COMPILE_STAGES(STAGE)                                                    \
  STAGE(kWait, "wait")     /* for a thread that compiles, or another server's lock */ \
  STAGE(kSearch, "search") /* for schedules, with all that it compiles */             \
  STAGE(kWorker, "worker") /* the graph goes to a process that compiles */            \
  STAGE(kImport, "import")                                                            \
  STAGE(kSchedule, "schedule")                                                        \
  STAGE(kKernels, "kernels")                                                          \
  STAGE(kCode, "code")                                                                \
  STAGE(kAssemble, "assemble") /* by ptxas, if the server has it do that */           \
  STAGE(kLoad, "load")         /* onto the device */                                  \
  STAGE(kStore, "store")       /* on disk */

namespace kiln::server {

#define KILN_STAGE_ID(id, name) id,
#define KILN_STAGE_NAME(id, name) name,
enum class CompileStage : uint8_t { KILN_COMPILE_STAGES(KILN_STAGE_ID) };
inline constexpr const char* kStageNames[] = {KILN_COMPILE_STAGES(KILN_STAGE_NAME)};
#undef KILN_STAGE_ID
#undef KILN_STAGE_NAME

inline const char* NameOf(CompileStage stage) { return kStageNames[static_cast<size_t>(stage)]; }

struct StageTime {
  Interval time;
  CompileStage stage = {};
  bool failed = false;
};

// One after the other, as they came. Of fixed size, so that it can lie in a record.
class CompileStages {
 public:
  // A program on several devices has three for each of its segments: of many, the first are kept, and the last.
  static constexpr size_t kMost = 14;

  // It began when the last one ended, if not later; and ended then or later.
  void Add(CompileStage stage, absl::Time begin, absl::Time end);
  // The last of them has failed; nothing if there is none.
  void Fail() {
    if (count_ > 0) stages_[count_ - 1].failed = true;
  }

  absl::Span<const StageTime> all() const { return {stages_.data(), count_}; }

  // What of them was at that time.
  CompileStages Within(const Interval& time) const;

 private:
  void Add(const StageTime& stage);

  std::array<StageTime, kMost> stages_ = {};
  size_t count_ = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_TRACE_STAGES_H_
