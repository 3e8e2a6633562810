// NVIDIA's GPUs.
#ifndef KILN_RUNTIME_DRIVERS_CUDA_CARD_H_
#define KILN_RUNTIME_DRIVERS_CUDA_CARD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/drivers/cuda/library.h"
#include "runtime/drivers/gpu/card.h"

namespace kiln::runtime::cuda {

// The card that the library numbers `index`, as "CUDA:<index>"; its primary context is held until
// the card goes. FAILED_PRECONDITION if there is no code for it, or its driver is too old.
absl::StatusOr<std::unique_ptr<gpu::Card>> OpenCard(std::shared_ptr<const Library> library, int index);

// "CUDA 12.4" for 12040.
std::string VersionText(int version);

}  // namespace kiln::runtime::cuda

#endif  // KILN_RUNTIME_DRIVERS_CUDA_CARD_H_
