// A module for AMD's GPUs as one for the host, with calls in place of AMD's instructions.
#ifndef KILN_TESTS_SUPPORT_AMD_RETARGET_H_
#define KILN_TESTS_SUPPORT_AMD_RETARGET_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace kiln::testing::amd {

struct SharedArray {
  std::string symbol;  // which the module now expects to be defined elsewhere
  uint64_t bytes, alignment;
};

struct HostKernel {
  std::string entry;  // void entry(const uint64_t* arguments)
  size_t parameters = 0;
  uint32_t max_items = 0;  // in a group; 0: not said
  bool meets = false;      // whether its items wait for each other
  std::vector<SharedArray> shared;
};

// By the kernels' names. Changes `module`, of which every function is a kernel.
absl::StatusOr<std::map<std::string, HostKernel>> RetargetToHost(llvm::Module& module, const llvm::TargetMachine& host);

}  // namespace kiln::testing::amd

#endif  // KILN_TESTS_SUPPORT_AMD_RETARGET_H_
