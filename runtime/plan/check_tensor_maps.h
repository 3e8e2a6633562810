// Whether tensor maps of an Executable's launches are ones that a card's copy engine can use safely.
#ifndef KILN_RUNTIME_PLAN_CHECK_TENSOR_MAPS_H_
#define KILN_RUNTIME_PLAN_CHECK_TENSOR_MAPS_H_

#include "absl/status/status.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::runtime {

// Of an Executable whose steps have been checked. Afterwards only kernels for NVIDIA's GPUs have
// any; each map's operand is a buffer in every step of its kernel, and the tensor lies within it;
// and all numbers are ones that cuTensorMapEncodeTiled takes. INTERNAL_FAULT with `field` set otherwise.
absl::Status CheckTensorMaps(const v1::Executable& executable);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_PLAN_CHECK_TENSOR_MAPS_H_
