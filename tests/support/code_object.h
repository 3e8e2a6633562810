// What an AMD code object says of its kernels.
#ifndef KILN_TESTS_SUPPORT_CODE_OBJECT_H_
#define KILN_TESTS_SUPPORT_CODE_OBJECT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace kiln::testing {

// The head of a kernel's descriptor (LLVM's AMDGPU usage guide, "kernel descriptor"), in bytes.
struct KernelDescriptor {
  uint32_t group_segment = 0;  // shared memory of a group
  uint32_t private_segment = 0;
  uint32_t arguments = 0;
};

// INVALID_ARGUMENT unless `object` is a shared object that has a function `kernel` among its dynamic symbols, and a
// descriptor for it.
absl::StatusOr<KernelDescriptor> ReadKernelDescriptor(const std::string& object, const std::string& kernel);

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_CODE_OBJECT_H_
