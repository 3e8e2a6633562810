// What Linux's control groups leave to this process: containers, systemd and Slurm set such limits.
//
// Each group may have a limit, and so may each group around it; the least counts. Both versions are read: one tree for
// all (version 2), or one for each kind of resource (version 1), also where both are mounted.
#ifndef KILN_RUNTIME_DRIVERS_CPU_CONTROL_GROUPS_H_
#define KILN_RUNTIME_DRIVERS_CPU_CONTROL_GROUPS_H_

#include <cstdint>
#include <limits>
#include <string>

namespace kiln::runtime::cpu {

struct GroupLimits {
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();
  // Seconds of CPU a second (`cpu.max`); fractions are usual.
  double cpus = std::numeric_limits<double>::infinity();
};

// `root` is where /proc and the rest are looked up: "" but in tests. What cannot be read limits nothing.
GroupLimits ReadGroupLimits(const std::string& root = "");

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_CONTROL_GROUPS_H_
