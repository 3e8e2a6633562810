#include "server/process/process.h"

#include <malloc.h>

#include "absl/synchronization/mutex.h"

namespace kiln::server {
namespace {

constexpr int kKeptBytes = 32 << 20;
constexpr int kOwnMappingBytes = 8 << 20;  // what is larger is a mapping of its own

}  // namespace

void PrepareToServe() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  mallopt(M_MMAP_THRESHOLD, kOwnMappingBytes);
}

}  // namespace kiln::server
