#include "runtime/drivers/cpu/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace kiln::runtime::cpu {

std::vector<uint32_t> UsableCores() {
  std::vector<uint32_t> cores;
  // Grows until the kernel's mask fits.
  for (int count = 1024; count <= 1 << 20 && cores.empty(); count *= 2) {
    cpu_set_t* const set = CPU_ALLOC(count);
    const size_t bytes = CPU_ALLOC_SIZE(count);
    if (set == nullptr) break;
    CPU_ZERO_S(bytes, set);
    if (sched_getaffinity(0, bytes, set) == 0) {
      for (int core = 0; core < count; ++core) {
        if (CPU_ISSET_S(core, bytes, set)) cores.push_back(static_cast<uint32_t>(core));
      }
    }
    CPU_FREE(set);
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

uint64_t UsableMemoryBytes() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // The file says "max" where there is no limit; that is no number.
  std::ifstream group("/sys/fs/cgroup/memory.max");
  uint64_t limit = 0;
  if (group >> limit) bytes = std::min(bytes, limit);
  return bytes;
}

}  // namespace kiln::runtime::cpu
