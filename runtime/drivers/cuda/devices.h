// Finds NVIDIA's GPUs. Nothing of CUDA is linked: the driver's library is opened if it is there.
#ifndef KILN_RUNTIME_DRIVERS_CUDA_DEVICES_H_
#define KILN_RUNTIME_DRIVERS_CUDA_DEVICES_H_

#include <string>

#include "runtime/drivers/gpu/device.h"

namespace kiln::runtime::cuda {

struct Options {
  // The driver's library; empty: $KILN_LIBCUDA, or libcuda.so.1 where the system has it.
  std::string library;
  // NCCL; empty: $KILN_LIBNCCL, or libnccl.so.2. Opened if there are several cards.
  std::string collectives;
  gpu::DeviceOptions device;
};

// All cards that the driver lists, as CUDA_VISIBLE_DEVICES lets it, by the numbers it gives them.
gpu::Found FindDevices(const Options& options);

}  // namespace kiln::runtime::cuda

#endif  // KILN_RUNTIME_DRIVERS_CUDA_DEVICES_H_
