// A wire graph, compiled for this machine's CPU and run by the runtime.
#ifndef KILN_TESTS_SUPPORT_ENGINES_CPU_ENGINE_H_
#define KILN_TESTS_SUPPORT_ENGINES_CPU_ENGINE_H_

#include "tests/support/engines/device_engine.h"

namespace kiln::testing {

// Runs on CPU:0.
class CpuEngine : public DeviceEngine {
 public:
  // 0: a thread for each core.
  explicit CpuEngine(uint32_t threads = 0);
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENGINES_CPU_ENGINE_H_
