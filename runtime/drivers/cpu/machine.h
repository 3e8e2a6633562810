// What of this machine is ours to use.
#ifndef KILN_RUNTIME_DRIVERS_CPU_MACHINE_H_
#define KILN_RUNTIME_DRIVERS_CPU_MACHINE_H_

#include <cstdint>
#include <vector>

namespace kiln::runtime::cpu {

// Numbers of the cores in the calling thread's affinity mask, ascending; never
// empty.
std::vector<uint32_t> UsableCores();

// Threads that may compute at once: as many as there are such cores, or as its control groups give it time for, rounded
// up (a quota of 1.5 is 2). At least 1.
uint32_t UsableThreads();

// Bytes of memory: the machine's, or the limit of the process's control groups if that is less.
uint64_t UsableMemoryBytes();

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_MACHINE_H_
