// Floats of 8 and 16 bits to float32 and back, so that a compiler turns loops of them
// into vectors: no branch, no table, 32-bit arithmetic. What comes out is, bit for bit,
// what base/float_bits.h says.
#ifndef KILN_RUNTIME_COLLECTIVE_ALGORITHMS_NARROW_FLOATS_H_
#define KILN_RUNTIME_COLLECTIVE_ALGORITHMS_NARROW_FLOATS_H_

#include <bit>
#include <cstdint>

#include "kiln/v1/dtype.pb.h"

namespace kiln::runtime::collective {

struct Half {
  using Bits = uint16_t;
  static float Widen(uint16_t half) {
    const uint32_t magnitude = uint32_t{half & 0x7fffu} << 13;
    // The exponent's bias is mended by a product, which also makes denormals normal.
    const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
    const uint32_t bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite;
    return std::bit_cast<float>(bits | uint32_t{half & 0x8000u} << 16);
  }
  static uint16_t Narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits >> 16) & 0x8000u;
    // Rounded to nearest even, carrying into the exponent and at its end into infinity.
    const uint32_t normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1)) >> 13;
    // Adding 0.5 leaves the bits of a denormal, rounded by the addition.
    const uint32_t denormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t half = magnitude < 0x38800000u ? denormal : normal;
    half = magnitude >= 0x47800000u ? 0x7c00u : half;
    return static_cast<uint16_t>(magnitude > 0x7f800000u ? 0x7e00u : half | sign);
  }
};

struct Brain {
  using Bits = uint16_t;
  static float Widen(uint16_t brain) { return std::bit_cast<float>(uint32_t{brain} << 16); }
  static uint16_t Narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
  }
};

// What an 8-bit format is made of: base/float_bits.cc has the same.
template <v1::DType kDType>
struct EightBits;
template <>
struct EightBits<v1::FLOAT8_E4M3> {
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr uint32_t kMaxFinite = 0x7e, kInfinity = 0, kNan = 0x7f;
  static constexpr bool kFnuz = false;
};
template <>
struct EightBits<v1::FLOAT8_E5M2> {
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr uint32_t kMaxFinite = 0x7b, kInfinity = 0x7c, kNan = 0x7e;
  static constexpr bool kFnuz = false;
};
template <>
struct EightBits<v1::FLOAT8_E4M3_FNUZ> {
  static constexpr int kMantissa = 3, kBias = 8;
  static constexpr uint32_t kMaxFinite = 0x7f, kInfinity = 0, kNan = 0x80;
  static constexpr bool kFnuz = true;
};
template <>
struct EightBits<v1::FLOAT8_E5M2_FNUZ> {
  static constexpr int kMantissa = 2, kBias = 16;
  static constexpr uint32_t kMaxFinite = 0x7f, kInfinity = 0, kNan = 0x80;
  static constexpr bool kFnuz = true;
};

// As Half; but what is finite and too large becomes the greatest, and some formats have
// no infinity, or no -0.
template <v1::DType kDType>
struct Eight {
  using Bits = uint8_t;
  using Format = EightBits<kDType>;
  static constexpr int kShift = 23 - Format::kMantissa;

  static float Widen(uint8_t bits) {
    const uint32_t magnitude = bits & 0x7fu;
    const uint32_t finite =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << kShift) * PowerOfTwo(127 - Format::kBias));
    uint32_t wide = finite;
    if constexpr (Format::kFnuz) {
      wide = bits == 0x80u ? 0x7fc00000u : wide;
    } else {
      const uint32_t special = magnitude == Format::kInfinity ? 0x7f800000u : 0x7fc00000u;
      wide = magnitude > Format::kMaxFinite ? special : wide;
    }
    return std::bit_cast<float>(wide | uint32_t{bits & 0x80u} << 24);
  }

  static uint8_t Narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits >> 24) & 0x80u;
    constexpr uint32_t kHalfUnit = (1u << (kShift - 1)) - 1;
    constexpr uint32_t kExponents = static_cast<uint32_t>(127 - Format::kBias) << 23;
    const uint32_t normal = (magnitude - kExponents + kHalfUnit + ((magnitude >> kShift) & 1)) >> kShift;
    // Its unit in the last place is that of the format's denormals.
    constexpr float kAdded = PowerOfTwo(24 - Format::kBias - Format::kMantissa);
    const uint32_t denormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + kAdded) - std::bit_cast<uint32_t>(kAdded);
    uint32_t narrow = magnitude < kExponents + (1u << 23) ? denormal : normal;
    narrow = narrow > Format::kMaxFinite ? Format::kMaxFinite : narrow;
    if constexpr (Format::kInfinity != 0) narrow = magnitude == 0x7f800000u ? Format::kInfinity : narrow;
    const uint32_t kept = Format::kFnuz ? sign & (narrow + 0x7fu) : sign;  // none for 0
    const uint32_t not_a_number = Format::kInfinity != 0 ? 0x7f800001u : 0x7f800000u;
    return static_cast<uint8_t>(magnitude >= not_a_number ? Format::kNan : narrow | kept);
  }

 private:
  static constexpr float PowerOfTwo(int exponent) {
    return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
  }
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_ALGORITHMS_NARROW_FLOATS_H_
