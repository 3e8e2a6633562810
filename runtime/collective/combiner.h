// Combining tensors on a device, which takes a kernel there.
//
// The runtime has no kernels of its own. The server has its compiler make them
// (server/engine/programs/compiled_combiner.h).
#ifndef KILN_RUNTIME_COLLECTIVE_COMBINER_H_
#define KILN_RUNTIME_COLLECTIVE_COMBINER_H_

#include <compare>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kiln/v1/dtype.pb.h"
#include "runtime/collective/algorithms/arithmetic.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::collective {

// outputs[j][i] = ((inputs[0][i] op inputs[1][i]) op inputs[2][i]) …, for every j, bit for bit what
// ArithmeticOf(dtype, op) gives, but for which NaN a NaN is.
struct Combination {
  ReduceOp op = ReduceOp::kSum;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  uint32_t inputs = 1;
  uint32_t outputs = 1;

  auto operator<=>(const Combination&) const = default;
};

// The kernel of one combination, on one device. As hal::Module::Launch: from within work of the
// device's queue only, and hal::Device::FinishLaunches waits for it.
class CombineKernel {
 public:
  virtual ~CombineKernel() = default;

  // All addresses are multiples of the item's size, and ones that the device's kernels reach: its
  // own, or those of devices that it copies from. An output may be an input; else they share no byte.
  virtual absl::Status Launch(absl::Span<const void* const> inputs, absl::Span<void* const> outputs,
                              uint64_t elements) = 0;
};

// Safe from any thread.
class Combiner {
 public:
  virtual ~Combiner() = default;

  // Lives as long as this. The first time, it may take some tenths of a second. Whatever fails,
  // nothing was done.
  virtual absl::StatusOr<CombineKernel*> For(hal::Device& device, const Combination& combination) = 0;
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_COMBINER_H_
