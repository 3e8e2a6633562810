#include "runtime/collective/algorithms/narrow_vectors.h"

#include "runtime/collective/algorithms/narrow_floats.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)

namespace kiln::runtime::collective {
namespace {

// 32 bytes at a time. A format says how a vector of its items becomes accumulators, some
// vectors of 8 float32, and back:
//   kVectors          how many
//   Widen(items, to)  the accumulators, NaNs aside if kMarksNan
//   NanOf(items)      where it kMarksNan: all ones in the items that are NaN
//   Narrow(from)      the items, rounded
// An 8-bit format's NaN is one bit pattern, whose place is known from the items as they
// are: 32 at a time, where float32 would take four steps.

using Words = __m256i;
using Floats = __m256;

inline Words Load(const void* from) { return _mm256_loadu_si256(static_cast<const Words*>(from)); }
inline void Store(void* to, Words words) { _mm256_storeu_si256(static_cast<Words*>(to), words); }

inline Words All(uint32_t bits) { return _mm256_set1_epi32(static_cast<int32_t>(bits)); }

inline Floats LowHalves(Words halves) { return _mm256_cvtph_ps(_mm256_castsi256_si128(halves)); }
inline Floats HighHalves(Words halves) { return _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)); }

// Of 32 bits each, those at even places and those at odd ones.
inline void UpperHalves(Words halves, Floats* to) {
  to[0] = _mm256_castsi256_ps(_mm256_slli_epi32(halves, 16));
  to[1] = _mm256_castsi256_ps(_mm256_and_si256(halves, All(0xffff0000)));
}

struct HalfVector {
  static constexpr int kVectors = 2;
  static constexpr uint64_t kItemBytes = 2;
  static constexpr bool kMarksNan = false;
  static void Widen(Words items, Floats* to) {
    to[0] = LowHalves(items);
    to[1] = HighHalves(items);
  }
  static Words Narrow(const Floats* from) {
    const __m128i low = _mm256_cvtps_ph(from[0], _MM_FROUND_TO_NEAREST_INT);
    const __m128i high = _mm256_cvtps_ph(from[1], _MM_FROUND_TO_NEAREST_INT);
    const Words halves = _mm256_set_m128i(high, low);
    // Of NaNs there is one, without a sign.
    const Words magnitude = _mm256_and_si256(halves, _mm256_set1_epi16(0x7fff));
    const Words is_nan = _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(0x7c00));
    return _mm256_blendv_epi8(halves, _mm256_set1_epi16(0x7e00), is_nan);
  }
};

// Items of 8 bits: those at even places and those at odd ones each in the upper half of
// 16 bits, where a shift or two make a half of each; and back the other way.
template <v1::DType kDType>
struct EightVector {
  static constexpr int kVectors = 4;
  static constexpr uint64_t kItemBytes = 1;
  using Scalar = Eight<kDType>;
  using Format = typename Scalar::Format;
  // e5m2 is the upper half of a float16, NaNs and infinities with it. e4m3's exponent is
  // a bit shorter, and its bias another, so it comes out as that much less: a power of 2,
  // that sums and maxima leave where it is.
  static constexpr bool kIsHalf = kDType == v1::FLOAT8_E5M2;
  static constexpr bool kMarksNan = !kIsHalf;
  static constexpr bool kIsSmallHalf = kDType == v1::FLOAT8_E4M3 || kDType == v1::FLOAT8_E4M3_FNUZ;

  // e5m2_fnuz has finite numbers where float16 has its infinity: it goes the longer way,
  // as the upper half of a float32 that is too small.
  static constexpr bool kIsLonger = kDType == v1::FLOAT8_E5M2_FNUZ;

  // With an exponent that is `kBits` longer; the sign comes along as often.
  template <int kBits>
  static Words Longer(Words upper) {
    constexpr uint32_t kSigns = 0xffff0000u >> (kBits + 1) & 0x7fffu;
    return _mm256_and_si256(_mm256_srai_epi16(upper, kBits), _mm256_set1_epi16(static_cast<int16_t>(~kSigns)));
  }
  static Words AsHalf(Words upper) { return kIsHalf ? upper : Longer<1>(upper); }
  static void Widen(Words items, Floats* to) {
    const Words even = _mm256_slli_epi16(items, 8);
    const Words odd = _mm256_and_si256(items, _mm256_set1_epi16(static_cast<int16_t>(0xff00)));
    if constexpr (kIsLonger) {
      UpperHalves(Longer<3>(even), to);
      UpperHalves(Longer<3>(odd), to + 2);
      for (int i = 0; i < kVectors; ++i) to[i] = _mm256_mul_ps(to[i], _mm256_set1_ps(0x1p111f));
    } else {
      to[0] = LowHalves(AsHalf(even)), to[1] = HighHalves(AsHalf(even));
      to[2] = LowHalves(AsHalf(odd)), to[3] = HighHalves(AsHalf(odd));
    }
  }
  static Words NanOf(Words items) {
    const Words magnitude = Format::kFnuz ? items : _mm256_and_si256(items, _mm256_set1_epi8(0x7f));
    return _mm256_cmpeq_epi8(magnitude, _mm256_set1_epi8(static_cast<char>(Format::kNan)));
  }

  // e4m3 from what is as much less: rounded to its last place, which adding and taking away
  // something of the right size does, it is a half exactly. Numbers alone, none infinite.
  static Words NarrowSmall(Floats low, Floats high) {
    const __m128i first = _mm256_cvtps_ph(Rounded(low), _MM_FROUND_TO_NEAREST_INT);
    const __m128i second = _mm256_cvtps_ph(Rounded(high), _MM_FROUND_TO_NEAREST_INT);
    const Words halves = _mm256_set_m128i(second, first);
    const Words magnitude = _mm256_and_si256(halves, _mm256_set1_epi16(0x7fff));
    const Words kept = _mm256_min_epu16(magnitude, _mm256_set1_epi16(Format::kMaxFinite << 7));
    const Words sign = _mm256_and_si256(halves, _mm256_set1_epi16(static_cast<int16_t>(0x8000)));
    return _mm256_or_si256(sign, _mm256_slli_epi16(kept, 1));  // in the upper byte
  }
  // e5m2_fnuz, of numbers that are not infinite: as Widen, backwards.
  static Words NarrowLonger(Floats value) {
    const Words bits = _mm256_castps_si256(_mm256_mul_ps(Rounded(value), _mm256_set1_ps(0x1p-111f)));
    const Words magnitude = _mm256_srli_epi32(_mm256_and_si256(bits, All(0x7fffffff)), Scalar::kShift);
    const Words sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), All(0x80));
    return _mm256_or_si256(_mm256_min_epu32(magnitude, All(Format::kMaxFinite)), sign);
  }
  static Floats Rounded(Floats value) {
    // Denormals have the least normal number's last place. (e4m3's is float16's, as they
    // are so much less.)
    constexpr float kMinNormal = kIsLonger ? 0x1p-15f : 0x1p-14f;
    // One and a half, so that what is negative finds the same last place.
    constexpr auto kToLastPlace = static_cast<float>(3 << (22 - Format::kMantissa));
    const Floats sign = _mm256_and_ps(value, _mm256_set1_ps(-0.0f));
    const Floats exponent = _mm256_and_ps(value, _mm256_castsi256_ps(All(0x7f800000)));
    const Floats size = _mm256_max_ps(exponent, _mm256_set1_ps(kMinNormal));
    const Floats added = _mm256_mul_ps(size, _mm256_set1_ps(kToLastPlace));
    return _mm256_or_ps(_mm256_sub_ps(_mm256_add_ps(value, added), added), sign);
  }
  // Where there is no -0.
  static Words WithoutMinusZero(Words items) {
    return _mm256_andnot_si256(_mm256_cmpeq_epi8(items, _mm256_set1_epi8(static_cast<char>(0x80))), items);
  }

  // e5m2 of what does not round beyond its greatest number: rounded to its last place it is a
  // half exactly, and this half's upper byte.
  static bool AllFit(const Floats* from) {
    constexpr float kTooLarge = 61440;  // halfway to what would follow 57344
    Floats beyond = _mm256_setzero_ps();
    for (int i = 0; i < kVectors; ++i) {
      const Floats magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), from[i]);
      beyond = _mm256_or_ps(beyond, _mm256_cmp_ps(magnitude, _mm256_set1_ps(kTooLarge), _CMP_NLT_UQ));
    }
    return _mm256_movemask_ps(beyond) == 0;
  }
  static Words RoundedHalves(Floats low, Floats high) {
    return _mm256_set_m128i(_mm256_cvtps_ph(Rounded(high), _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(Rounded(low), _MM_FROUND_TO_NEAREST_INT));
  }
  // Any: Eight::Narrow, of 8 at once.
  static Words NarrowHalf(Floats value) {
    constexpr int kShift = Scalar::kShift;
    const Words bits = _mm256_castps_si256(value);
    const Words magnitude = _mm256_and_si256(bits, All(0x7fffffff));
    const Words sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), All(0x80));
    constexpr uint32_t kHalfUnit = (1u << (kShift - 1)) - 1;
    constexpr uint32_t kExponents = static_cast<uint32_t>(127 - Format::kBias) << 23;
    const Words odd = _mm256_and_si256(_mm256_srli_epi32(magnitude, kShift), All(1));
    const Words rounded = _mm256_add_epi32(_mm256_add_epi32(magnitude, odd), All(kHalfUnit - kExponents));
    const Words normal = _mm256_srli_epi32(rounded, kShift);
    constexpr uint32_t kAdded = static_cast<uint32_t>(127 + 24 - Format::kBias - Format::kMantissa) << 23;
    const Floats added = _mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_castsi256_ps(All(kAdded)));
    const Words denormal = _mm256_sub_epi32(_mm256_castps_si256(added), All(kAdded));
    const Words is_normal = _mm256_cmpgt_epi32(magnitude, All(kExponents + (1u << 23) - 1));
    Words narrow = _mm256_blendv_epi8(denormal, normal, is_normal);
    // Unsigned: what is far too large has wrapped.
    narrow = _mm256_min_epu32(narrow, All(Format::kMaxFinite));
    const Words infinite = _mm256_cmpeq_epi32(magnitude, All(0x7f800000));
    narrow = _mm256_or_si256(_mm256_blendv_epi8(narrow, All(Format::kInfinity), infinite), sign);
    const Words is_nan = _mm256_cmpgt_epi32(magnitude, All(0x7f800000));
    return _mm256_blendv_epi8(narrow, All(Format::kNan), is_nan);
  }
  static Words Narrow(const Floats* from) {
    if constexpr (kIsSmallHalf) {
      const Words even = _mm256_srli_epi16(NarrowSmall(from[0], from[1]), 8);
      const Words items = _mm256_or_si256(even, NarrowSmall(from[2], from[3]));
      return Format::kFnuz ? WithoutMinusZero(items) : items;
    }
    if constexpr (kIsLonger) {
      const Words even = _mm256_or_si256(NarrowLonger(from[0]), _mm256_slli_epi32(NarrowLonger(from[1]), 16));
      const Words odd = _mm256_or_si256(NarrowLonger(from[2]), _mm256_slli_epi32(NarrowLonger(from[3]), 16));
      return WithoutMinusZero(_mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
    }
    if (AllFit(from)) {
      const Words upper = _mm256_set1_epi16(static_cast<int16_t>(0xff00));
      const Words even = _mm256_srli_epi16(RoundedHalves(from[0], from[1]), 8);
      return _mm256_or_si256(even, _mm256_and_si256(RoundedHalves(from[2], from[3]), upper));
    }
    // Two vectors of 32 bits to one of 16: their order is that of Low- and HighHalves
    // once the middle quarters have changed places.
    const Words even = _mm256_permute4x64_epi64(_mm256_packus_epi32(NarrowHalf(from[0]), NarrowHalf(from[1])), 0xd8);
    const Words odd = _mm256_permute4x64_epi64(_mm256_packus_epi32(NarrowHalf(from[2]), NarrowHalf(from[3])), 0xd8);
    return _mm256_or_si256(even, _mm256_slli_epi16(odd, 8));
  }
};

// OfNumbers: where neither is NaN.
struct AddVectors {
  static Floats Of(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats OfNumbers(Floats a, Floats b) { return _mm256_add_ps(a, b); }
};
struct MultiplyVectors {
  static Floats Of(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
};
struct MaxVectors {
  // b where that is NaN or they are equal, as Max in arithmetic.cc; and a where that is NaN.
  static Floats Of(Floats a, Floats b) {
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  }
  static Floats OfNumbers(Floats a, Floats b) { return _mm256_max_ps(a, b); }
};

template <typename Format, typename Op>
uint64_t Reduce(const void* const* inputs, uint32_t input_count, void* const* outputs, uint32_t output_count,
                uint64_t elements) {
  constexpr uint64_t kStep = sizeof(Words) / Format::kItemBytes;
  const uint64_t whole = elements / kStep * sizeof(Words);  // in bytes
  for (uint64_t at = 0; at < whole; at += sizeof(Words)) {
    Floats acc[Format::kVectors];
    Words items = Load(static_cast<const char*>(inputs[0]) + at);
    Format::Widen(items, acc);
    Words is_nan = _mm256_setzero_si256();
    if constexpr (Format::kMarksNan) is_nan = Format::NanOf(items);
    for (uint32_t k = 1; k < input_count; ++k) {
      Floats wide[Format::kVectors];
      items = Load(static_cast<const char*>(inputs[k]) + at);
      Format::Widen(items, wide);
      for (int i = 0; i < Format::kVectors; ++i) {
        if constexpr (Format::kMarksNan) {
          acc[i] = Op::OfNumbers(acc[i], wide[i]);
        } else {
          acc[i] = Op::Of(acc[i], wide[i]);
        }
      }
      if constexpr (Format::kMarksNan) is_nan = _mm256_or_si256(is_nan, Format::NanOf(items));
    }
    Words result = Format::Narrow(acc);
    if constexpr (Format::kMarksNan) {
      result = _mm256_blendv_epi8(result, _mm256_set1_epi8(static_cast<char>(Format::Format::kNan)), is_nan);
    }
    for (uint32_t j = 0; j < output_count; ++j) Store(static_cast<char*>(outputs[j]) + at, result);
  }
  return whole / Format::kItemBytes;
}

template <typename Format>
VectorReduce ReduceOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return Reduce<Format, AddVectors>;
    case ReduceOp::kMax: return Reduce<Format, MaxVectors>;
    case ReduceOp::kProd:
      // Products of the others would be as much less as often, or infinite.
      if constexpr (!Format::kMarksNan) return Reduce<Format, MultiplyVectors>;
      return nullptr;
  }
  return nullptr;
}

}  // namespace
}  // namespace kiln::runtime::collective

#pragma clang attribute pop

namespace kiln::runtime::collective {

VectorReduce VectorReduceOf(v1::DType dtype, ReduceOp op) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) return nullptr;
  switch (dtype) {
    case v1::FLOAT16: return ReduceOf<HalfVector>(op);
    case v1::FLOAT8_E4M3: return ReduceOf<EightVector<v1::FLOAT8_E4M3>>(op);
    case v1::FLOAT8_E5M2: return ReduceOf<EightVector<v1::FLOAT8_E5M2>>(op);
    case v1::FLOAT8_E5M2_FNUZ: return ReduceOf<EightVector<v1::FLOAT8_E5M2_FNUZ>>(op);
    case v1::FLOAT8_E4M3_FNUZ: return ReduceOf<EightVector<v1::FLOAT8_E4M3_FNUZ>>(op);
    default: return nullptr;
  }
}

}  // namespace kiln::runtime::collective

#else

namespace kiln::runtime::collective {

VectorReduce VectorReduceOf(v1::DType, ReduceOp) { return nullptr; }

}  // namespace kiln::runtime::collective

#endif
