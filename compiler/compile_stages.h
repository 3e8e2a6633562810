// Stages of compile.cc that other entries of the compiler share, and when their parts were.
#ifndef KILN_COMPILER_COMPILE_STAGES_H_
#define KILN_COMPILER_COMPILE_STAGES_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "compiler/options/observer.h"
#include "compiler/pass/lowering.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// Tells an observer, which may be null, of each part when it ends: with the next one, or with this. On one thread.
class PartTimer {
 public:
  PartTimer(CompileObserver* observer, CompilePart first);
  ~PartTimer() { End(); }
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

  // From now on; nothing ends if it is `next` already.
  void Begin(CompilePart next);

 private:
  void End();

  CompileObserver* const observer_;
  CompilePart part_;
  absl::Time began_;
};

// All after import, once for a lowering: `root` is what "normalise" leaves, and `lowering.function` has its bodies.
absl::StatusOr<v1::Executable> CompileNormalised(Lowering& lowering, PartTimer& timer, UOp* root,
                                                 const v1::Target& device);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_COMPILE_STAGES_H_
