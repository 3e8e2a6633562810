// The scratch memory of an in-order queue.
#ifndef KILN_RUNTIME_DRIVERS_HOST_HOST_SCRATCH_H_
#define KILN_RUNTIME_DRIVERS_HOST_HOST_SCRATCH_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/hal/allocator.h"

namespace kiln::runtime::host {

// One piece of memory that grows to the largest request. For the work of one
// queue, hence without a lock.
class HostScratch {
 public:
  // `allocator` must outlive it.
  explicit HostScratch(hal::Allocator* allocator) : allocator_(allocator) {}

  // Where it has to grow, it is counted as the account's, which may be null, until it grows again.
  absl::StatusOr<void*> Get(uint64_t bytes, const Account* account = nullptr);

  // Gives the memory back; within work of the queue.
  void Release() { buffer_ = nullptr; }

 private:
  hal::Allocator* const allocator_;
  std::shared_ptr<hal::Buffer> buffer_;
};

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_HOST_SCRATCH_H_
