// What this machine's CPU can do, as the compiler wants it said.
#ifndef KILN_RUNTIME_DRIVERS_CPU_PROBE_TARGET_H_
#define KILN_RUNTIME_DRIVERS_CPU_PROBE_TARGET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/v1/target.pb.h"

namespace kiln::runtime::cpu {

// Triple, CPU name, every feature LLVM knows of this host as "+x" or "-x" in
// sorted order, and tuning numbers. `cores` is how many threads share a kernel.
// A cache size the system does not tell has a common one's value.
v1::Target ProbeTarget(uint32_t cores);

// The same with figures of the core (core/known_core.h; they may be empty) and vectors as wide as theirs, but for what
// KILN_CPU_TARGET in the environment says in protobuf's text form: "tuning { l2_bytes: 2097152 cores: 8 }". It is for
// containers that are told wrong sizes, and for tests: schedules are then those of that CPU, values are the same.
// BAD_ARGUMENT if it is no such text, or has more than `arch` and `tuning`: no text gives a CPU features.
absl::StatusOr<v1::Target> HostTarget(uint32_t cores, const v1::Target::Tuning::Core& core = {});

// Whether KILN_CPU_TARGET says which core it is, by `arch`, `tuning.core` or `tuning.vector_bytes`: HostTarget then
// takes no other figures. BAD_ARGUMENT as there.
absl::StatusOr<bool> IsToldOfCore();

// "AMD EPYC 9654, 2 threads".
std::string DescribeCpu(uint32_t threads);

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_PROBE_TARGET_H_
