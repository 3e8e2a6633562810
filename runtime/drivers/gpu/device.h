// A GPU as a device, of any vendor.
#ifndef KILN_RUNTIME_DRIVERS_GPU_DEVICE_H_
#define KILN_RUNTIME_DRIVERS_GPU_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/drivers/gpu/card.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::gpu {

struct DeviceOptions {
  // Most of the card's memory that is handed out and cached together, in percent.
  uint32_t memory_percent = 90;
};

// What a driver found on this machine.
struct Found {
  std::vector<std::unique_ptr<hal::Device>> devices;
  // Why there is none, or why not that one: what is missing, and what to do. For people.
  std::vector<std::string> absent;
  // Why the vendor's library does no collectives of several devices; empty if it does, or if there
  // are not several.
  std::string no_collectives;
};

// NCCL or RCCL: a file, and what replies call it.
struct CollectiveLibrary {
  std::string path;
  const char* name;
};

// Adds devices of these cards, which are all of one library, or why there is none of a card. Their
// names are the cards'. Those whose hardware is connected copy from each other; if there are several,
// they do collectives by that library where it can be opened.
void MakeDevices(std::vector<std::unique_ptr<Card>> cards, const DeviceOptions& options,
                 const CollectiveLibrary& collectives, Found& found);

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_DEVICE_H_
