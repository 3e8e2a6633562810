#include "tests/support/ptx/tensor_map.h"

#include <cstring>

namespace kiln::testing::ptx {
namespace {

constexpr uint64_t kMark = 0x70616d726f736e74;

// As it fits: sizes are 1 to 2^32, boxes 1 to 256.
struct Packed {
  uint64_t mark, address;
  uint64_t strides[4];
  uint32_t sizes_less_one[5];
  uint8_t box_less_one[5];
  uint8_t element_bytes, rank, swizzle_bytes;
};
static_assert(sizeof(Packed) <= kTensorMapBytes);

}  // namespace

bool EncodeTensorMap(const TensorMap& map, void* to) {
  if (map.rank < 1 || map.rank > 5 || map.address % 16 != 0) return false;
  if (map.swizzle_bytes != 0 && map.swizzle_bytes != 32 && map.swizzle_bytes != 64 && map.swizzle_bytes != 128)
    return false;
  Packed packed = {};
  packed.mark = kMark;
  packed.address = map.address;
  packed.element_bytes = static_cast<uint8_t>(map.element_bytes);
  packed.rank = static_cast<uint8_t>(map.rank);
  packed.swizzle_bytes = static_cast<uint8_t>(map.swizzle_bytes);
  for (uint32_t axis = 0; axis < map.rank; ++axis) {
    if (map.sizes[axis] < 1 || map.sizes[axis] > uint64_t{1} << 32) return false;
    if (map.box[axis] < 1 || map.box[axis] > 256) return false;
    packed.sizes_less_one[axis] = static_cast<uint32_t>(map.sizes[axis] - 1);
    packed.box_less_one[axis] = static_cast<uint8_t>(map.box[axis] - 1);
    if (axis + 1 == map.rank) break;
    if (map.strides[axis] % 16 != 0 || map.strides[axis] >= uint64_t{1} << 40) return false;
    packed.strides[axis] = map.strides[axis];
  }
  const uint32_t inner_bytes = map.box[0] * map.element_bytes;
  if (inner_bytes % 16 != 0 || (map.swizzle_bytes != 0 && inner_bytes > map.swizzle_bytes)) return false;
  std::memset(to, 0, kTensorMapBytes);
  std::memcpy(to, &packed, sizeof(packed));
  return true;
}

std::optional<TensorMap> DecodeTensorMap(const void* from) {
  Packed packed;
  std::memcpy(&packed, from, sizeof(packed));
  if (packed.mark != kMark) return std::nullopt;
  TensorMap map;
  map.address = packed.address;
  map.element_bytes = packed.element_bytes;
  map.rank = packed.rank;
  map.swizzle_bytes = packed.swizzle_bytes;
  for (uint32_t axis = 0; axis < map.rank; ++axis) {
    map.sizes[axis] = uint64_t{packed.sizes_less_one[axis]} + 1;
    map.box[axis] = uint32_t{packed.box_less_one[axis]} + 1;
    if (axis + 1 < map.rank) map.strides[axis] = packed.strides[axis];
  }
  return map;
}

}  // namespace kiln::testing::ptx
