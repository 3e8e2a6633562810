#include "runtime/drivers/cuda/architectures.h"

namespace kiln::runtime::cuda {
namespace {

struct Row {
  int major, minor;  // the compute capability
  bool later_too;
  Architecture architecture;
};

// The compiler's table (compiler/target/gpu/architectures.cc); a test compares them.
constexpr Row kRows[] = {
    {8, 0, true, {"sm_80", 11040}},
    {9, 0, false, {"sm_90a", 12000}},
    {10, 0, false, {"sm_100a", 12070}},
    {12, 0, false, {"sm_120a", 12080}},
};

}  // namespace

const Architecture* ArchitectureFor(int major, int minor) {
  const Architecture* found = nullptr;
  for (const Row& row : kRows) {
    if (row.major == major && row.minor == minor) return &row.architecture;
    const bool later = major > row.major || (major == row.major && minor > row.minor);
    if (row.later_too && later) found = &row.architecture;
  }
  return found;
}

}  // namespace kiln::runtime::cuda
