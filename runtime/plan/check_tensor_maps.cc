#include "runtime/plan/check_tensor_maps.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/hal/stored_bytes.h"
#include "runtime/plan/check_executable.h"

namespace kiln::runtime {
namespace {

// What the engine has room for, in bits of its own format.
constexpr int kMaxAxes = 5;
constexpr uint64_t kMaxIndices = uint64_t{1} << 32, kStrideEnd = uint64_t{1} << 40;
constexpr uint32_t kMaxBox = 256;
constexpr uint64_t kPiece = 16;  // bytes: what it moves at least, and at a multiple of which

template <typename... Parts>
absl::Status Bad(const std::string& field, const Parts&... parts) {
  v1::ErrorDetail detail;
  detail.set_code(v1::INTERNAL_FAULT);
  detail.set_field(field);
  return MakeError(std::move(detail), absl::StrCat("executable.", field, ": ", parts...));
}

absl::Status CheckNumbers(const v1::TensorMap& map, const std::string& field) {
  const uint64_t item = StoredBytes(map.dtype());
  if (item == 0) return Bad(field + ".dtype", "nothing of this type is stored");
  const int axes = map.sizes_size();
  if (axes < 1 || axes > kMaxAxes) return Bad(field + ".sizes", axes, " axes, where 1 to 5 can be");
  if (map.strides_bytes_size() != axes - 1 || map.box_size() != axes)
    return Bad(field, axes, " axes, ", map.strides_bytes_size(), " strides and ", map.box_size(), " sides of a box");
  for (const uint64_t size : map.sizes()) {
    if (size == 0 || size > kMaxIndices) return Bad(field + ".sizes", size, " is not 1 to 2^32");
  }
  for (const uint64_t stride : map.strides_bytes()) {
    if (stride % kPiece != 0 || stride >= kStrideEnd)
      return Bad(field + ".strides_bytes", stride, " is no multiple of 16 below 2^40");
  }
  for (const uint32_t side : map.box()) {
    if (side == 0 || side > kMaxBox) return Bad(field + ".box", side, " is not 1 to 256");
  }
  const uint32_t swizzle = map.swizzle_bytes();
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    return Bad(field + ".swizzle_bytes", swizzle, " is not 0, 32, 64 or 128");
  const uint64_t row = map.box(0) * item;
  if (row % kPiece != 0 || (swizzle != 0 && row > swizzle))
    return Bad(field + ".box", "a row of ", row, " bytes is no multiple of 16, or longer than the swizzle's ", swizzle);
  if (map.offset_bytes() % kPiece != 0)
    return Bad(field + ".offset_bytes", map.offset_bytes(), " is no multiple of 16");
  return absl::OkStatus();
}

// From the tensor's first byte to behind its last. CheckNumbers has bounded all: nothing wraps.
uint64_t Extent(const v1::TensorMap& map) {
  uint64_t bytes = map.sizes(0) * StoredBytes(map.dtype());
  for (int axis = 1; axis < map.sizes_size(); ++axis) {
    // Below 2^72, so by parts of a double; no buffer has as many.
    if (static_cast<double>(map.sizes(axis)) * static_cast<double>(map.strides_bytes(axis - 1)) > 1e18)
      return ~uint64_t{0};
    bytes += (map.sizes(axis) - 1) * map.strides_bytes(axis - 1);
  }
  return bytes;
}

// How many bytes the operand is known to have; none if it is no buffer, or that depends on variables.
std::optional<uint64_t> BytesOf(const v1::Operand& operand, const v1::Executable& executable) {
  const int index = static_cast<int>(operand.index());
  switch (operand.space()) {
    case v1::Operand::PARAMETER: {
      const auto& parameter = executable.signature().parameters(index);
      return parameter.symbolic_size() == 0 ? std::optional<uint64_t>(parameter.bytes()) : std::nullopt;
    }
    case v1::Operand::RESULT: {
      const auto& result = executable.signature().results(index);
      return result.symbolic_size() == 0 ? std::optional<uint64_t>(result.bytes()) : std::nullopt;
    }
    case v1::Operand::ARENA: return executable.arena_bytes() - operand.offset();
    case v1::Operand::CONSTANTS: return executable.constants().size() - operand.offset();
    case v1::Operand::PREPARED: return executable.preparations(index).bytes();
    default: return std::nullopt;
  }
}

absl::Status CheckStep(const v1::Step& step, const v1::Executable& executable) {
  const auto& maps = executable.kernels(static_cast<int>(step.kernel())).launch().tensor_maps();
  for (int n = 0; n < maps.size(); ++n) {
    const std::string field = absl::StrCat("kernels[", step.kernel(), "].launch.tensor_maps[", n, "]");
    if (maps[n].operand() >= static_cast<uint32_t>(step.operands_size()))
      return Bad(field + ".operand", "there is no operand ", maps[n].operand());
    const std::optional<uint64_t> bytes = BytesOf(step.operands(static_cast<int>(maps[n].operand())), executable);
    if (!bytes.has_value())
      return Bad(field + ".operand", "operand ", maps[n].operand(),
                 " is no buffer, or one whose size depends on variables");
    const uint64_t extent = Extent(maps[n]);
    if (maps[n].offset_bytes() > *bytes || extent > *bytes - maps[n].offset_bytes())
      return Bad(field, "the tensor ends beyond the ", *bytes, " bytes of operand ", maps[n].operand());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTensorMaps(const v1::Executable& executable) {
  for (int i = 0; i < executable.kernels_size(); ++i) {
    const auto& maps = executable.kernels(i).launch().tensor_maps();
    for (int n = 0; n < maps.size(); ++n) {
      const std::string field = absl::StrCat("kernels[", i, "].launch.tensor_maps[", n, "]");
      if (executable.target().kind() != v1::Target::NVPTX)
        return Bad(field, v1::Target::Kind_Name(executable.target().kind()), " has no engine that uses tensor maps");
      KILN_RETURN_IF_ERROR(CheckNumbers(maps[n], field));
    }
  }
  for (const v1::Preparation& preparation : executable.preparations())
    KILN_RETURN_IF_ERROR(CheckStep(preparation.step(), executable));
  for (const v1::Step& step : executable.steps()) KILN_RETURN_IF_ERROR(CheckStep(step, executable));
  return absl::OkStatus();
}

}  // namespace kiln::runtime
