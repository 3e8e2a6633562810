// Boxes of tensors whose elements are their own numbers, and where each has to come.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/ptx/machine.h"
#include "tests/support/ptx/tensor_map.h"

namespace kiln::testing::ptx {
namespace {

// 32 items; item 0 asks for a box, all wait for it and write all of shared memory to the result, word by word.
constexpr char kKernel[] = R"(
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 box[];
.visible .entry k(
	.param .align 64 .b8 k_param_0[128],
	.param .u64 .ptr .global .align 4 k_param_1,
	.param .u32 k_param_2
)
{
	.reg .pred 	%p<8>;
	.reg .b32 	%r<20>;
	.reg .b64 	%d<20>;
	.shared .align 8 .b64 	barrier;
	mov.b64 	%d1, k_param_0;
	cvta.param.u64 	%d2, %d1;
	ld.param.b64 	%d3, [k_param_1];
	ld.param.b32 	%r9, [k_param_2];
	mov.u32 	%r0, %tid.x;
	setp.ne.b32 	%p1, %r0, 0;
	@%p1 bra 	$ready;
	mbarrier.init.shared.b64 	[barrier], 1;
	FENCE
	mov.b32 	%r1, X;
	mov.b32 	%r2, Y;
	mov.b32 	%r3, Z;
	mov.b32 	%r4, W;
	mov.b64 	%d4, box;
	mbarrier.arrive.expect_tx.shared.b64 	%d5, [barrier], %r9;
	cp.async.bulk.tensor.DIMSd.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%d4], [%d2, {AT}], [barrier];
$ready:
	bar.sync 	0;
	EARLY
$wait:
	mbarrier.try_wait.parity.shared.b64 	%p2, [barrier], 0;
	@!%p2 bra 	$wait;
	shl.b32 	%r5, %r0, 2;
$next:
	setp.ge.u32 	%p3, %r5, %r9;
	@%p3 bra 	$end;
	cvt.u64.u32 	%d6, %r5;
	mov.b32 	%r6, box;
	add.s32 	%r7, %r6, %r5;
	ld.shared.b32 	%r8, [%r7];
	add.s64 	%d7, %d3, %d6;
	st.global.b32 	[%d7], %r8;
	add.s32 	%r5, %r5, 128;
	bra.uni 	$next;
$end:
	ret;
}
)";

struct Request {
  TensorMap map;
  std::array<int, 5> at = {};
  std::string fence = "fence.mbarrier_init.release.cluster;", early;
  uint32_t expect = 0;  // bytes, if other than those of the box
};

uint32_t BytesOf(const TensorMap& map) {
  uint32_t bytes = map.element_bytes;
  for (uint32_t axis = 0; axis < map.rank; ++axis) bytes *= map.box[axis];
  return bytes;
}

absl::StatusOr<std::vector<char>> Box(const Request& request, const std::vector<char>& tensor) {
  std::string at = "%r1";
  for (uint32_t axis = 1; axis < request.map.rank; ++axis) absl::StrAppend(&at, ", %r", axis + 1);
  const std::string ptx = absl::StrReplaceAll(kKernel, {{"X;", absl::StrCat(request.at[0], ";")},
                                                        {"Y;", absl::StrCat(request.at[1], ";")},
                                                        {"Z;", absl::StrCat(request.at[2], ";")},
                                                        {"W;", absl::StrCat(request.at[3], ";")},
                                                        {"DIMS", absl::StrCat(request.map.rank)},
                                                        {"AT", at},
                                                        {"FENCE", request.fence},
                                                        {"EARLY", request.early}});
  const auto module = Module::Parse(ptx);
  if (!module.ok()) return module.status();
  alignas(64) char map[kTensorMapBytes];
  TensorMap of = request.map;
  of.address = reinterpret_cast<uint64_t>(tensor.data());
  if (!EncodeTensorMap(of, map)) return absl::UnknownError("the driver would refuse the map");
  const uint32_t bytes = request.expect != 0 ? request.expect : BytesOf(of);
  std::vector<char> out(BytesOf(of), 'x');
  const auto address = reinterpret_cast<uint64_t>(out.data());
  LaunchShape shape;
  shape.items[0] = 32;
  shape.dynamic_shared_bytes = 64 << 10;
  const absl::Status ran = (*module)->Launch(*(*module)->Find("k"), shape, {map, &address, &bytes},
                                             {{address, out.size(), true}, {of.address, tensor.size(), false}});
  if (!ran.ok()) return ran;
  return out;
}

// 16-bit elements that are their numbers plus 1; `allocated`: how many, at an address that the engine can read.
std::vector<char> Numbers(size_t allocated) {
  std::vector<char> tensor(2 * allocated);
  for (size_t n = 0; n < allocated; ++n) {
    const auto number = static_cast<uint16_t>(n + 1);
    std::memcpy(&tensor[2 * n], &number, 2);
  }
  return tensor;
}

uint16_t At(const std::vector<char>& bytes, size_t offset) {
  uint16_t value = 0;
  std::memcpy(&value, &bytes[offset], 2);
  return value;
}

// Where column `x` of row `y` of a box of rows as wide as the swizzle is, for each of the engine's modes.
size_t Place(size_t x, size_t y, uint32_t swizzle) {
  const size_t piece = x / 8, within = x % 8 * 2;
  switch (swizzle) {
    case 128: return y * 128 + (piece ^ y % 8) * 16 + within;
    case 64: return y * 64 + (piece ^ y / 2 % 4) * 16 + within;
    case 32: return y * 32 + (piece ^ y / 4 % 2) * 16 + within;
    default: return 0;
  }
}

TEST(PtxBulkCopies, SwizzledBoxesAndZerosOutside) {
  // 40 rows of 100 numbers, 104 apart.
  const std::vector<char> tensor = Numbers(104 * 40);
  for (const uint32_t swizzle : {32, 64, 128}) {
    const uint32_t width = swizzle / 2;
    for (const auto& [x0, y0] : {std::pair{0, 0}, {32, 8}, {90, 30}, {-5, -3}, {200, 0}, {0, 100}, {-1000, 5}}) {
      Request request;
      request.map = {0, 2, 2, {100, 40}, {208}, {width, 24}, swizzle};
      request.at = {x0, y0};
      const auto box = Box(request, tensor);
      ASSERT_TRUE(box.ok()) << box.status();
      for (int y = 0; y < 24; ++y) {
        for (int x = 0; x < static_cast<int>(width); ++x) {
          const int column = x0 + x, row = y0 + y;
          const bool inside = column >= 0 && column < 100 && row >= 0 && row < 40;
          const int want = inside ? 104 * row + column + 1 : 0;
          ASSERT_EQ(At(*box, Place(static_cast<size_t>(x), static_cast<size_t>(y), swizzle)), want)
              << swizzle << ": " << column << ", " << row;
        }
      }
    }
  }
}

TEST(PtxBulkCopies, BoxesOfOneToFourAxes) {
  const std::vector<char> tensor = Numbers(16 * 6 * 5 * 4);
  Request request;
  // 14 of 16 numbers, 6, 5 and 4 of them.
  request.map = {0, 2, 4, {14, 6, 5, 4}, {32, 192, 960}, {8, 2, 3, 2}, 0};
  request.at = {8, 5, 3, 1};
  const auto box = Box(request, tensor);
  ASSERT_TRUE(box.ok()) << box.status();
  size_t offset = 0;
  for (int w = 1; w < 3; ++w) {
    for (int z = 3; z < 6; ++z) {
      for (int y = 5; y < 7; ++y) {
        for (int x = 8; x < 16; ++x, offset += 2) {
          const bool inside = x < 14 && y < 6 && z < 5;
          EXPECT_EQ(At(*box, offset), inside ? ((w * 5 + z) * 6 + y) * 16 + x + 1 : 0);
        }
      }
    }
  }
  request.map = {0, 4, 1, {50}, {}, {8}, 0};
  request.at = {46};
  const auto row = Box(request, tensor);
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_EQ(At(*row, 12), 99);
  EXPECT_EQ(At(*row, 14), 100);
  EXPECT_EQ(At(*row, 16), 0);
}

TEST(PtxBulkCopies, WhatIsWrongIsNamed) {
  const std::vector<char> tensor = Numbers(104 * 40);
  Request right;
  right.map = {0, 2, 2, {100, 40}, {208}, {64, 24}, 128};
  EXPECT_TRUE(Box(right, tensor).ok());
  const auto failure = [&](const std::function<void(Request&)>& change) {
    Request request = right;
    change(request);
    return std::string(Box(request, tensor).status().message());
  };
  EXPECT_TRUE(absl::StrContains(failure([](Request& r) { r.fence = ""; }), "initialization was not fenced"));
  EXPECT_EQ(failure([](Request& r) { r.fence = "fence.proxy.async.shared::cta;"; }), "");
  // Who waits for more bytes than come waits for ever; nothing else does.
  const std::string stuck = failure([](Request& r) { r.expect = 4096; });
  EXPECT_TRUE(absl::StrContains(stuck, "waits for ever")) << stuck;
  EXPECT_TRUE(absl::StrContains(stuck, "32 at an mbarrier")) << stuck;
  // An ordinary store that the engine would race with.
  EXPECT_TRUE(absl::StrContains(failure([](Request& r) { r.fence += " st.shared.b32 [box], %r0;"; }),
                                "no fence.proxy.async behind it"));
  EXPECT_EQ(failure([](Request& r) { r.fence += " st.shared.b32 [box], %r0; fence.proxy.async;"; }), "");
  // A map of rows that are not there.
  EXPECT_TRUE(absl::StrContains(failure([](Request& r) { r.map.sizes[1] = 4000, r.at[1] = 39; }), "are not there"));
  // Who ends while a box is under way.
  EXPECT_TRUE(absl::StrContains(failure([](Request& r) { r.early = "exit;"; }), "a copy is still under way"));
  // Read too early: nobody has waited, and the box is not there.
  EXPECT_EQ(failure([](Request& r) { r.early = "ld.shared.b32 %r8, [box+4000];"; }), "");
}

TEST(PtxBulkCopies, MapsThatTheDriverRefuses) {
  const TensorMap right = {64, 2, 3, {100, 40, 2}, {208, 8320}, {64, 24, 1}, 128};
  char map[kTensorMapBytes];
  EXPECT_TRUE(EncodeTensorMap(right, map));
  EXPECT_EQ(DecodeTensorMap(map)->strides[1], 8320u);
  EXPECT_FALSE(DecodeTensorMap(std::array<char, kTensorMapBytes>{}.data()).has_value());
  const std::function<void(TensorMap&)> changes[] = {[](TensorMap& m) { m.address = 8; },
                                                     [](TensorMap& m) { m.rank = 0; },
                                                     [](TensorMap& m) { m.rank = 6; },
                                                     [](TensorMap& m) { m.sizes[1] = 0; },
                                                     [](TensorMap& m) { m.sizes[0] = 1ul << 33; },
                                                     [](TensorMap& m) { m.strides[0] = 200; },
                                                     [](TensorMap& m) { m.strides[1] = 1ul << 40; },
                                                     [](TensorMap& m) { m.box[1] = 257; },
                                                     [](TensorMap& m) { m.box[2] = 0; },
                                                     [](TensorMap& m) { m.box[0] = 72; },
                                                     [](TensorMap& m) { m.box[0] = 4; },
                                                     [](TensorMap& m) { m.swizzle_bytes = 48; }};
  for (const auto& change : changes) {
    TensorMap wrong = right;
    change(wrong);
    EXPECT_FALSE(EncodeTensorMap(wrong, map)) << &change - changes;
  }
}

}  // namespace
}  // namespace kiln::testing::ptx
