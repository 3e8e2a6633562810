#include "compiler/target/gpu/launch.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/spec/program_spec.h"
#include "compiler/target/gpu/architectures.h"
#include "compiler/target/gpu/fma_product.h"
#include "compiler/target/gpu/mma_product.h"
#include "compiler/target/gpu/wave_product.h"
#include "compiler/target/gpu/wgmma_kernel.h"
#include "compiler/target/llvm/group_reduce.h"

namespace kiln::compiler {
namespace {

// Of both vendors: groups along x, y and z; items along x, y and z, and of all together.
constexpr std::array<uint64_t, 3> kMaxGroups = {0x7FFFFFFF, 0xFFFF, 0xFFFF};
constexpr std::array<uint64_t, 3> kMaxItems = {1024, 1024, 64};
constexpr uint64_t kMaxItemsTogether = 1024;

struct WorkShape {
  std::array<int64_t, 3> groups = {1, 1, 1}, items = {1, 1, 1};
  uint64_t shared_bytes = 0;
};

// Coordinates with no item of their own, "idx", are those of groups.
WorkShape ShapeOf(const UOp* linear) {
  WorkShape shape;
  const auto share = [&](uint64_t bytes) {
    shape.shared_bytes += (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
  };
  for (const UOp* uop : linear->src()) {
    char kind = 0;
    int axis = 0;
    if (uop->op() == Op::SPECIAL && ParseCoordinate(uop->arg_as<TextArg>().text, kind, axis)) {
      auto& sizes = kind == 'l' ? shape.items : shape.groups;
      sizes[static_cast<size_t>(axis)] = static_cast<int64_t>(uop->src(0)->bounds().max);
    }
    if (uop->op() == Op::BUFFER && uop->addrspace() == AddrSpace::kLocal)
      share(static_cast<uint64_t>(NumElements(uop->shape()) * ItemSize(uop->dtype())));
  }
  share(static_cast<uint64_t>(ReduceBytesOf(linear, shape.items)));
  for (const UOp* uop : linear->src()) {
    if (const auto product = GroupProductOf(uop)) share(static_cast<uint64_t>(ProductSharedBytes(*product)));
  }
  return shape;
}

// A launch is made before variables have values, and runs whole groups.
absl::Status CheckSizesAreNumbers(const UOp* linear) {
  for (const UOp* uop : linear->src()) {
    if (uop->op() == Op::SPECIAL && !uop->src(0)->IsConst())
      return MakeError(v1::UNSUPPORTED_OP, absl::StrCat(uop->arg_as<TextArg>().text,
                                                        " counts up to a variable; a GPU's launch sizes are numbers"));
  }
  return absl::OkStatus();
}

absl::Status CheckAtMost(uint64_t limit_value, uint64_t used, const std::string& what, absl::string_view who) {
  if (used <= limit_value) return absl::OkStatus();
  return TooLarge(what, limit_value, used,
                  absl::StrCat("a kernel has ", used, " ", what, "; ", who, " takes at most ", limit_value));
}

}  // namespace

std::array<int64_t, 3> ItemsOf(const UOp* linear) { return ShapeOf(linear).items; }

int64_t ProductSharedBytes(const GroupProduct& product) {
  switch (product.tile->unit) {
    case MatrixTile::kMmaSync: return MmaSharedBytes(*product.tile);
    case MatrixTile::kWgmma: return WgmmaKernelSharedBytes(product);
    case MatrixTile::kFma: return FmaSharedBytes(*product.tile);
    case MatrixTile::kMfma:
    case MatrixTile::kWmma: return WaveSharedBytes(*product.tile);
  }
  KILN_CHECK(false);
}

absl::StatusOr<v1::Launch> GpuLaunch(const UOp* linear, const v1::Target& target) {
  KILN_RETURN_IF_ERROR(CheckSizesAreNumbers(linear));
  const WorkShape shape = ShapeOf(linear);
  v1::Launch launch;
  uint64_t items = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    const char name = "xyz"[axis];
    const auto groups = static_cast<uint64_t>(shape.groups[axis]), along = static_cast<uint64_t>(shape.items[axis]);
    KILN_RETURN_IF_ERROR(
        CheckAtMost(kMaxGroups[axis], groups, absl::StrCat("groups along ", std::string(1, name)), target.arch()));
    KILN_RETURN_IF_ERROR(CheckAtMost(kMaxItems[axis], along,
                                     absl::StrCat("items of a group along ", std::string(1, name)), target.arch()));
    launch.add_groups(static_cast<uint32_t>(groups));
    launch.add_items(static_cast<uint32_t>(along));
    items *= along;
  }
  KILN_RETURN_IF_ERROR(CheckAtMost(kMaxItemsTogether, items, "items of a group", target.arch()));
  const GpuArchitecture* architecture = FindGpuArchitecture(target.arch());
  KILN_CHECK(architecture != nullptr);
  KILN_RETURN_IF_ERROR(
      CheckAtMost(architecture->shared_bytes, shape.shared_bytes, "bytes of shared memory of a group", target.arch()));
  const bool dynamic = target.kind() == v1::Target::NVPTX && shape.shared_bytes > kMaxStaticSharedBytes;
  const auto shared = static_cast<uint32_t>(shape.shared_bytes);
  dynamic ? launch.set_dynamic_shared_bytes(shared) : launch.set_static_shared_bytes(shared);
  for (v1::TensorMap& map : TensorMapsOf(linear)) *launch.add_tensor_maps() = std::move(map);
  return launch;
}

}  // namespace kiln::compiler
