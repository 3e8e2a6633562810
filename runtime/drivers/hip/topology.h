// What the kernel's driver says of AMD's GPUs.
//
// HIP has names for architectures only in a structure whose layout changes; the kernel has them
// as numbers in text files, one folder for each GPU (and for each CPU).
#ifndef KILN_RUNTIME_DRIVERS_HIP_TOPOLOGY_H_
#define KILN_RUNTIME_DRIVERS_HIP_TOPOLOGY_H_

#include <cstdint>
#include <optional>
#include <string>

namespace kiln::runtime::hip {

// Where the kernel has the folders.
inline constexpr char kNodes[] = "/sys/class/kfd/kfd/topology/nodes";

struct Node {
  std::string arch;    // LLVM's name: "gfx90a"
  uint32_t cores = 0;  // compute units
  uint32_t lanes = 0;  // of a wavefront
  uint64_t shared_bytes = 0;
  uint64_t l2_bytes = 0;  // 0 where it is not said
};

// The GPU at a place on the PCI bus, as HIP writes it ("0000:c1:00.0"), by the folders in
// `nodes`; none if there is none, or the place is no place.
std::optional<Node> FindNode(const std::string& nodes, const std::string& place);

// "gfx90a" for 90010: the version's parts as decimal pairs, the last two as hexadecimal digits.
std::string ArchName(uint32_t gfx_target_version);

}  // namespace kiln::runtime::hip

#endif  // KILN_RUNTIME_DRIVERS_HIP_TOPOLOGY_H_
