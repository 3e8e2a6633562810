// A wire graph, compiled for this machine's CPU and run by the runtime.
#ifndef KILN_TESTS_SUPPORT_ENGINES_CPU_ENGINE_H_
#define KILN_TESTS_SUPPORT_ENGINES_CPU_ENGINE_H_

#include "kiln/v1/target.pb.h"
#include "tests/support/engines/device_engine.h"

namespace kiln::testing {

// Figures of this machine's core, measured now, as kilnd has them: for benchmarks. What tests compile is the same on
// each machine whose sizes are.
v1::Target::Tuning::Core MeasuredCore();

// Runs on CPU:0.
class CpuEngine : public DeviceEngine {
 public:
  // 0: a thread for each core.
  explicit CpuEngine(uint32_t threads = 0, const v1::Target::Tuning::Core& core = {});
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENGINES_CPU_ENGINE_H_
