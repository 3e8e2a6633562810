// What this core does in a cycle, measured: figures that the compiler's cost model asks for (Target.Tuning.Core) and no
// system tells. A cycle is what an addition takes, so the clock need not be known, and may change.
#ifndef KILN_RUNTIME_DRIVERS_CPU_CORE_MEASURE_CORE_H_
#define KILN_RUNTIME_DRIVERS_CPU_CORE_MEASURE_CORE_H_

#include "kiln/v1/target.pb.h"

namespace kiln::runtime::cpu {

// Changes whenever a figure means something else, or is measured otherwise: figures of another version are not used.
inline constexpr uint32_t kCoreVersion = 1;

// Of the core that the caller runs on, which has the features of `target` and its vectors, 32 or 64 bytes. Empty if
// there is nothing to measure with: no such vectors, no FMA, another architecture, or no memory. Takes 20 ms on a
// machine that has time and at most 200 on one that has none, and touches 16 MiB at most.
v1::Target::Tuning::Core MeasureCore(const v1::Target& target);

// Each figure in steps that are larger than what a busy machine adds to it, so that schedules are the same after each
// start, and within what a core may be. What is not known, 0, stays so; so does what is no number.
v1::Target::Tuning::Core Rounded(const v1::Target::Tuning::Core& measured);

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_CORE_MEASURE_CORE_H_
