// Finds AMD's GPUs. Nothing of HIP is linked: the runtime's library is opened if it is there.
#ifndef KILN_RUNTIME_DRIVERS_HIP_DEVICES_H_
#define KILN_RUNTIME_DRIVERS_HIP_DEVICES_H_

#include <string>

#include "runtime/drivers/gpu/device.h"

namespace kiln::runtime::hip {

struct Options {
  // The runtime's library; empty: $KILN_LIBAMDHIP64, or libamdhip64.so where the system has it.
  std::string library;
  // What the kernel says of GPUs (topology.h); empty: $KILN_KFD_NODES, or where Linux has it.
  std::string nodes;
  // RCCL; empty: $KILN_LIBRCCL, or librccl.so.1. Opened if there are several GPUs.
  std::string collectives;
  gpu::DeviceOptions device;
};

// All GPUs that the runtime lists, as ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES let it, by the
// numbers it gives them. Where the kernel has no driver for them, the library is not opened.
gpu::Found FindDevices(const Options& options);

}  // namespace kiln::runtime::hip

#endif  // KILN_RUNTIME_DRIVERS_HIP_DEVICES_H_
