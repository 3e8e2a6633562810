// MFMA of CDNA and WMMA of RDNA, after the layouts in AMD's ISA documents: of each element, whose register of which
// number it is. Sums are as exact as a double is, and rounded once; those of float64 at every step.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/float_bits.h"
#include "tests/support/amd/wave_ops.h"

namespace kiln::testing::amd {
namespace {

struct Half {
  uint16_t bits;
  explicit operator double() const { return BitsToFloat(v1::FLOAT16, bits); }
};
struct Brain {
  uint16_t bits;
  explicit operator double() const { return BitsToFloat(v1::BFLOAT16, bits); }
};
template <v1::DType kFormat>
struct Byte {
  uint8_t bits;
  explicit operator double() const { return BitsToFloat(kFormat, bits); }
};

template <typename T>
T ElementAt(const void* fragment, int i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(fragment) + sizeof(T) * static_cast<size_t>(i), sizeof(T));
  return value;
}

template <int kSize, int kDepth>
struct Matrices {
  double a[kSize][kDepth], b[kDepth][kSize], c[kSize][kSize];

  void Multiply() {
    for (int row = 0; row < kSize; ++row) {
      for (int column = 0; column < kSize; ++column) {
        for (int k = 0; k < kDepth; ++k) c[row][column] = std::fma(a[row][k], b[k][column], c[row][column]);
      }
    }
  }
};

// Integers wrap around.
template <typename Out>
Out Rounded(double sum) {
  if constexpr (std::is_integral_v<Out>) return static_cast<Out>(static_cast<int64_t>(sum));
  return static_cast<Out>(sum);
}

// Reads the sums of all lanes, multiplies, and writes them: `row` of lane and register, and the column.
template <typename Out, int kSize, int kDepth, typename Row>
void MultiplyInto(absl::Span<const WaveLane> lanes, Matrices<kSize, kDepth>& m, int sum_operand, Row row) {
  const int registers = kSize * kSize / static_cast<int>(lanes.size());
  for (int lane = 0; lane < static_cast<int>(lanes.size()); ++lane) {
    const void* sums = lanes[static_cast<size_t>(lane)].operands[sum_operand];
    for (int i = 0; i < registers; ++i) m.c[row(lane, i)][lane % kSize] = static_cast<double>(ElementAt<Out>(sums, i));
  }
  m.Multiply();
  for (int lane = 0; lane < static_cast<int>(lanes.size()); ++lane) {
    auto* result = static_cast<char*>(lanes[static_cast<size_t>(lane)].result);
    for (int i = 0; i < registers; ++i) {
      const Out value = Rounded<Out>(m.c[row(lane, i)][lane % kSize]);
      std::memcpy(result + sizeof(Out) * static_cast<size_t>(i), &value, sizeof(value));
    }
  }
}

// A wave that is not whole: AMD's instructions take its values from whatever the registers hold.
bool Whole(absl::Span<const WaveLane> lanes) {
  return std::all_of(lanes.begin(), lanes.end(), [](const WaveLane& lane) { return lane.result != nullptr; });
}

// V_MFMA: lane l has row l % size of A and that column of B; of k, lanes of one row have neighbours each.
template <typename In, typename Out, int kSize, int kDepth>
void Mfma(absl::Span<const WaveLane> lanes) {
  if (!Whole(lanes)) return;
  Matrices<kSize, kDepth> m;
  constexpr int kHeld = kSize * kDepth / 64;
  for (int lane = 0; lane < 64; ++lane) {
    const auto& operands = lanes[static_cast<size_t>(lane)].operands;
    for (int i = 0; i < kHeld; ++i) {
      m.a[lane % kSize][lane / kSize * kHeld + i] = static_cast<double>(ElementAt<In>(operands[0], i));
      m.b[lane / kSize * kHeld + i][lane % kSize] = static_cast<double>(ElementAt<In>(operands[1], i));
    }
  }
  MultiplyInto<Out>(lanes, m, 2, [](int lane, int i) {
    if constexpr (std::is_same_v<Out, double>) return 4 * i + lane / 16;
    return kSize == 32 ? 8 * (i / 4) + 4 * (lane / 32) + i % 4 : 4 * (lane / 16) + i;
  });
}

// V_WMMA 16x16x16 of factors in operands `a` and `b`. RDNA4: lanes l and l + 16 have half of row l each, the sums'
// rows follow each other. RDNA3: both have all of it (and must have the same), and of the sums' rows every other.
template <typename In, typename Out, bool kTwice>
void WmmaOf(absl::Span<const WaveLane> lanes, int a, int b, int c) {
  if (!Whole(lanes)) return;
  Matrices<16, 16> m;
  for (int lane = 0; lane < 32; ++lane) {
    const auto& operands = lanes[static_cast<size_t>(lane)].operands;
    for (int i = 0; i < (kTwice ? 16 : 8); ++i) {
      const int k = kTwice ? i : 8 * (lane / 16) + i;
      const auto left = static_cast<double>(ElementAt<In>(operands[a], i));
      const auto right = static_cast<double>(ElementAt<In>(operands[b], i));
      const bool second = kTwice && lane >= 16;
      m.a[lane % 16][k] = second && m.a[lane % 16][k] != left ? NAN : left;
      m.b[k][lane % 16] = second && m.b[k][lane % 16] != right ? NAN : right;
    }
  }
  MultiplyInto<Out>(lanes, m, c, [](int lane, int i) { return kTwice ? 2 * i + lane / 16 : 8 * (lane / 16) + i; });
}

template <typename In, bool kTwice>
void Wmma(absl::Span<const WaveLane> lanes) {
  WmmaOf<In, float, kTwice>(lanes, 0, 1, 2);
}

// Operands: whether A is signed, A, whether B is signed, B, the sums, whether they saturate. All lanes have the same
// flags; Kiln's factors are alike, and its sums wrap around.
template <bool kTwice>
void WmmaBytes(absl::Span<const WaveLane> lanes) {
  if (!Whole(lanes)) return;
  const void* const* operands = lanes[0].operands;
  if (ElementAt<uint8_t>(operands[0], 0) != ElementAt<uint8_t>(operands[2], 0) || ElementAt<uint8_t>(operands[5], 0))
    return;
  if (ElementAt<uint8_t>(operands[0], 0) != 0) {
    WmmaOf<int8_t, int32_t, kTwice>(lanes, 1, 3, 4);
  } else {
    WmmaOf<uint8_t, int32_t, kTwice>(lanes, 1, 3, 4);
  }
}

constexpr WaveOp kOps[] = {
    {"llvm.amdgcn.mfma.f32.16x16x16f16", Mfma<Half, float, 16, 16>},
    {"llvm.amdgcn.mfma.f32.32x32x8f16", Mfma<Half, float, 32, 8>},
    {"llvm.amdgcn.mfma.f32.16x16x16bf16.1k", Mfma<Brain, float, 16, 16>},
    {"llvm.amdgcn.mfma.f32.32x32x8bf16.1k", Mfma<Brain, float, 32, 8>},
    {"llvm.amdgcn.mfma.i32.16x16x16i8", Mfma<int8_t, int32_t, 16, 16>},
    {"llvm.amdgcn.mfma.i32.32x32x8i8", Mfma<int8_t, int32_t, 32, 8>},
    {"llvm.amdgcn.mfma.i32.16x16x32.i8", Mfma<int8_t, int32_t, 16, 32>},
    {"llvm.amdgcn.mfma.i32.32x32x16.i8", Mfma<int8_t, int32_t, 32, 16>},
    {"llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", Mfma<Byte<v1::FLOAT8_E4M3_FNUZ>, float, 16, 32>},
    {"llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8", Mfma<Byte<v1::FLOAT8_E5M2_FNUZ>, float, 16, 32>},
    {"llvm.amdgcn.mfma.f32.32x32x16.fp8.fp8", Mfma<Byte<v1::FLOAT8_E4M3_FNUZ>, float, 32, 16>},
    {"llvm.amdgcn.mfma.f32.32x32x16.bf8.bf8", Mfma<Byte<v1::FLOAT8_E5M2_FNUZ>, float, 32, 16>},
    {"llvm.amdgcn.mfma.f32.16x16x4f32", Mfma<float, float, 16, 4>},
    {"llvm.amdgcn.mfma.f32.32x32x2f32", Mfma<float, float, 32, 2>},
    {"llvm.amdgcn.mfma.f64.16x16x4f64", Mfma<double, double, 16, 4>},
    {"llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16", Wmma<Half, true>},
    {"llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v16i16", Wmma<Brain, true>},
    {"llvm.amdgcn.wmma.i32.16x16x16.iu8.v8i32.v4i32", WmmaBytes<true>},
    {"llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v8f16", Wmma<Half, false>},
    {"llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v8i16", Wmma<Brain, false>},
    {"llvm.amdgcn.wmma.i32.16x16x16.iu8.v8i32.v2i32", WmmaBytes<false>},
    {"llvm.amdgcn.wmma.f32.16x16x16.fp8.fp8.v8f32.v2i32", Wmma<Byte<v1::FLOAT8_E4M3>, false>},
    {"llvm.amdgcn.wmma.f32.16x16x16.bf8.bf8.v8f32.v2i32", Wmma<Byte<v1::FLOAT8_E5M2>, false>},
};

}  // namespace

absl::Span<const WaveOp> MatrixOps() { return kOps; }

}  // namespace kiln::testing::amd
