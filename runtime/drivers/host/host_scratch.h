// The scratch memory of an in-order queue.
#ifndef KILN_RUNTIME_DRIVERS_HOST_HOST_SCRATCH_H_
#define KILN_RUNTIME_DRIVERS_HOST_HOST_SCRATCH_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/hal/allocator.h"

namespace kiln::runtime::host {

// One piece of memory that grows to the largest request of one domain; another's work gets another piece. For the work
// of one queue, hence without a lock.
class HostScratch {
 public:
  // `allocator` must outlive it.
  explicit HostScratch(hal::Allocator* allocator) : allocator_(allocator) {}

  // A piece that is not there yet is counted as the account's, which may be null, until there is another.
  absl::StatusOr<void*> Get(uint64_t bytes, const Account* account = nullptr,
                            MemoryDomain domain = MemoryDomain::kNobody);

  // Gives the memory back; within work of the queue, or between two.
  void Release() { buffer_ = nullptr; }

  // The same of what is large: an allocator keeps it for whoever wants it next, and gives it up when memory is short.
  static constexpr uint64_t kKept = 256 << 10;
  void ReleaseLarge() {
    if (buffer_ != nullptr && buffer_->bytes() > kKept) Release();
  }

 private:
  hal::Allocator* const allocator_;
  std::shared_ptr<hal::Buffer> buffer_;
  MemoryDomain domain_ = MemoryDomain::kNobody;  // whose it is
};

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_HOST_SCRATCH_H_
