#include "tests/support/engines/cpu_engine.h"

#include <utility>

#include "base/check.h"
#include "runtime/drivers/cpu/core/measure_core.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/drivers/cpu/probe_target.h"

namespace kiln::testing {
namespace {

std::unique_ptr<runtime::hal::Device> NewCpu(uint32_t threads, const v1::Target::Tuning::Core& core) {
  runtime::cpu::DeviceOptions options;
  options.core = core;
  options.threads = threads;
  auto device = runtime::cpu::CreateDevice(std::move(options));
  KILN_CHECK(device.ok());
  return *std::move(device);
}

}  // namespace

v1::Target::Tuning::Core MeasuredCore() {
  return runtime::cpu::Rounded(runtime::cpu::MeasureCore(runtime::cpu::ProbeTarget(1)));
}

CpuEngine::CpuEngine(uint32_t threads, const v1::Target::Tuning::Core& core) : DeviceEngine(NewCpu(threads, core)) {}

}  // namespace kiln::testing
