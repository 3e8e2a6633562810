#include "tests/fuzz/odd_numbers.h"

#include <iterator>
#include <limits>

#include "base/float_bits.h"
#include "compiler/ir/build.h"

namespace kiln::testing {

uint64_t OddNumber(Random& random, compiler::DType dtype) {
  if (dtype == compiler::DType::kBool) return random.Below(2);
  const int width = compiler::Bits(dtype);
  const uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  if (compiler::IsFloat(dtype)) {
    static constexpr double kPlain[] = {0, 1, -1, 0.5, 2, -3, 7.25, 100, -0.0, 1e-3, 65504, 1e30};
    if (random.OneIn(4)) return random.Bits() & mask;
    if (random.OneIn(6)) {
      const double odd[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
      return FloatToBits(compiler::ToWire(dtype), odd[random.Below(3)]);
    }
    return FloatToBits(compiler::ToWire(dtype), kPlain[random.Below(std::size(kPlain))]);
  }
  const uint64_t top = uint64_t{1} << (width - 1);
  uint64_t bits = 0;
  switch (random.Below(6)) {
    case 0: bits = random.Bits(); break;
    case 1: bits = random.Pick({top, top - 1, ~uint64_t{0}, uint64_t{0}, top + 1}); break;
    default: bits = static_cast<uint64_t>(random.In(-3, 9)); break;
  }
  return compiler::WrapInt(dtype, bits & mask);
}

}  // namespace kiln::testing
