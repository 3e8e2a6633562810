// Each shape with small whole numbers, which every format holds exactly. Fragments are laid out by the
// formulas that the PTX ISA gives for each shape, spelled out one by one.
#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/ptx/evaluate.h"

namespace kiln::testing::ptx {
namespace {

using Place = std::pair<int, int>;                     // row and column
using Layout = std::function<Place(int lane, int i)>;  // of element i of a lane
using Encode = uint64_t (*)(int value);

uint64_t F16(int v) {
  static constexpr uint16_t kValues[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
  return kValues[std::abs(v)] | (v < 0 ? 0x8000 : 0);
}
uint64_t F32(int v) { return std::bit_cast<uint32_t>(static_cast<float>(v)); }
uint64_t Bf16(int v) { return F32(v) >> 16; }
uint64_t F64(int v) { return std::bit_cast<uint64_t>(static_cast<double>(v)); }
uint64_t S8(int v) { return static_cast<uint8_t>(v); }
uint64_t E4m3(int v) {
  static constexpr uint8_t kValues[] = {0, 0x38, 0x40, 0x44, 0x48};
  return kValues[std::abs(v)] | (v < 0 ? 0x80U : 0U);
}
uint64_t E5m2(int v) { return F16(v) >> 8; }
uint64_t S32(int v) { return static_cast<uint32_t>(v); }

struct Matrix {
  Encode encode;
  int bits, registers;
  Layout place;
};

Layout RowsOfEight(int columns) {  // c of m8n8
  return [columns](int lane, int i) { return Place{lane / 4, lane % 4 * columns + i}; };
}
Place C16(int lane, int i) { return {lane / 4 + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)}; }

void Check(const std::string& opcode, int m, int k, const Matrix& a, const Matrix& b, const Matrix& c) {
  SCOPED_TRACE(opcode);
  std::vector<std::vector<int>> a_values(16, std::vector<int>(32)), b_values(32, std::vector<int>(8)),
      c_values(16, std::vector<int>(8)), want = c_values;
  for (int row = 0; row < m; ++row) {
    for (int n = 0; n < k; ++n) a_values[row][n] = (row * 5 + n * 3) % 7 - 3;
  }
  for (int n = 0; n < k; ++n) {
    for (int column = 0; column < 8; ++column) b_values[n][column] = (n * 7 + column * 2) % 9 - 4;
  }
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < 8; ++column) {
      want[row][column] = c_values[row][column] = (row + column) % 4;
      for (int n = 0; n < k; ++n) want[row][column] += a_values[row][n] * b_values[n][column];
    }
  }
  // Everything in 64 bits a register: lane, then registers of a, b and c.
  const int registers = a.registers + b.registers + c.registers;
  std::vector<uint32_t> in(static_cast<size_t>(32 * registers * 2));
  const auto put = [&](const Matrix& matrix, int first, const std::vector<std::vector<int>>& values) {
    const int width = matrix.bits == 64 ? 64 : 32, each = width / matrix.bits;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < matrix.registers * each; ++i) {
        const auto [row, column] = matrix.place(lane, i);
        const uint64_t bits = matrix.encode(values[row][column]) << (matrix.bits % 64 * (i % each));
        uint32_t* const at = &in[static_cast<size_t>((lane * registers + first + i / each) * 2)];
        at[0] |= static_cast<uint32_t>(bits);
        at[1] |= static_cast<uint32_t>(bits >> 32);
      }
    }
  };
  put(a, 0, a_values);
  put(b, a.registers, b_values);
  put(c, a.registers + b.registers, c_values);

  std::string body = absl::StrCat("	mad.wide.u32 %d20, %r0, ", registers * 8, ", %in;\n");
  int next = 1;
  const auto list = [&](const Matrix& matrix, bool load) {
    std::vector<std::string> names;
    for (int n = 0; n < matrix.registers; ++n, ++next) {
      names.push_back(absl::StrCat(matrix.bits == 64 ? "%d" : "%r", next));
      if (load)
        absl::StrAppend(&body, "	ld.global.b", matrix.bits == 64 ? 64 : 32, " ", names.back(), ", [%d20+",
                        8 * (next - 1), "];\n");
    }
    return absl::StrCat("{", absl::StrJoin(names, ", "), "}");
  };
  const std::string a_list = list(a, true), b_list = list(b, true), c_list = list(c, true);
  next = 21 + (c.bits == 64 ? 1 : 0);
  const int first = next;
  const std::string d_list = list(c, false);
  absl::StrAppend(&body, "	", opcode, " ", d_list, ", ", a_list, ", ", b_list, ", ", c_list,
                  ";\n	mad.wide.u32 %d21, %r0, ", 8 * c.registers, ", %out;\n");
  for (int n = 0; n < c.registers; ++n)
    absl::StrAppend(&body, "	st.global.b", c.bits == 64 ? 64 : 32, " [%d21+", 8 * n, "], ",
                    c.bits == 64 ? "%d" : "%r", first + n, ";\n");
  std::vector<uint32_t> out(static_cast<size_t>(32 * 2 * c.registers));
  const absl::Status ran = RunBody(body, 32, out, in);
  ASSERT_TRUE(ran.ok()) << ran;
  const int each = (c.bits == 64 ? 64 : 32) / c.bits;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < c.registers * each; ++i) {
      const auto [row, column] = c.place(lane, i);
      const size_t at = static_cast<size_t>((lane * c.registers + i / each) * 2);
      const uint64_t whole = uint64_t{out[at + 1]} << 32 | out[at];
      const uint64_t mask = c.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << c.bits) - 1;
      if (c.bits == 16) {
        // Sums are beyond F16's table above; they are whole numbers below 2048.
        const auto half = static_cast<uint16_t>(whole >> (16 * (i % 2)));
        const int exponent = (half >> 10 & 31) - 25, mantissa = (half & 1023) | 1024;
        const double value = half << 1 == 0 ? 0 : std::ldexp(half >> 15 ? -mantissa : mantissa, exponent);
        EXPECT_EQ(value, want[row][column]) << row << ", " << column;
      } else {
        EXPECT_EQ(whole & mask, c.encode(want[row][column])) << row << ", " << column;
      }
    }
  }
}

TEST(PtxMma, Halves) {
  const Layout a16 = [](int lane, int i) {
    const bool upper = (0 <= i && i < 2) || (4 <= i && i < 6);
    return Place{lane / 4 + (upper ? 0 : 8), lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8)};
  };
  const Layout b16 = [](int lane, int i) { return Place{lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8), lane / 4}; };
  const Layout a8 = [](int lane, int i) { return Place{lane / 4 + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)}; };
  const Layout b8 = [](int lane, int i) { return Place{lane % 4 * 2 + i, lane / 4}; };
  Check("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, {Bf16, 16, 4, a16}, {Bf16, 16, 2, b16},
        {F32, 32, 4, C16});
  Check("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 16, {F16, 16, 4, a16}, {F16, 16, 2, b16},
        {F32, 32, 4, C16});
  Check("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, 16, {F16, 16, 4, a16}, {F16, 16, 2, b16},
        {F16, 16, 2, C16});
  Check("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, {Bf16, 16, 2, a8}, {Bf16, 16, 1, b8},
        {F32, 32, 4, C16});
}

TEST(PtxMma, Tf32) {
  Check("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 16, 4,
        {F32, 32, 2, [](int lane, int i) { return Place{lane / 4 + (i == 0 ? 0 : 8), lane % 4}; }},
        {F32, 32, 1, [](int lane, int) { return Place{lane % 4, lane / 4}; }}, {F32, 32, 4, C16});
  Check("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8,
        {F32, 32, 4,
         [](int lane, int i) { return Place{lane / 4 + (i == 0 || i == 2 ? 0 : 8), lane % 4 + (i < 2 ? 0 : 4)}; }},
        {F32, 32, 2, [](int lane, int i) { return Place{lane % 4 + (i == 0 ? 0 : 4), lane / 4}; }}, {F32, 32, 4, C16});
}

TEST(PtxMma, Bytes) {
  const Layout a16 = [](int lane, int i) { return Place{lane / 4 + (i < 4 ? 0 : 8), lane % 4 * 4 + (i & 3)}; };
  const Layout b16 = [](int lane, int i) { return Place{lane % 4 * 4 + (i & 3), lane / 4}; };
  const Layout a32 = [](int lane, int i) {
    const bool upper = (0 <= i && i < 4) || (8 <= i && i < 12);
    return Place{lane / 4 + (upper ? 0 : 8), lane % 4 * 4 + (i & 3) + (i < 8 ? 0 : 16)};
  };
  const Layout b32 = [](int lane, int i) { return Place{lane % 4 * 4 + (i & 3) + (i < 4 ? 0 : 16), lane / 4}; };
  Check("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 16, 16, {S8, 8, 2, a16}, {S8, 8, 1, b16}, {S32, 32, 4, C16});
  Check("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32", 16, 32, {S8, 8, 4, a32}, {S8, 8, 2, b32},
        {S32, 32, 4, C16});
  Check("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", 8, 16, {S8, 8, 1, RowsOfEight(4)},
        {S8, 8, 1, [](int lane, int i) { return Place{lane % 4 * 4 + i, lane / 4}; }}, {S32, 32, 2, RowsOfEight(2)});
  Check("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 32, {E4m3, 8, 4, a32}, {E4m3, 8, 2, b32},
        {F32, 32, 4, C16});
  Check("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e5m2.e4m3.f32", 16, 32, {E5m2, 8, 4, a32},
        {E4m3, 8, 2, b32}, {F32, 32, 4, C16});
}

TEST(PtxMma, Doubles) {
  Check("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 8, 4, {F64, 64, 1, RowsOfEight(1)},
        {F64, 64, 1, [](int lane, int) { return Place{lane % 4, lane / 4}; }}, {F64, 64, 2, RowsOfEight(2)});
  Check("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64", 16, 8,
        {F64, 64, 4, [](int lane, int i) { return Place{lane / 4 + 8 * (i % 2), lane % 4 + (i < 2 ? 0 : 4)}; }},
        {F64, 64, 2, [](int lane, int i) { return Place{lane % 4 + 4 * i, lane / 4}; }}, {F64, 64, 4, C16});
}

// Shared memory holds halves 0 to 255, 8 of a row.
constexpr char kFill[] = R"(
	mul.lo.s32 	%r1, %r0, 16;
	mov.b32 	%r2, memory;
	add.s32 	%r3, %r2, %r1;
	mul.lo.s32 	%r4, %r0, 0x80008;
	add.s32 	%r5, %r4, 0x10000;
	add.s32 	%r6, %r4, 0x30002;
	add.s32 	%r7, %r4, 0x50004;
	add.s32 	%r8, %r4, 0x70006;
	st.shared.v4.b32 	[%r3], {%r5, %r6, %r7, %r8};
	bar.sync 	0;)";
constexpr char kStore[] = R"(
	mul.wide.u32 	%d20, %r0, 16;
	add.s64 	%d21, %out, %d20;
	st.global.v4.b32 	[%d21], {%r20, %r21, %r22, %r23};)";

TEST(PtxMma, Ldmatrix) {
  std::vector<uint32_t> out(128);
  ASSERT_TRUE(RunBody(absl::StrCat(kFill, "\tldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r3];",
                                   kStore),
                      32, out)
                  .ok());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t low = 64 * m + lane / 4 * 8 + lane % 4 * 2;
      EXPECT_EQ(out[4 * lane + m], (low + 1) << 16 | low);
    }
  }
  ASSERT_TRUE(
      RunBody(absl::StrCat(kFill, "\tldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r20, %r21}, [%r3];", kStore), 32,
              out)
          .ok());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t m = 0; m < 2; ++m) {
      const uint32_t low = 64 * m + lane % 4 * 2 * 8 + lane / 4;
      EXPECT_EQ(out[4 * lane + m], (low + 8) << 16 | low);
    }
  }
}

TEST(PtxMma, StmatrixIsItsInverse) {
  std::vector<uint32_t> out(128);
  const absl::Status ran = RunBody(absl::StrCat(kFill, R"(
	ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r20, %r21, %r22, %r23}, [%r3];
	stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r3+512], {%r20, %r21, %r22, %r23};
	bar.sync 	0;
	ld.shared.v4.b32 	{%r20, %r21, %r22, %r23}, [%r3+512];)",
                                                kStore),
                                   32, out);
  ASSERT_TRUE(ran.ok()) << ran;
  for (uint32_t n = 0; n < 128; ++n) EXPECT_EQ(out[n], (2 * n + 1) << 16 | 2 * n);
}

TEST(PtxMma, UnknownShapesAreRefused) {
  for (const char* opcode :
       {"mma.sync.aligned.m16n8k64.row.col.f32.bf16.bf16.f32", "mma.sync.aligned.m16n8k16.col.row.f32.bf16.bf16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16", "mma.sync.aligned.m16n8k16.row.col.f32.q8.q8.f32"}) {
    std::vector<uint32_t> out(1);
    EXPECT_EQ(RunBody(absl::StrCat("	", opcode, " %r1, %r2, %r3, %r4;"), 32, out).code(),
              absl::StatusCode::kInvalidArgument)
        << opcode;
  }
}

}  // namespace
}  // namespace kiln::testing::ptx
