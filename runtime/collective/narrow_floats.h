// Floats of 8 and 16 bits to float32 and back, in loops that a compiler turns into
// vectors: no branch, and tables for the 8-bit formats alone. What comes out is, bit
// for bit, what base/float_bits.h says.
#ifndef KILN_RUNTIME_COLLECTIVE_NARROW_FLOATS_H_
#define KILN_RUNTIME_COLLECTIVE_NARROW_FLOATS_H_

#include <array>
#include <bit>
#include <cstdint>

#include "base/float_bits.h"
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

// An 8-bit format. A float32 is first cut to its upper half, whose last bit is set if
// anything was cut off: 8 bits of precision rounded to odd, from which 4 or fewer are
// then rounded to nearest as from the whole.
template <v1::DType kDType>
struct Eight {
  using Bits = uint8_t;
  static float Widen(uint8_t bits) { return tables().wide[bits]; }
  static uint8_t Narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return tables().narrow[bits >> 16 | ((bits & 0xffffu) != 0 ? 1u : 0u)];
  }

 private:
  struct Tables {
    Tables() {
      for (uint32_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<float>(BitsToFloat(kDType, i));
      for (uint32_t i = 0; i < narrow.size(); ++i) {
        narrow[i] = static_cast<uint8_t>(FloatToBits(kDType, std::bit_cast<float>(i << 16)));
      }
    }
    std::array<float, 256> wide;
    std::array<uint8_t, 65536> narrow;
  };
  static const Tables& tables() {
    static const Tables* const tables = new Tables;
    return *tables;
  }
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_NARROW_FLOATS_H_
