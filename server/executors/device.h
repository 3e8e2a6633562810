// A CPU device whose memory is the server's and whose kernels run in an executor.
#ifndef KILN_SERVER_EXECUTORS_DEVICE_H_
#define KILN_SERVER_EXECUTORS_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "runtime/hal/device.h"
#include "server/executors/tenant_executor.h"

namespace kiln::server {

// The device of this number, `home`'s, which outlives it: like `model`, with its memory in
// [begin, begin + reach) of the arena, as much of it as is counted on the model. No run on it takes longer than
// `longest_run`.
std::unique_ptr<runtime::hal::Device> MakeExecutorDevice(TenantExecutor* home, uint32_t number,
                                                         const DeviceModel& model, uint64_t begin, uint64_t reach,
                                                         absl::Duration longest_run);

// Such a device gives back what it keeps for later: the memory of freed buffers at once, what runs need between their
// kernels after those that were submitted. Does not wait.
void GiveBack(runtime::hal::Device& device);

}  // namespace kiln::server

#endif  // KILN_SERVER_EXECUTORS_DEVICE_H_
