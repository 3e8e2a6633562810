// Where buffers come from.
#ifndef KILN_RUNTIME_HAL_ALLOCATOR_H_
#define KILN_RUNTIME_HAL_ALLOCATOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/account.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/guarantees.h"

namespace kiln::runtime::hal {

// What the memory is for, which decides whether it must be cleared. Whatever it is for, nobody finds in it what
// somebody of another MemoryDomain left.
enum class MemoryUse {
  // A client reads it before anyone writes it: every byte is zero.
  kClient,
  // A program writes every byte before any is read (results, arenas): zero, or what the same domain left.
  kProgram,
  // The same, and it may stay for the next program of the domain.
  kScratch,
  // Nobody touches it: it stands for as many bytes that are elsewhere, and counts like them. Only where the device's
  // memory is the host's; the buffer has no data.
  kElsewhere,
};

// All in bytes of memory taken from the device, rounding included.
struct AllocatorStats {
  uint64_t limit_bytes = 0;
  uint64_t in_use_bytes = 0;
  // Freed and kept for the next request; counts against the limit, but gives
  // way when memory is short.
  uint64_t cached_bytes = 0;
  // The most that in_use_bytes has been.
  uint64_t peak_bytes = 0;
  uint64_t buffers = 0;
  // Allocations served, and how many of those came from the cache.
  uint64_t allocations = 0;
  uint64_t reuses = 0;
};

// Safe from any thread; never waits for the device. An allocator outlives its
// buffers.
class Allocator {
 public:
  virtual ~Allocator() = default;

  // A buffer of `bytes` bytes, aligned to kBufferAlignment, in which what `domain` leaves is its own. OUT_OF_MEMORY
  // (RESOURCE_EXHAUSTED) with the limit and what is used, if it does not fit.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> Allocate(uint64_t bytes, MemoryUse use,
                                                           MemoryDomain domain = MemoryDomain::kNobody) = 0;

  // Gives cached memory back to the system.
  virtual void Trim() = 0;

  virtual AllocatorStats stats() const = 0;

  // As Allocate, and takes no more from the device than that, but for its alignment.
  virtual absl::StatusOr<std::shared_ptr<Buffer>> AllocateExactly(uint64_t bytes, MemoryUse use,
                                                                  MemoryDomain domain = MemoryDomain::kNobody) {
    return Allocate(bytes, use, domain);
  }

  // Who may be sure of how much. What is allocated without asking them may take that, too.
  Guarantees& guarantees() { return guarantees_; }
  const Guarantees& guarantees() const { return guarantees_; }

 private:
  Guarantees guarantees_;
};

// `status` of an allocation as `account` may know it: with others on the device, how much of it is in use is not its
// business. Null may know all.
absl::Status AsPayerMayKnow(const Account* account, const absl::Status& status);

// The same at the expense of `account`, which may be null and outlives the buffer: its device_bytes, or
// QUOTA_EXCEEDED; and within guarantees(). Tested by tests/e2e/tenants/quota_test.
absl::StatusOr<std::shared_ptr<Buffer>> AllocateFor(Account* account, Allocator& allocator, uint64_t bytes,
                                                    MemoryUse use, MemoryDomain domain);

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_ALLOCATOR_H_
