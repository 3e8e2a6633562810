// CPUs that tests name: what a test expects of schedules it expects of one of these, never of
// the machine that it happens to run on.
#ifndef KILN_TESTS_SUPPORT_CPU_TARGETS_H_
#define KILN_TESTS_SUPPORT_CPU_TARGETS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kiln/v1/target.pb.h"

namespace kiln::testing {

struct CpuModel {
  const char* arch;  // as LLVM calls it
  uint32_t vector_bytes, vector_registers, cores;
  uint64_t l1_bytes, l2_bytes, l3_bytes;
  const char* dots;  // features that compiler/kernel/dots.h looks for, "+a,+b"
};

// One of each kind: 16-byte vectors and one core; 32-byte ones and many cores; 64-byte ones
// with a small and with a large second-level cache.
absl::Span<const CpuModel> CpuModels();

// The CPU itself: to compile for, not to run.
v1::Target TargetOf(const CpuModel& cpu);

// `host`, whose code it runs, scheduled as for `cpu`.
v1::Target TunedFor(const CpuModel& cpu, v1::Target host);

// The last of CpuModels() with a matrix unit in its cores, AMX: to compile for, not to run.
v1::Target TargetWithTiles();
// `host` with such a unit, made of loops.
v1::Target WithTileLoops(v1::Target host);

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_CPU_TARGETS_H_
