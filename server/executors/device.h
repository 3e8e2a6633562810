// A CPU device whose memory is the server's and whose kernels run in an executor.
#ifndef KILN_SERVER_EXECUTORS_DEVICE_H_
#define KILN_SERVER_EXECUTORS_DEVICE_H_

#include <cstdint>
#include <memory>

#include "runtime/hal/device.h"
#include "server/executors/tenant_executor.h"

namespace kiln::server {

// The device of this number, `home`'s, which outlives it: like `model`, with its memory in
// [begin, begin + reach) of the arena, and no more of it than `room` gives.
std::unique_ptr<runtime::hal::Device> MakeExecutorDevice(TenantExecutor* home, uint32_t number,
                                                         const DeviceModel& model, uint64_t begin, uint64_t reach,
                                                         TenantExecutor::Room room);

}  // namespace kiln::server

#endif  // KILN_SERVER_EXECUTORS_DEVICE_H_
