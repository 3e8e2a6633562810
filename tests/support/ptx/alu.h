// Instructions that need no more than their thread's registers, by their whole opcode.
#ifndef KILN_TESTS_SUPPORT_PTX_ALU_H_
#define KILN_TESTS_SUPPORT_PTX_ALU_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "tests/support/ptx/program.h"

namespace kiln::testing::ptx {

// Operand 0 is the result, 1 to 4 are what it is made of; 5 is the result after '|', which may be left out.
struct AluEntry {
  Alu alu = nullptr;
  uint8_t operands = 0;   // the first included
  int64_t parameter = 0;  // becomes Instruction::offset
};
using AluTable = absl::flat_hash_map<std::string, AluEntry>;

// All of them.
const AluTable& AluInstructions();

void AddIntegers(AluTable& table);
void AddBits(AluTable& table);
void AddFloats(AluTable& table);
void AddHalves(AluTable& table);
void AddComparisons(AluTable& table);
void AddConversions(AluTable& table);

template <typename T>
T As(uint64_t slot) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(slot));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(slot);
  } else {
    return static_cast<T>(slot);
  }
}

inline constexpr uint32_t kNan32 = 0x7fffffff;
inline constexpr uint16_t kNan16 = 0x7fff;  // of float16 and of bfloat16

// Of 32 bits, NaN is always the same one.
template <typename T>
uint64_t Bits(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::isnan(value) ? kNan32 : std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
  }
}

template <typename T>
T Source(const uint64_t* slots, const Instruction& i, int number) {
  return As<T>(slots[i.at[static_cast<size_t>(number)]]);
}

// float16 and bfloat16, to and from what computes with them.
struct Half {
  static double Value(uint16_t bits);
  static uint16_t Rounded(double value);  // to nearest, even
};
struct Brain {
  static double Value(uint16_t bits);
  static uint16_t Rounded(double value);
};

// a + b with all that rounding loses kept in the last bit ("to odd"), so that rounding once more, to at
// most 50 bits, is as if there had been one rounding.
double SumToOdd(double a, double b);

}  // namespace kiln::testing::ptx

#endif  // KILN_TESTS_SUPPORT_PTX_ALU_H_
