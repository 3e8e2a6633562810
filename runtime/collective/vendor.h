// Collectives by the library of the devices' vendor: NVIDIA's NCCL, AMD's RCCL.
//
// It knows the links between its cards best, and has kernels that combine values
// there. It is not used for what it does differently from the rest of Kiln (Does).
#ifndef KILN_RUNTIME_COLLECTIVE_VENDOR_H_
#define KILN_RUNTIME_COLLECTIVE_VENDOR_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kiln/v1/dtype.pb.h"
#include "runtime/collective/algorithms/arithmetic.h"
#include "runtime/collective/algorithms/job.h"
#include "runtime/collective/place.h"

namespace kiln::runtime::collective {

// A collective among some of the vendor's devices; `job` has no addresses.
struct VendorWork {
  const Job& job;
  ReduceOp op;
  v1::DType dtype;
  const std::vector<hal::Device*>& devices;
  const std::vector<Place>& inputs;
  const std::vector<Place>& outputs;
};

// Safe from any thread.
class Vendor {
 public:
  virtual ~Vendor() = default;

  // "nccl": what replies call it.
  virtual const char* name() const = 0;

  // Whether it does this, with the result that is promised of all collectives but for the rounding
  // of floats. `in_rank_order`: also for that.
  virtual bool Does(Kind kind, ReduceOp op, v1::DType dtype, bool in_rank_order) const = 0;

  // Has what these devices need to work together, which may take seconds the first time. A failure,
  // with the library's text, has done nothing: it is to be done otherwise.
  virtual absl::Status Prepare(const std::vector<hal::Device*>& devices) = 0;

  // Does it all, of devices that are prepared, on the caller's thread, while the queues of all stand.
  // Once it returns, nothing goes on. PARTICIPANT_MISSING naming a device that was lost, or the
  // first of those that were not done within `timeout`; else INTERNAL_FAULT with the library's text.
  // After an error, the outputs are anything, and the devices are to be prepared anew.
  virtual absl::Status Run(const VendorWork& work, absl::Duration timeout) = 0;
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_VENDOR_H_
