// The tensor maps that a kernel takes behind its operands (v1.TensorMap says what they are).
#ifndef KILN_RUNTIME_DRIVERS_GPU_TENSOR_MAPS_H_
#define KILN_RUNTIME_DRIVERS_GPU_TENSOR_MAPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kiln/v1/executable.pb.h"
#include "runtime/drivers/gpu/card.h"

namespace kiln::runtime::gpu {

// Of one kernel. For one thread at a time.
class TensorMaps {
 public:
  // NOT_IMPLEMENTED naming the kernel if it has some and the card, or its driver, knows none.
  static absl::StatusOr<TensorMaps> Of(const v1::Kernel& kernel, uint32_t operands, const Card& card);

  size_t size() const { return maps_.size(); }

  // Where the map for each is, for a launch with these operands: good until the next call. A map is
  // made by the driver, which takes its time, so those of the last operands that came are kept.
  absl::Status Find(Card* card, void* const* operands, void** parameters);

 private:
  struct Known {
    Address address = 0;
    EncodedTensorMap encoded;
  };
  struct Map {
    uint32_t operand = 0;
    uint64_t offset = 0;
    TensorMap tensor;
    std::vector<Known> known;
    size_t next = 0;  // of `known`, when that is full: the oldest
  };
  std::vector<Map> maps_;
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_TENSOR_MAPS_H_
