// A device of another rank, as rank 0 has it.
#ifndef KILN_RUNTIME_DRIVERS_REMOTE_DEVICE_H_
#define KILN_RUNTIME_DRIVERS_REMOTE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/drivers/remote/protocol.h"
#include "runtime/drivers/remote/switchboard.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::remote {

// The devices that `hello` offers, named "CPU:<first>" and on. They keep the board, and
// with it the job, alive.
std::vector<std::unique_ptr<hal::Device>> MakeDevices(const std::shared_ptr<Switchboard>& board, uint32_t rank,
                                                      const Hello& hello, uint32_t first);

// What all descriptions of devices of a job end with: "rank 2 on node7".
std::string PlaceName(uint32_t rank, const std::string& host);

}  // namespace kiln::runtime::remote

#endif  // KILN_RUNTIME_DRIVERS_REMOTE_DEVICE_H_
