// What of this machine is ours to use.
#ifndef KILN_RUNTIME_DRIVERS_CPU_MACHINE_H_
#define KILN_RUNTIME_DRIVERS_CPU_MACHINE_H_

#include <cstdint>
#include <vector>

namespace kiln::runtime::cpu {

// Numbers of the cores in the calling thread's affinity mask, ascending; never
// empty.
std::vector<uint32_t> UsableCores();

// Bytes of memory: the machine's, or the control group's limit if that is less.
uint64_t UsableMemoryBytes();

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_MACHINE_H_
