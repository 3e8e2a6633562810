#include "runtime/drivers/cpu/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "runtime/drivers/cpu/control_groups.h"

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

uint32_t UsableThreads() {
  const auto cores = static_cast<double>(UsableCores().size());
  return static_cast<uint32_t>(std::clamp(std::ceil(ReadGroupLimits().cpus), 1.0, cores));
}

uint64_t UsableMemoryBytes() {
  const auto all = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(all, ReadGroupLimits().memory_bytes);
}

}  // namespace kiln::runtime::cpu
