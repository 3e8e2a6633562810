// An mbarrier: 8 bytes of shared memory that count arrivals, and bytes that the copy engine brings.
#ifndef KILN_TESTS_SUPPORT_PTX_MBARRIER_H_
#define KILN_TESTS_SUPPORT_PTX_MBARRIER_H_

#include <cstdint>

#include "tests/support/ptx/group.h"

namespace kiln::testing::ptx {

// Hardware has another layout, which programs do not look at.
struct Mbarrier {
  uint64_t phase : 1;   // its parity
  uint64_t fenced : 1;  // the engine may use it
  uint64_t mark : 8;
  uint64_t count : 16;    // arrivals that a phase takes
  uint64_t pending : 16;  // and those that are still to come
  int64_t bytes : 22;     // that the engine has still to bring; less than none: it was faster than who expects them
};
static_assert(sizeof(Mbarrier) == 8);

// That the engine may use the mbarrier at `address` of shared memory.
bool CheckMbarrierOfEngine(Group& group, Thread& thread, uint64_t address);
// The engine has brought `bytes`.
bool BringBytes(Group& group, Thread& thread, uint64_t address, int64_t bytes);
// What the thread has initialized may be used by the engine from now on.
void FenceMbarriers(Group& group, Thread& thread);

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_MBARRIER_H_
