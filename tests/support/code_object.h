// What an AMD code object says of its kernels.
#ifndef KILN_TESTS_SUPPORT_CODE_OBJECT_H_
#define KILN_TESTS_SUPPORT_CODE_OBJECT_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace kiln::testing {

// Of a kernel's descriptor (LLVM's AMDGPU usage guide, "kernel descriptor"); sizes are in bytes.
struct KernelDescriptor {
  uint32_t group_segment = 0;  // shared memory of a group
  uint32_t private_segment = 0;
  uint32_t arguments = 0;
  uint32_t lanes = 0;  // of a wavefront
};

// Of all kernels, by name. INVALID_ARGUMENT unless `object` is a shared object that has, for each descriptor among its
// dynamic symbols, the function that it describes.
absl::StatusOr<std::map<std::string, KernelDescriptor>> ReadKernelDescriptors(const std::string& object);
// The one of `kernel`, which must be there.
absl::StatusOr<KernelDescriptor> ReadKernelDescriptor(const std::string& object, const std::string& kernel);

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_CODE_OBJECT_H_
