#include "tests/support/engines/cpu_engine.h"

#include <utility>

#include "base/check.h"
#include "runtime/drivers/cpu/device.h"

namespace kiln::testing {
namespace {

std::unique_ptr<runtime::hal::Device> NewCpu(uint32_t threads) {
  runtime::cpu::DeviceOptions options;
  options.threads = threads;
  auto device = runtime::cpu::CreateDevice(std::move(options));
  KILN_CHECK(device.ok());
  return *std::move(device);
}

}  // namespace

CpuEngine::CpuEngine(uint32_t threads) : DeviceEngine(NewCpu(threads)) {}

}  // namespace kiln::testing
