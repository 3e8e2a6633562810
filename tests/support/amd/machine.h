// A machine that runs AMD's kernels on this computer: the LLVM IR that instructions of AMD's are selected from (a
// compilation's stage "llvm"), compiled for the host, for tests on computers without a GPU.
//
// A work item is a fibre; those of a group take turns at barriers, and those of a wavefront wherever they exchange
// values, in one order and then in the other, so that what is not ordered by a barrier shows. What a card would let
// pass is a failure: a barrier or an exchange that some items miss, an access where no memory is. Shared memory
// begins as NaN in any float, with nothing around it; what is around other memory is the caller's affair
// (GuardedBuffer). LLVM's back end for AMD's GPUs has no part in it.
#ifndef KILN_TESTS_SUPPORT_AMD_MACHINE_H_
#define KILN_TESTS_SUPPORT_AMD_MACHINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace kiln::testing::amd {

struct LaunchShape {
  std::array<uint32_t, 3> groups = {1, 1, 1}, items = {1, 1, 1};
};

// What who launches a kernel has to know.
struct KernelNeeds {
  size_t parameters = 0;      // of eight bytes each
  uint64_t shared_bytes = 0;  // that it declares
  uint32_t items = 0;         // in a group, at most; 0: not said
};

// All kernels of one compilation. Launches of one module must not overlap.
class Module {
 public:
  // `ir`: the module's text. `lanes`: how many items a wavefront has. INVALID_ARGUMENT, with the name, for an
  // instruction of AMD's that this machine does not know.
  static absl::StatusOr<std::unique_ptr<Module>> Load(absl::string_view ir, uint32_t lanes);
  virtual ~Module() = default;

  // Those that there are, by name.
  virtual std::map<std::string, KernelNeeds> Kernels() const = 0;

  // Runs all groups, one after the other. `arguments`: an address or an integer for each parameter. A failure names
  // the kernel, the group and the item, and leaves what was written until then.
  virtual absl::Status Launch(const std::string& kernel, const LaunchShape& shape,
                              absl::Span<const uint64_t> arguments) const = 0;
};

}  // namespace kiln::testing::amd

#endif  // KILN_TESTS_SUPPORT_AMD_MACHINE_H_
