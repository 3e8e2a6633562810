// For which of the compiler's architectures a card of NVIDIA's gets its code.
#ifndef KILN_RUNTIME_DRIVERS_CUDA_ARCHITECTURES_H_
#define KILN_RUNTIME_DRIVERS_CUDA_ARCHITECTURES_H_

namespace kiln::runtime::cuda {

struct Architecture {
  const char* name;  // LLVM's
  // The oldest driver that reads its PTX, as the library numbers versions: 12040 is CUDA 12.4.
  int least_driver;
};

// Null for cards older than the oldest. PTX with an "a" in its architecture is for that one
// alone; without, for it and all later ones, so a card that is newer than its row's gets that of
// the last row without.
const Architecture* ArchitectureFor(int major, int minor);

}  // namespace kiln::runtime::cuda

#endif  // KILN_RUNTIME_DRIVERS_CUDA_ARCHITECTURES_H_
