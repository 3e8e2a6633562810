// SIN: x = quadrant * pi/2 + r with |r| <= pi/4; then sin(x) is sin(r) or cos(r)
// with a sign, each a polynomial.
//
// The reduction has to be exact however large x is: sin(1e38) is as well defined
// as sin(1). Payne and Hanek: x is m * 2^e with an integer m; of 2/pi's bits, those
// that multiplied with x give multiples of 4 turn whole circles and do not
// matter, and those far below do not either. So what is multiplied with m is a
// window of 2/pi that e places, in integers, modulo 4: the top two bits of the
// product are the quadrant, the rest is the fraction.
#include "compiler/rules/transcendental/float_parts.h"
#include "compiler/rules/transcendental/transcendental.h"

namespace kiln::compiler {
namespace {

// (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 of r^2.
// Errors of sin and cos: 2^-28 and 2^-33 in float32, 2^-58 and 2^-63 in float64.
constexpr double kSinFloat32[] = {-0x1.555546p-3, 0x1.110778p-7, -0x1.9953e8p-13};
constexpr double kCosFloat32[] = {0x1.55554ap-5, -0x1.6c0c28p-10, 0x1.99e876p-16};
constexpr double kSinFloat64[] = {-0x1.5555555555548p-3, 0x1.111111110f730p-7,   -0x1.a01a019be9318p-13,
                                  0x1.71de35553c851p-19, -0x1.ae5e4b9329995p-26, 0x1.5d8b5a659dbe1p-33};
constexpr double kCosFloat64[] = {0x1.555555555554bp-5,   -0x1.6c16c16c15014p-10, 0x1.a01a019c8f078p-16,
                                  -0x1.27e4f7f175295p-22, 0x1.1ee9dbb841e9ep-29,  -0x1.8fa67733d13cep-37};

// 2/pi's bits behind 26 zeros, and behind 55.
constexpr uint32_t kTwoOverPiFloat32[] = {0x00000028, 0xBE60DB93, 0x91054A7F, 0x09D5F47D,
                                          0x4D377036, 0xD8A5664F, 0x10E4107F};
constexpr uint32_t kTwoOverPiFloat64[] = {
    0x00000000, 0x00000145, 0xF306DC9C, 0x882A53F8, 0x4EAFA3EA, 0x69BB81B6, 0xC52B3278, 0x872083FC,
    0xA2C757BD, 0x778AC36E, 0x48DC7484, 0x9BA5C00C, 0x925DD413, 0xA32439FC, 0x3BD63962, 0x534E7DD1,
    0x046BEA5D, 0x768909D3, 0x38E04D68, 0xBEFC8273, 0x23AC7306, 0xA673E939, 0x08BF177B, 0xF250763F,
    0xF12FFFBC, 0x0B301FDE, 0x5E2316B4, 0x14DA3EDA, 0x6CFD9E4F, 0x96136E9E, 0x8C7ECD3C, 0xBFD45AEA,
    0x4F758FD7, 0xCBE2F67A, 0x0E73EF14, 0xA525D4D7, 0xF6BF623F, 0x1ABA10AC};
constexpr double kHalfPi = 0x1.921fb54442d18p+0;

// `count` words of `table` from bit `offset` on (uint32, below 32 times the
// highest word that leaves enough behind it). Halving: each bit of the word
// number chooses between two lists.
std::vector<Formula> Window(absl::Span<const uint32_t> table, Formula offset, int count) {
  std::vector<Formula> words;
  for (uint32_t word : table) words.push_back(offset.Like(word));
  int step = 1;
  while (step * 2 + count < static_cast<int>(table.size())) step *= 2;
  for (; step > 0; step /= 2) {
    const Formula skip = (offset & (32 * step)) != 0;
    const size_t left = std::min(words.size() - step, static_cast<size_t>(count + step));
    for (size_t i = 0; i < left; ++i) words[i] = Where(skip, words[i + step], words[i]);
    words.erase(words.begin() + static_cast<int64_t>(left), words.end());
  }
  const Formula shift = offset & 31;
  const Formula back = (offset ^ 31) & 31;  // 31 - shift; the shift by one more is apart, for it may be by 32
  for (int i = 0; i < count; ++i) words[i] = (words[i] << shift) | ((words[i + 1] >> 1) >> back);
  return words;
}

struct Reduced {
  Formula quadrant;  // modulo 4, an unsigned integer of x's size
  Formula r;
};

Formula Low(Formula x) { return x & 0xFFFFFFFF; }
Formula High(Formula x) { return x >> 32; }

// The top two bits, rounded to nearest, and what is left, as 2^62ths of pi/2.
struct Split {
  Formula quadrant, rest;
};
Split SplitQuadrant(Formula product) {
  const Formula quadrant = (product + (int64_t{1} << 61)) >> 62;
  return {quadrant, (product - (quadrant << 62)).BitsAs(DType::kInt64)};
}

// m * W modulo 2^96, of which the top 64 bits are kept: the quadrant and 62 bits
// of the fraction. No float32 is closer to a multiple of pi/2 than 2^-31 times it.
Reduced ReduceFloat32(Formula exponent, Formula significand) {
  const Formula offset = exponent - 126;
  const Formula top = (offset >> 7) & 1;  // of 2^127 and more alone: one bit less to choose
  const Formula m = significand << top;
  const std::vector<Formula> w = Window(kTwoOverPiFloat32, offset - top, 3);
  const auto wide = [](Formula word) { return word.As(DType::kUint64); };
  const Formula product = (wide(m * w[0]) << 32) + wide(m) * wide(w[1]) + High(wide(m) * wide(w[2]));
  const Split split = SplitQuadrant(product);
  const Formula r = split.rest.As(DType::kFloat64) * (kHalfPi * 0x1p-62);
  return {split.quadrant.As(DType::kUint32), r.As(DType::kFloat32)};
}

// m * W modulo 2^192, of which the top 128 bits are kept: no float64 is closer to
// a multiple of pi/2 than 2^-62 times it. m has two words, W six.
Reduced ReduceFloat64(Formula exponent, Formula significand) {
  const Formula offset = exponent - 1022;
  const Formula top = (offset >> 10) & 1;
  const Formula m = significand << top;
  std::vector<Formula> low, high;  // products of m's two words with each of W's
  for (const Formula& word : Window(kTwoOverPiFloat64, (offset - top).As(DType::kUint32), 6)) {
    const Formula w = word.As(DType::kUint64);
    low.push_back(Low(m) * w);
    high.push_back(High(m) * w);
  }
  // Column by column from the right, with carries; what falls off below is under
  // 2^-124.
  std::vector<Formula> columns;
  for (int i = 3; i >= 0; --i) {
    Formula sum = Low(low[i]) + High(low[i + 1]) + Low(high[i + 1]) + High(high[i + 2]);
    if (!columns.empty()) sum = sum + High(columns.back());
    columns.push_back(sum);
  }
  const Split split = SplitQuadrant((columns[3] << 32) + Low(columns[2]));
  const Formula tail = (columns[1] << 32) + Low(columns[0]);
  const Formula rest = split.rest.As(DType::kFloat64) + tail.As(DType::kFloat64) * 0x1p-64;
  return {split.quadrant, rest * (kHalfPi * 0x1p-62)};
}

}  // namespace

Formula Sin(Formula x) {
  const FloatLayout& layout = LayoutOf(x.dtype());
  const bool wide = x.dtype() == DType::kFloat64;
  const Formula a = Abs(x);
  const Formula bits = a.BitsAs(layout.unsigned_bits);
  const Formula implicit = bits.Like(int64_t{1} << layout.mantissa);
  const Formula exponent = bits >> layout.mantissa;
  const Formula significand = (bits & ((int64_t{1} << layout.mantissa) - 1)) | implicit;
  const Reduced large = wide ? ReduceFloat64(exponent, significand) : ReduceFloat32(exponent, significand);
  // What is below pi/4 already stays as it is: r has x's own precision.
  const Formula is_small = a < 0.75;
  const Formula r = Where(is_small, a, large.r);
  const Formula quadrant = Where(is_small, bits.Like(0), large.quadrant);

  const Formula z = r * r;
  const Formula sin = r + r * z * Polynomial(z, wide ? absl::MakeConstSpan(kSinFloat64) : kSinFloat32);
  const Formula cos = z * (z * Polynomial(z, wide ? absl::MakeConstSpan(kCosFloat64) : kCosFloat32) - 0.5) + 1;
  const Formula value = Where((quadrant & 1) != 0, cos, sin);
  // Quadrants 2 and 3 turn the sign, and so does a negative x.
  const Formula sign = SignBit(x) ^ ((quadrant & 2) << (8 * ItemSize(x.dtype()) - 2));
  return Where(a < Infinity(x), WithSign(value, sign), NotANumber(x));
}

}  // namespace kiln::compiler
