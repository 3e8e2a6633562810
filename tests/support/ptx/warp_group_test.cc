// wgmma on small whole numbers, which both formats and all sums hold exactly. How a matrix lies in shared memory, and
// a product in registers, is spelled out here as the PTX ISA has it.
#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tests/support/ptx/machine.h"

namespace kiln::testing::ptx {
namespace {

// The shared memory of a group comes from global memory; then four warps do `BODY`, and write their registers.
constexpr char kKernel[] = R"(
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry k(
	.param .u64 .ptr .global .align 16 k_param_0,
	.param .u64 .ptr .global .align 16 k_param_1,
	.param .u64 k_param_2,
	.param .u64 k_param_3,
	.param .u32 k_param_4
)
{
	.reg .pred 	%p<8>;
	.reg .b32 	%r<20>;
	.reg .b32 	%f<160>;
	.reg .b64 	%d<20>;
	ld.param.b64 	%d1, [k_param_0];
	ld.param.b64 	%d2, [k_param_1];
	ld.param.b64 	%d3, [k_param_2];
	ld.param.b64 	%d4, [k_param_3];
	ld.param.b32 	%r4, [k_param_4];
	mov.u32 	%r0, %tid.x;
	shl.b32 	%r1, %r0, 2;
$next:
	cvt.u64.u32 	%d5, %r1;
	add.s64 	%d6, %d2, %d5;
	ld.global.b32 	%r2, [%d6];
	mov.b32 	%r3, memory;
	add.s32 	%r3, %r3, %r1;
	st.shared.b32 	[%r3], %r2;
	add.s32 	%r1, %r1, 512;
	setp.lt.u32 	%p1, %r1, %r4;
	@%p1 bra 	$next;
	PROXY
	bar.sync 	0;
	setp.eq.b32 	%p2, %r0, %r0;
	setp.ne.b32 	%p3, %r0, %r0;
	BODY
	ret;
}
)";

uint16_t Bf16(int v) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(v)) >> 16); }
uint16_t F16(int v) {
  static constexpr uint16_t kValues[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
  return static_cast<uint16_t>(kValues[std::abs(v)] | (v < 0 ? 0x8000 : 0));
}
int AValue(int row, int k) { return (row * 3 + k * 5 + row * k % 7) % 9 - 4; }
int BValue(int k, int column) { return (column * 7 + k * 2 + column * k % 5) % 9 - 4; }
int CValue(int row, int column) { return (row * 2 + column) % 11 - 5; }

// Where the element is, in bytes from the beginning of its matrix: of a row (of A, or a column of B) and a depth.
using Layout = std::function<int(int row, int k)>;
struct Matrix {
  Layout place;
  int bytes;            // of it all
  uint64_t descriptor;  // without the address
  bool transposed = false;
};
constexpr uint64_t Descriptor(uint64_t leading, uint64_t stride, uint64_t swizzle) {
  return (leading >> 4) << 16 | (stride >> 4) << 32 | swizzle << 62;
}

// Rows of 64 along the depth, whose eight 16-byte pieces are XORed with the row; 16 of the 64 from `first` on.
Matrix Rows128(int rows, int first = 0) {
  return {[=](int row, int k) {
            const int column = first + k;
            return row * 128 + ((column / 8) ^ (row % 8)) * 16 + column % 8 * 2;
          },
          rows * 128, Descriptor(16, 1024, 1) + static_cast<uint64_t>(first * 2 >> 4)};
}
Matrix Rows64(int rows) {
  return {[=](int row, int k) { return row * 64 + ((k / 8) ^ (row / 2 % 4)) * 16 + k % 8 * 2; }, rows * 64,
          Descriptor(16, 512, 2)};
}
Matrix Rows32(int rows) {
  return {[=](int row, int k) { return row * 32 + ((k / 8) ^ (row / 4 % 2)) * 16 + k % 8 * 2; }, rows * 32,
          Descriptor(16, 256, 3)};
}
// Cores of 8 rows x 16 bytes, one after the other: first all of the lower half of the depth.
Matrix Cores(int rows) {
  return {[=](int row, int k) { return k / 8 * rows * 16 + row * 16 + k % 8 * 2; }, rows * 32,
          Descriptor(static_cast<uint64_t>(rows) * 16, 128, 0)};
}
// Along the rows' axis: 64 rows in each line of 128 bytes, a line for each depth; further 64 rows 16 lines on.
Matrix Lines128(int rows) {
  return {[=](int row, int k) { return row / 64 * 16 * 128 + k * 128 + ((row % 64 / 8) ^ (k % 8)) * 16 + row % 8 * 2; },
          rows / 64 * 16 * 128, Descriptor(16 * 128, 1024, 1), true};
}

struct Kernel {
  std::string body;
  std::string proxy = "fence.proxy.async.shared::cta;";
  uint32_t items = 128;
};

absl::Status RunKernel(const Kernel& kernel, std::vector<float>& out,
                       const std::vector<char>& memory = std::vector<char>(4096), uint64_t a = 0, uint64_t b = 0) {
  const auto module = Module::Parse(absl::StrReplaceAll(kKernel, {{"BODY", kernel.body}, {"PROXY", kernel.proxy}}));
  if (!module.ok()) return module.status();
  const auto out_address = reinterpret_cast<uint64_t>(out.data()), address = reinterpret_cast<uint64_t>(memory.data());
  const auto bytes = static_cast<uint32_t>(memory.size());
  LaunchShape shape;
  shape.items[0] = kernel.items;
  shape.dynamic_shared_bytes = bytes;
  return (*module)->Launch(*(*module)->Find("k"), shape, {&out_address, &address, &a, &b, &bytes},
                           {{out_address, 4 * out.size(), true}, {address, memory.size(), false}});
}

std::string Registers(int count) {
  std::vector<std::string> names;
  for (int n = 0; n < count; ++n) names.push_back(absl::StrCat("%f", n));
  return absl::StrCat("{", absl::StrJoin(names, ", "), "}");
}
// out[item][register]
std::string Stores(int count) {
  std::string body = absl::StrCat("	mad.wide.u32 %d10, %r0, ", 4 * count, ", %d1;\n");
  for (int n = 0; n < count; ++n) absl::StrAppend(&body, "	st.global.b32 [%d10+", 4 * n, "], %f", n, ";\n");
  return body;
}
std::string Loads(int count) {
  std::string body = absl::StrCat("	mad.wide.u32 %d10, %r0, ", 4 * count, ", %d1;\n");
  for (int n = 0; n < count; ++n) absl::StrAppend(&body, "	ld.global.b32 %f", n, ", [%d10+", 4 * n, "];\n");
  return body;
}

void Check(int columns, const Matrix& a, const Matrix& b, bool brain, bool adds, int sign_a = 1, int sign_b = 1) {
  const int b_begin = (a.bytes + 1023) / 1024 * 1024, each = columns / 2;
  std::vector<char> memory(static_cast<size_t>(b_begin + b.bytes));
  const auto put = [&](int at, int value) {
    const uint16_t bits = brain ? Bf16(value) : F16(value);
    std::memcpy(&memory[static_cast<size_t>(at)], &bits, 2);
  };
  for (int k = 0; k < 16; ++k) {
    for (int row = 0; row < 64; ++row) put(a.place(row, k), AValue(row, k));
    for (int column = 0; column < columns; ++column) put(b_begin + b.place(column, k), BValue(k, column));
  }
  // Warp w has rows 16 w and on; of each 8 columns a lane has two neighbours in row lane / 4 and in that 8 below.
  const auto place = [](int item, int n) {
    const int warp = item / 32, lane = item % 32;
    return std::pair{16 * warp + lane / 4 + (n % 4 < 2 ? 0 : 8), n / 4 * 8 + lane % 4 * 2 + n % 2};
  };
  std::vector<float> out(static_cast<size_t>(128 * each));
  for (int item = 0; item < 128; ++item) {
    for (int n = 0; n < each; ++n) {
      const auto [row, column] = place(item, n);
      out[static_cast<size_t>(item * each + n)] = static_cast<float>(CValue(row, column));
    }
  }
  const std::string type = brain ? "bf16" : "f16";
  const std::string body =
      absl::StrCat(Loads(each), "	wgmma.fence.sync.aligned;\n	wgmma.mma_async.sync.aligned.m64n", columns,
                   "k16.f32.", type, ".", type, " ", Registers(each), ", %d3, %d4, ", adds ? "%p2" : "%p3", ", ",
                   sign_a, ", ", sign_b, ", ", a.transposed ? 1 : 0, ", ", b.transposed ? 1 : 0,
                   ";\n	wgmma.commit_group.sync.aligned;\n	wgmma.wait_group.sync.aligned 0;\n", Stores(each));
  const absl::Status ran =
      RunKernel({body}, out, memory, a.descriptor, b.descriptor + static_cast<uint64_t>(b_begin >> 4));
  ASSERT_TRUE(ran.ok()) << ran;
  for (int item = 0; item < 128; ++item) {
    for (int n = 0; n < each; ++n) {
      const auto [row, column] = place(item, n);
      int want = adds ? CValue(row, column) : 0;
      for (int k = 0; k < 16; ++k) want += sign_a * AValue(row, k) * sign_b * BValue(k, column);
      ASSERT_EQ(out[static_cast<size_t>(item * each + n)], want) << row << ", " << column;
    }
  }
}

TEST(PtxWarpGroup, OfRowsAlongTheDepth) {
  Check(128, Rows128(64), Rows128(128), true, true);
  Check(256, Rows128(64, 32), Rows128(256, 48), true, false);
  Check(64, Rows64(64), Rows32(64), false, true);
  Check(8, Cores(64), Cores(8), false, true, -1, 1);
  Check(96, Rows128(64, 16), Rows64(96), true, true, -1, -1);
}

TEST(PtxWarpGroup, OfRowsAcrossTheDepth) {
  Check(128, Lines128(64), Lines128(128), true, true);
  Check(64, Rows128(64), Lines128(64), false, true);
  Check(256, Lines128(64), Rows128(256), true, false);
}

// One accumulator's registers, %f0 to %f3.
constexpr char kProduct[] =
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d3, %d4, %p2, 1, 1, 0, 0;";

TEST(PtxWarpGroup, ProductsFollowEachOtherAndAreWaitedForInOrder) {
  // 1 x 1, 16 deep: each product adds 16.
  std::vector<char> memory(4096);
  for (size_t n = 0; n < memory.size(); n += 2) {
    const uint16_t one = Bf16(1);
    std::memcpy(&memory[n], &one, 2);
  }
  const uint64_t cores = Descriptor(1024, 128, 0);
  std::vector<float> out(512);
  const std::string body = absl::StrCat(Loads(4), R"(
	wgmma.fence.sync.aligned;
	)",
                                        kProduct, "\n", kProduct, R"(
	wgmma.commit_group.sync.aligned;
	)",
                                        kProduct, R"(
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 1;
	wgmma.wait_group.sync.aligned 0;
	wgmma.fence.sync.aligned;
	)",
                                        kProduct, R"(
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
	setmaxnreg.inc.sync.aligned.u32 232;
)",
                                        Stores(4));
  const absl::Status ran = RunKernel({body}, out, memory, cores, cores);
  ASSERT_TRUE(ran.ok()) << ran;
  for (const float each : out) EXPECT_EQ(each, 64);
}

TEST(PtxWarpGroup, WhatIsWrongIsNamed) {
  std::vector<char> memory(4096);
  const uint64_t cores = Descriptor(1024, 128, 0);
  const auto failure = [&](const Kernel& kernel) {
    std::vector<float> out(512);
    return std::string(RunKernel(kernel, out, memory, cores, cores).message());
  };
  const std::string fence = "wgmma.fence.sync.aligned;\n", commit = "wgmma.commit_group.sync.aligned;\n",
                    wait = "wgmma.wait_group.sync.aligned 0;\n", zero = "mov.b32 %f0, 0;\n";
  const std::string right = absl::StrCat(fence, kProduct, commit, wait);
  EXPECT_EQ(failure({right}), "");
  EXPECT_TRUE(absl::StrContains(failure({absl::StrCat(kProduct, commit, wait)}), "no wgmma.fence came before"));
  EXPECT_TRUE(absl::StrContains(failure({absl::StrCat(right, zero, kProduct, commit, wait)}), "no wgmma.fence"));
  EXPECT_TRUE(absl::StrContains(failure({absl::StrCat(fence, kProduct, commit, zero, wait)}), "written before it was"));
  EXPECT_TRUE(absl::StrContains(failure({absl::StrCat(fence, kProduct, commit)}), "still under way"));
  EXPECT_TRUE(absl::StrContains(failure({absl::StrCat(fence, kProduct, wait)}), "still under way"));
  EXPECT_TRUE(absl::StrContains(failure({right, ""}), "no fence.proxy.async behind it"));
  EXPECT_TRUE(absl::StrContains(failure({right, "fence.proxy.async;", 96}), "four whole warps"));
  EXPECT_TRUE(absl::StrContains(failure({absl::StrCat("setp.eq.b32 %p4, %r0, 77; @%p4 exit;", right)}),
                                "item number 77, which has to take part, has ended"));
  EXPECT_TRUE(absl::StrContains(failure({absl::StrCat("cvt.u64.u32 %d9, %r0; add.s64 %d3, %d3, %d9;", right)}),
                                "descriptors or scales differ"));
  // Two products that share registers but not all.
  EXPECT_TRUE(absl::StrContains(
      failure({absl::StrCat(fence, kProduct, absl::StrReplaceAll(kProduct, {{"%f3", "%f4"}}), commit, wait)}),
      "some of the accumulators"));
  // Read too early: a NaN.
  std::vector<float> out(512);
  ASSERT_TRUE(RunKernel({absl::StrCat(fence, kProduct, commit, Stores(4), wait)}, out, memory, cores, cores).ok());
  EXPECT_NE(out[0], out[0]);
}

TEST(PtxWarpGroup, UnknownFormsAreRefused) {
  for (const char* text :
       {"wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3, %f4, %f5}, %d3, %d4, %p2, 1, 1, 0, "
        "0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.f16 {%f0, %f1, %f2, %f3}, %d3, %d4, %p2, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d3, %d4, %p2, 2, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2}, %d3, %d4, %p2, 1, 1, 0, 0;",
        "wgmma.wait_group.sync.aligned %r0;", "wgmma.rest.sync.aligned;", "setmaxnreg.inc.sync.aligned.u32 100;"}) {
    std::vector<float> out(512);
    EXPECT_EQ(RunKernel({text}, out).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace kiln::testing::ptx
