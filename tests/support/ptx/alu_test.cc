#include <gtest/gtest.h>

#include <bit>

#include "absl/strings/match.h"
#include "tests/support/ptx/evaluate.h"

namespace kiln::testing::ptx {
namespace {

Value F(float value) { return {32, std::bit_cast<uint32_t>(value)}; }
Value D(double value) { return {64, std::bit_cast<uint64_t>(value)}; }
Value P(bool value) { return {1, value ? 1U : 0U}; }
Value H(uint64_t bits) { return {16, bits}; }
Value W(uint64_t bits) { return {32, bits & 0xffffffff}; }
Value L(uint64_t bits) { return {64, bits}; }
constexpr uint64_t kMinus = ~uint64_t{0};  // and down from there

struct Row {
  const char* opcode;
  std::vector<Value> sources;
  Value want;
};

void Check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.opcode);
    const auto got = Evaluate(row.opcode, row.want.bits, row.sources);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, row.want.value) << std::hex << *got << " and not " << row.want.value;
  }
}

TEST(PtxAlu, IntegersWrapAndSaturate) {
  Check({
      {"add.s32", {W(0x7fffffff), W(1)}, W(0x80000000)},
      {"add.sat.s32", {W(0x7fffffff), W(1)}, W(0x7fffffff)},
      {"sub.sat.s32", {W(0x80000000), W(1)}, W(0x80000000)},
      {"sub.s16", {H(0), H(1)}, H(0xffff)},
      {"add.s64", {L(kMinus), L(2)}, L(1)},
      {"add.s16x2", {W(0x0001ffff), W(0x00020001)}, W(0x00030000)},
      {"max.s16x2", {W(0x0001ffff), W(0x00020001)}, W(0x00020001)},
      {"mul.lo.s32", {W(kMinus - 2), W(7)}, W(kMinus - 20)},
      {"mul.hi.s32", {W(kMinus), W(7)}, W(kMinus)},
      {"mul.hi.u32", {W(kMinus), W(7)}, W(6)},
      {"mul.hi.u64", {L(kMinus), L(kMinus)}, L(kMinus - 1)},
      {"mul.hi.s64", {L(kMinus), L(5)}, L(kMinus)},
      {"mul.wide.s32", {W(kMinus), W(7)}, L(kMinus - 6)},
      {"mul.wide.u32", {W(kMinus), W(2)}, L(0x1fffffffe)},
      {"mul.wide.s16", {H(0xffff), H(3)}, W(kMinus - 2)},
      {"mul.lo.s16", {H(0xffff), H(3)}, H(0xfffd)},
      {"mad.lo.s32", {W(3), W(4), W(5)}, W(17)},
      {"mad.wide.u32", {W(kMinus), W(2), L(2)}, L(0x200000000)},
      {"div.s32", {W(kMinus - 6), W(2)}, W(kMinus - 2)},
      {"div.s32", {W(0x80000000), W(kMinus)}, W(0x80000000)},
      {"div.u32", {W(7), W(0)}, W(kMinus)},
      {"rem.s32", {W(kMinus - 6), W(2)}, W(kMinus)},
      {"rem.s64", {L(uint64_t{1} << 63), L(kMinus)}, L(0)},
      {"min.s32", {W(kMinus), W(1)}, W(kMinus)},
      {"min.u32", {W(kMinus), W(1)}, W(1)},
      {"max.s16", {H(0x8000), H(1)}, H(1)},
      {"abs.s32", {W(kMinus - 4)}, W(5)},
      {"neg.s64", {L(5)}, L(kMinus - 4)},
      {"sad.u32", {W(3), W(10), W(1)}, W(8)},
      {"dp4a.s32.s32", {W(0xff02ff02), W(0x01030204), W(10)}, W(10 - 1 + 6 - 2 + 8)},
      {"dp2a.lo.s32.s32", {W(0xfffe0003), W(0x01fd0204), W(10)}, W(18)},
      {"dp2a.hi.s32.s32", {W(0xfffe0003), W(0x01fd0204), W(10)}, W(0xffffffff)},
      {"dp2a.lo.u32.u32", {W(0xfffe0003), W(0x01fd0204), W(10)}, W(10 + 12 + 2 * 0xfffe)},
  });
}

TEST(PtxAlu, Bits) {
  Check({
      {"and.b32", {W(12), W(10)}, W(8)},
      {"or.b64", {L(12), L(10)}, L(14)},
      {"xor.b16", {H(12), H(10)}, H(6)},
      {"not.b16", {H(0)}, H(0xffff)},
      {"and.pred", {P(true), P(false)}, P(false)},
      {"xor.pred", {P(true), P(false)}, P(true)},
      {"not.pred", {P(true)}, P(false)},
      {"shl.b32", {W(1), W(31)}, W(0x80000000)},
      {"shl.b32", {W(1), W(32)}, W(0)},
      {"shr.u32", {W(0x80000000), W(40)}, W(0)},
      {"shr.s32", {W(0x80000000), W(40)}, W(kMinus)},
      {"shr.s16", {H(0x8000), W(3)}, H(0xf000)},
      {"shr.s64", {L(uint64_t{1} << 63), W(63)}, L(kMinus)},
      {"shf.l.wrap.b32", {W(0x80000000), W(1), W(33)}, W(3)},
      {"shf.r.wrap.b32", {W(0x10), W(3), W(4)}, W(0x30000001)},
      {"shf.r.clamp.b32", {W(0x10), W(3), W(33)}, W(3)},
      {"bfe.u32", {W(0xabcd), W(4), W(8)}, W(0xbc)},
      {"bfe.s32", {W(0xabcd), W(4), W(8)}, W(kMinus - 0x43)},
      {"bfe.s32", {W(0x80000000), W(28), W(8)}, W(kMinus - 7)},
      {"bfe.u64", {L(0xabcd00000000), W(36), W(8)}, L(0xbc)},
      {"bfi.b32", {W(0xff), W(0), W(4), W(4)}, W(0xf0)},
      {"prmt.b32", {W(0x33221100), W(0x77665544), W(0x7310)}, W(0x77331100)},
      {"prmt.b32", {W(0x33228000), W(0), W(0x9999)}, W(kMinus)},
      {"lop3.b32", {W(0xf0), W(0xcc), W(0xaa), W(0xe8)}, W(0xe8)},
      {"popc.b64", {L(kMinus)}, W(64)},
      {"clz.b32", {W(1)}, W(31)},
      {"clz.b64", {L(0)}, W(64)},
      {"brev.b32", {W(1)}, W(0x80000000)},
      {"bfind.u32", {W(0x100)}, W(8)},
      {"bfind.s32", {W(kMinus)}, W(kMinus)},
      {"bfind.shiftamt.u32", {W(0x100)}, W(23)},
  });
}

TEST(PtxAlu, FloatsAreRoundedOnceAndNanIsOne) {
  const Value nan = W(0x7fffffff), tiny = W(1);
  Check({
      {"add.rn.f32", {F(1), F(0x1p-24F)}, F(1)},
      {"add.rn.f32x2", {L(0x3f80000040000000), L(0x3f8000003f800000)}, L(0x4000000040400000)},
      {"fma.rn.f32x2", {L(0x3f80000040000000), L(0x4000000040000000), L(0)}, L(0x4000000040800000)},
      {"add.rn.f32.f16", {H(0x3c00), F(0.5F)}, F(1.5F)},
      {"add.f32", {F(1), F(0x1.8p-24F)}, F(0x1.000002p0F)},
      {"mul.f32", {F(0x1p-100F), F(0x1p-49F)}, tiny},
      {"mul.ftz.f32", {F(0x1p-100F), F(0x1p-49F)}, F(0)},
      {"add.ftz.f32", {tiny, tiny}, F(0)},
      {"add.f32", {tiny, tiny}, W(2)},
      {"fma.rn.f32", {F(0x1.000002p0F), F(0x1.000002p0F), F(-0x1.000004p0F)}, F(0x1p-46F)},
      {"fma.rn.f64", {D(0x1.0000000000001p0), D(0x1.0000000000001p0), D(-0x1.0000000000002p0)}, D(0x1p-104)},
      {"div.rn.f32", {F(1), F(3)}, F(0x1.555556p-2F)},
      {"rcp.rn.f64", {D(3)}, D(0x1.5555555555555p-2)},
      {"sqrt.rn.f32", {F(2)}, F(0x1.6a09e6p0F)},
      {"sqrt.rn.f32", {F(-1)}, nan},
      {"sub.f32", {W(0x7f800000), W(0x7f800000)}, nan},
      {"add.sat.f32", {F(1), F(2)}, F(1)},
      {"min.f32", {nan, F(2)}, F(2)},
      {"min.NaN.f32", {nan, F(2)}, nan},
      {"max.f32", {F(-0.0F), F(0)}, F(0)},
      {"min.f32", {F(0), F(-0.0F)}, F(-0.0F)},
      {"max.f64", {D(1), D(2)}, D(2)},
      {"neg.f32", {F(0)}, F(-0.0F)},
      {"abs.f64", {D(-3)}, D(3)},
      {"copysign.f32", {F(-1), F(5)}, F(-5)},
      {"ex2.approx.ftz.f32", {F(3)}, F(8)},
      {"lg2.approx.f32", {F(8)}, F(3)},
      {"testp.subnormal.f32", {tiny}, P(true)},
  });
}

TEST(PtxAlu, HalvesAreRoundedOnce) {
  Check({
      {"add.f16", {H(0x3c00), H(0x1000)}, H(0x3c00)},                // 1 + half of its last place: to even
      {"add.f16", {H(0x3c00), H(0x1001)}, H(0x3c01)},                // and a little more
      {"mul.f16", {H(0x4200), H(0x3800)}, H(0x3e00)},                // 3 * 0.5
      {"fma.rn.f16", {H(0x3c01), H(0x3c01), H(0xbc02)}, H(0x0010)},  // 2^-20
      {"add.rn.bf16x2", {W(0x3f804000), W(0x3f803f80)}, W(0x40004040)},
      {"fma.rn.bf16x2", {W(0x3f804000), W(0x40403f80), W(0x3f800000)}, W(0x40804000)},
      {"sub.f16x2", {W(0x40003c00), W(0x3c003c00)}, W(0x3c000000)},
      {"max.f16", {H(0x7e00), H(0x3c00)}, H(0x3c00)},
      {"max.NaN.bf16", {H(0x7fc0), H(0x3f80)}, H(0x7fff)},
      {"neg.bf16x2", {W(0x3f800000)}, W(0xbf808000)},
      {"abs.f16", {H(0xbc00)}, H(0x3c00)},
      {"add.f16", {H(0x7bff), H(0x7bff)}, H(0x7c00)},
      {"add.rn.f32.f16", {H(0x3c00), F(0.25F)}, F(1.25F)},
      {"sub.rn.f32.bf16", {H(0x3f80), F(0.25F)}, F(0.75F)},
      {"fma.rn.f32.f16", {H(0x4000), H(0x4200), F(1)}, F(7)},
  });
}

TEST(PtxAlu, Comparisons) {
  const Value nan = W(0x7fc00000);
  Check({
      {"setp.lt.s32", {W(kMinus), W(0)}, P(true)},
      {"setp.lt.u32", {W(kMinus), W(0)}, P(false)},
      {"setp.hs.u64", {L(5), L(5)}, P(true)},
      {"setp.ge.s16", {H(0x8000), H(0)}, P(false)},
      {"setp.lt.f32", {F(1), F(2)}, P(true)},
      {"setp.ne.f32", {nan, F(2)}, P(false)},
      {"setp.neu.f32", {nan, F(2)}, P(true)},
      {"setp.nan.f32", {nan, nan}, P(true)},
      {"setp.num.f64", {D(1), D(1)}, P(true)},
      {"setp.leu.f64", {D(2), D(1)}, P(false)},
      {"setp.gt.f16", {H(0x4000), H(0x3c00)}, P(true)},
      {"setp.eq.bf16", {H(0x8000), H(0)}, P(true)},
      {"setp.eq.ftz.f32", {W(1), F(0)}, P(true)},
      {"setp.eq.and.s32", {W(1), W(1), P(false)}, P(false)},
      {"setp.ne.or.s32", {W(1), W(1), P(true)}, P(true)},
      {"selp.b32", {W(4), W(5), P(true)}, W(4)},
      {"selp.f64", {D(4), D(5), P(false)}, D(5)},
      {"slct.b32.s32", {W(4), W(5), W(kMinus)}, W(5)},
      {"set.lt.u32.f32", {F(1), F(2)}, W(kMinus)},
      {"set.lt.f32.s32", {W(1), W(2)}, F(1)},
  });
}

TEST(PtxAlu, Conversions) {
  const Value nan = W(0x7fc00000);
  Check({
      {"cvt.s64.s32", {W(kMinus)}, L(kMinus)},
      {"cvt.u64.u32", {W(kMinus)}, L(0xffffffff)},
      {"cvt.s32.s8", {W(0x180)}, W(kMinus - 0x7f)},
      {"cvt.u16.u8", {H(0x1ff)}, H(0xff)},
      {"cvt.s16.s8", {H(0x80)}, H(0xff80)},
      {"cvt.s8.s32", {W(0x80)}, W(kMinus - 0x7f)},
      {"cvt.sat.u8.s32", {W(kMinus)}, W(0)},
      {"cvt.sat.s16.s32", {W(70000)}, H(0x7fff)},
      {"cvt.rzi.s32.f32", {F(-2.7F)}, W(kMinus - 1)},
      {"cvt.rni.s32.f32", {F(2.5F)}, W(2)},
      {"cvt.rzi.s32.f32", {F(1e20F)}, W(0x7fffffff)},
      {"cvt.rzi.u32.f32", {F(-5)}, W(0)},
      {"cvt.rzi.s32.f32", {nan}, W(0)},
      {"cvt.rzi.s64.f32", {nan}, L(uint64_t{1} << 63)},
      {"cvt.rzi.u64.f64", {D(0x1p63)}, L(uint64_t{1} << 63)},
      {"cvt.rzi.u64.f64", {D(0x1p64)}, L(kMinus)},
      {"cvt.rn.f32.s32", {W(0x1000001)}, F(0x1p24F)},
      {"cvt.rz.f32.u32", {W(0x1000003)}, F(0x1000002p0F)},
      {"cvt.rp.f32.u32", {W(0x1000001)}, F(0x1000002p0F)},
      {"cvt.rn.f64.u64", {L(kMinus)}, D(0x1p64)},
      {"cvt.rz.f64.u64", {L(kMinus)}, D(0x1.fffffffffffffp63)},
      {"cvt.rn.f16.s32", {W(2049)}, H(0x6800)},
      {"cvt.rn.f32.f64", {D(1 + 0x1p-24)}, F(1)},
      {"cvt.rm.f32.f64", {D(-1 - 0x1p-30)}, F(-0x1.000002p0F)},
      {"cvt.rz.f32.f64", {D(1e300)}, F(0x1.fffffep127F)},
      {"cvt.f64.f32", {F(0.5F)}, D(0.5)},
      {"cvt.f32.f16", {H(1)}, F(0x1p-24F)},
      {"cvt.f32.bf16", {H(0x3f80)}, F(1)},
      {"cvt.rn.f16.f32", {F(65520)}, H(0x7c00)},
      {"cvt.rz.f16.f32", {F(65520)}, H(0x7bff)},
      {"cvt.rn.bf16.f32", {W(0x3f808000)}, H(0x3f80)},
      {"cvt.rn.bf16.f32", {nan}, H(0x7fff)},
      {"cvt.rn.relu.bf16.f32", {F(-1)}, H(0)},
      {"cvt.rn.bf16x2.f32", {F(1), F(2)}, W(0x3f804000)},
      {"cvt.rn.f16x2.f32", {F(1), F(2)}, W(0x3c004000)},
      {"cvt.rni.f32.f32", {F(2.5F)}, F(2)},
      {"cvt.rpi.f64.f64", {D(2.5)}, D(3)},
      {"cvt.rzi.f32.f32", {F(-0.5F)}, F(-0.0F)},
      {"cvt.ftz.f32.f32", {W(0x80000001)}, F(-0.0F)},
      {"cvt.sat.f32.f32", {F(-1)}, F(0)},
      {"cvt.rna.tf32.f32", {W(0x3f801000)}, W(0x3f802000)},
      {"cvt.rn.tf32.f32", {W(0x3f801000)}, W(0x3f800000)},
      {"cvt.rn.satfinite.e4m3x2.f32", {F(1), F(1000)}, H(0x387e)},
      {"cvt.rn.f16x2.e4m3x2", {H(0x387e)}, W(0x3c005f00)},
      {"cvt.rn.satfinite.e5m2x2.f32", {F(-2), F(0)}, H(0xc000)},
  });
}

TEST(PtxAlu, WhatItDoesNotKnowIsRefused) {
  for (const char* opcode : {"add.q32", "add.rz.f32", "cvt.f16.f32", "cvt.rn.s32.f32", "frobnicate", "mul.s32"}) {
    const auto got = Evaluate(opcode, 32, {W(1), W(2)});
    ASSERT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << opcode << " " << got.status();
    EXPECT_TRUE(absl::StrContains(got.status().message(), opcode)) << got.status();
  }
  EXPECT_TRUE(absl::StrContains(Evaluate("add.s32", 32, {W(1)}).status().message(), "takes 3 operands"));
}

}  // namespace
}  // namespace kiln::testing::ptx
