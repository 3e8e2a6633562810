// How a GPU is to run a kernel: over how many groups of how many items, with how much shared memory.
#ifndef KILN_COMPILER_TARGET_GPU_LAUNCH_H_
#define KILN_COMPILER_TARGET_GPU_LAUNCH_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/ir/uop.h"
#include "compiler/structure/group_product.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// What a group of `linear`, a list of instructions, consists of, along x, y and z.
std::array<int64_t, 3> ItemsOf(const UOp* linear);

// UNSUPPORTED_OP, with the coordinate, for a size that is a variable. GRAPH_TOO_LARGE, with the axis, where no GPU of
// that kind has so many groups or items, or this one not so much shared memory.
absl::StatusOr<v1::Launch> GpuLaunch(const UOp* linear, const v1::Target& target);

// Shared memory of a product by a group.
int64_t ProductSharedBytes(const GroupProduct& product);

// Of NVIDIA's, code may declare so much itself; all of what a kernel needs beyond it is asked for at its launch.
inline constexpr uint32_t kMaxStaticSharedBytes = 48 << 10;

// Each shared array begins at a multiple of this.
inline constexpr uint32_t kSharedAlignment = 16;

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_LAUNCH_H_
