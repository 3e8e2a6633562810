// What combines values on devices in collectives, made by the compiler when it is first wanted.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_COMPILED_COMBINER_H_
#define KILN_SERVER_ENGINE_PROGRAMS_COMPILED_COMBINER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kiln/v1/executable.pb.h"
#include "runtime/collective/combiner.h"
#include "runtime/hal/device.h"
#include "server/engine/programs/compile_fn.h"

namespace kiln::server {

// Compiles once for all devices of a target, and keeps what it has made: as many kernels as there are
// ops, dtypes and numbers of devices that clients reduce with. What does not compile is not tried again.
class CompiledCombiner final : public runtime::collective::Combiner {
 public:
  // Enough for vectors of all links to be under way, and to be there at once on any card.
  static constexpr uint32_t kGroups = 512;

  // Devices outlive it. A kernel is of so many work groups.
  explicit CompiledCombiner(CompileFn compile, uint32_t groups = kGroups)
      : compile_(std::move(compile)), groups_(groups) {}

  // The compiler's errors, and those of hal::Device::LoadModule.
  absl::StatusOr<runtime::collective::CombineKernel*> For(runtime::hal::Device& device,
                                                          const runtime::collective::Combination& what) override;

 private:
  // One compilation; callers that come meanwhile wait for it.
  struct Code {
    absl::Mutex mutex;
    bool made ABSL_GUARDED_BY(mutex) = false;
    absl::StatusOr<v1::Executable> executable ABSL_GUARDED_BY(mutex) = v1::Executable();
  };
  using CodeKey = std::pair<std::string, runtime::collective::Combination>;  // a target, serialized
  using KernelKey = std::pair<runtime::hal::Device*, runtime::collective::Combination>;

  absl::StatusOr<v1::Executable> Compiled(const v1::Target& target, const runtime::collective::Combination& what);

  const CompileFn compile_;
  const uint32_t groups_;
  absl::Mutex mutex_;
  std::map<CodeKey, std::shared_ptr<Code>> codes_ ABSL_GUARDED_BY(mutex_);
  std::map<KernelKey, std::unique_ptr<runtime::collective::CombineKernel>> kernels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_COMPILED_COMBINER_H_
