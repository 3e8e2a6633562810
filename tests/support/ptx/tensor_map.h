// What cp.async.bulk.tensor finds boxes of a tensor by: 128 bytes that the driver makes
// (cuTensorMapEncodeTiled) and nobody else looks into. These are the tests' own layout of them.
#ifndef KILN_TESTS_SUPPORT_PTX_TENSOR_MAP_H_
#define KILN_TESTS_SUPPORT_PTX_TENSOR_MAP_H_

#include <array>
#include <cstdint>
#include <optional>

namespace kiln::testing::ptx {

inline constexpr uint64_t kTensorMapBytes = 128;

struct TensorMap {
  uint64_t address = 0;
  uint32_t element_bytes = 0;
  uint32_t rank = 0;                     // 1 to 5; axes innermost first
  std::array<uint64_t, 5> sizes = {};    // in elements
  std::array<uint64_t, 4> strides = {};  // in bytes, of all axes but the innermost
  std::array<uint32_t, 5> box = {};      // in elements
  uint32_t swizzle_bytes = 0;            // 0, 32, 64 or 128
};

// False where the driver would refuse the map; `to` has room for 128 bytes.
bool EncodeTensorMap(const TensorMap& map, void* to);
// None if that is not what these bytes are.
std::optional<TensorMap> DecodeTensorMap(const void* from);

// Where the byte at `address` of shared memory is after 16-byte pieces have changed places within `swizzle_bytes`:
// which piece of its row it is, as a number, is XORed with the row's number.
constexpr uint64_t Swizzled(uint64_t address, uint32_t swizzle_bytes) {
  return swizzle_bytes == 0 ? address : address ^ (address >> 3 & (swizzle_bytes - 16));
}

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_TENSOR_MAP_H_
