// AMD's GPUs.
#ifndef KILN_RUNTIME_DRIVERS_HIP_CARD_H_
#define KILN_RUNTIME_DRIVERS_HIP_CARD_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/drivers/gpu/card.h"
#include "runtime/drivers/hip/library.h"

namespace kiln::runtime::hip {

// The card that the library numbers `index`, as "HIP:<index>"; `nodes` is what topology.h reads.
// FAILED_PRECONDITION if there is no code for it.
absl::StatusOr<std::unique_ptr<gpu::Card>> OpenCard(std::shared_ptr<const Library> library, int index,
                                                    const std::string& nodes);

}  // namespace kiln::runtime::hip

#endif  // KILN_RUNTIME_DRIVERS_HIP_CARD_H_
