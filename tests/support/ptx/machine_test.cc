#include "tests/support/ptx/machine.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/ptx/evaluate.h"

namespace kiln::testing::ptx {
namespace {

std::vector<uint32_t> After(const std::string& body, uint32_t items, size_t words,
                            const std::vector<uint32_t>& in = {}) {
  std::vector<uint32_t> out(words, 0);
  const absl::Status ran = RunBody(body, items, out, in);
  EXPECT_TRUE(ran.ok()) << ran;
  return out;
}
void ExpectFailure(const std::string& body, uint32_t items, const std::vector<const char*>& texts) {
  std::vector<uint32_t> out(64, 0);
  LaunchLimits limits;
  limits.instructions = 100000;
  const absl::Status ran = RunBody(body, items, out, {1, 2, 3, 4}, limits);
  ASSERT_FALSE(ran.ok());
  for (const char* text : texts) EXPECT_TRUE(absl::StrContains(ran.message(), text)) << ran;
}

// out[item] = %r1
constexpr char kStore[] = R"(
	mul.wide.u32 	%d20, %r0, 4;
	add.s64 	%d21, %out, %d20;
	st.global.b32 	[%d21], %r1;)";

TEST(PtxMachine, LoopsAndPredicates) {
  // 1 + 2 + … + item; odd items negate it.
  EXPECT_EQ(After(absl::StrCat(R"(
	mov.b32 	%r1, 0;
	mov.b32 	%r2, %r0;
$L__BB0_1:
	setp.eq.b32 	%p1, %r2, 0;
	@%p1 bra 	$L__BB0_2;
	add.s32 	%r1, %r1, %r2;
	add.s32 	%r2, %r2, -1;
	bra.uni 	$L__BB0_1;
$L__BB0_2:                              // exit
	and.b32 	%r3, %r0, 1;
	setp.eq.b32 	%p2, %r3, 0;
	@!%p2 neg.s32 	%r1, %r1;)",
                               kStore),
                  6, 6),
            (std::vector<uint32_t>{0, ~0U, 3, ~5U, 10, ~14U}));
}

TEST(PtxMachine, IndexedBranches) {
  EXPECT_EQ(After(absl::StrCat(R"(
	mov.b32 	%r1, 9;
$L_brx_0: .branchtargets
	$L_a,
	$L_b,
	$L_end;
	brx.idx 	%r0, $L_brx_0;
$L_a:
	mov.b32 	%r1, 10;
	bra.uni 	$L_end;
$L_b:
	mov.b32 	%r1, 11;
$L_end:)",
                               kStore),
                  3, 3),
            (std::vector<uint32_t>{10, 11, 9}));
}

TEST(PtxMachine, RegistersInPartsAndInScopes) {
  EXPECT_EQ(After(R"(
	mov.b32 	%r1, 0x12345678;
	{ .reg .b16 tmp; mov.b32 {tmp, %h1}, %r1; }
	{ .reg .b16 tmp; mov.b32 {%h2, tmp}, %r1; mov.b16 %h3, tmp; }
	mov.b32 	{_, %h4}, %r1;
	mov.b32 	%r2, {%h1, %h2};
	mov.b64 	%d1, {%r1, %r2};
	mov.b64 	{%r3, %r4}, %d1;
	mov.b64 	%d2, {%h1, %h2, %h3, %h4};
	st.global.v4.b32 	[%out], {%r2, %r3, %r4, 7};
	st.global.b64 	[%out+16], %d2;
)",
                  1, 6),
            (std::vector<uint32_t>{0x56781234, 0x12345678, 0x56781234, 7, 0x56781234, 0x12341234}));
}

TEST(PtxMachine, MemoryOfEveryWidthAndSign) {
  EXPECT_EQ(After(R"(
	ld.global.nc.v2.b32 	{%r1, %r2}, [%in];
	ld.global.s8 	%r3, [%in+3];
	ld.global.b8 	%h1, [%in+3];
	ld.global.L1::no_allocate.u16 	%r4, [%in+2];
	ld.s16 	%d1, [%in+2];
	cvt.u32.u16 	%r5, %h1;
	st.global.v4.b32 	[%out], {%r1, %r2, %r3, %r4};
	st.global.b8 	[%out+17], %r1;
	st.global.b64 	[%out+24], %d1;
	st.global.b32 	[%out+20], %r5;
)",
                  1, 8, {0x81828384, 5}),
            (std::vector<uint32_t>{0x81828384, 5, 0xffffff81, 0x8182, 0x8400, 0x81, 0xffff8182, 0xffffffff}));
}

TEST(PtxMachine, SharedMemoryAndBarriers) {
  // Each item reads what the next one wrote, through shared and through generic addresses.
  const std::string body = absl::StrCat(R"(
	mul.lo.s32 	%r2, %r0, 4;
	mov.b32 	%r3, memory;
	add.s32 	%r4, %r3, %r2;
	st.shared.b32 	[%r4], %r0;
	bar.sync 	0;
	add.s32 	%r5, %r0, 1;
	mov.u32 	%r9, %ntid.x;
	rem.u32 	%r5, %r5, %r9;
	mul.wide.u32 	%d1, %r5, 4;
	mov.b64 	%d2, memory;
	cvta.shared.u64 	%d3, %d2;
	add.s64 	%d4, %d3, %d1;
	ld.b32 	%r1, [%d4];)",
                                        kStore);
  std::vector<uint32_t> want;
  for (uint32_t n = 0; n < 70; ++n) want.push_back((n + 1) % 70);
  EXPECT_EQ(After(body, 70, 70), want);
}

TEST(PtxMachine, DynamicSharedMemoryFollowsTheStatic) {
  EXPECT_EQ(After(R"(
	mov.b32 	%r1, memory;
	mov.b32 	%r2, dynamic;
	st.shared.b32 	[%r2+1020], 7;
	ld.shared.b32 	%r3, [dynamic+1020];
	st.global.v4.b32 	[%out], {%r1, %r2, %r3, %r3};
)",
                  1, 4),
            (std::vector<uint32_t>{0, 1024, 7, 7}));
}

TEST(PtxMachine, WhatWasNotWrittenIsNan) {
  EXPECT_EQ(After(R"(
	ld.shared.b32 	%r1, [memory];
	st.global.v2.b32 	[%out], {%r1, %r20};
)",
                  1, 2),
            (std::vector<uint32_t>{~0U, ~0U}));
}

TEST(PtxMachine, LocalMemoryIsEachItemsOwn) {
  EXPECT_EQ(After(absl::StrCat(R"(
	.local .align 8 .b8 	__local_depot0[16];
	.reg .b64 	%SP, %SPL;
	mov.b64 	%SPL, __local_depot0;
	cvta.local.u64 	%SP, %SPL;
	add.u64 	%d1, %SP, 8;
	add.u64 	%d2, %SPL, 8;
	st.b32 	[%d1], %r0;
	bar.sync 	0;
	ld.local.b32 	%r1, [%d2];)",
                               kStore),
                  4, 4),
            (std::vector<uint32_t>{0, 1, 2, 3}));
}

TEST(PtxMachine, Atomics) {
  const auto out = After(R"(
	atom.global.add.u32 	%r1, [%out], 2;
	red.relaxed.gpu.global.add.f32 	[%out+4], 0f3F800000;
	atom.shared.max.u32 	%r2, [memory], %r0;
	red.global.max.s32 	[%out+8], %r0;
	atom.global.cas.b32 	%r3, [%out+12], 0, %r1;
	atom.global.exch.b32 	%r4, [%out+16], %r0;
	red.global.add.noftz.f16x2 	[%out+20], %r5;
	atom.inc.u32 	%r4, [%out+24], 3;
)",
                         10, 8);
  EXPECT_EQ(out[0], 20U);
  EXPECT_EQ(out[1], 0x41200000U);
  EXPECT_EQ(out[2], 9U);
  EXPECT_EQ(out[4], 9U);
  EXPECT_EQ(out[6], 2U);
}

TEST(PtxMachine, CarriesGoFromOneInstructionToTheNext) {
  EXPECT_EQ(After(R"(
	add.cc.u32 	%r1, 0xffffffff, 1;
	addc.u32 	%r2, 5, 0;
	sub.cc.u32 	%r3, 0, 1;
	subc.u32 	%r4, 5, 0;
	st.global.v4.b32 	[%out], {%r1, %r2, %r3, %r4};
)",
                  1, 4),
            (std::vector<uint32_t>{0, 6, ~0U, 4}));
  EXPECT_EQ(After(R"(
	mad.lo.cc.u32 	%r1, 3, 0x55555555, 1;
	madc.hi.u32 	%r2, 0x10000, 0x30000, 4;
	st.global.v2.b32 	[%out], {%r1, %r2};
)",
                  1, 2),
            (std::vector<uint32_t>{0, 8}));
}

TEST(PtxMachine, GroupsParametersAndVariables) {
  const auto module = Module::Parse(R"(
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 5;
.const .align 8 .b64 where[1] = {table};
.global .align 4 .b8 table[8] = {1, 0, 0, 0, 2};
.visible .entry second(.param .align 4 .b8 second_param_0[12], .param .u64 second_param_1) .maxntid 2, 3, 1
{
	.reg .b32 %r<20>;
	.reg .b64 %rd<8>;
	mov.u32 %r1, %ctaid.y;
	mov.u32 %r2, %nctaid.x;
	mov.u32 %r3, %ctaid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	mov.u32 %r5, %tid.y;
	mov.u32 %r6, %tid.x;
	mad.lo.s32 %r7, %r5, 2, %r6;
	mad.lo.s32 %r8, %r4, 6, %r7;
	ld.param.b32 %r9, [second_param_0+8];
	ld.const.b64 %rd1, [where];
	ld.global.b32 %r10, [%rd1+4];
	add.s32 %r11, %r8, %r9;
	add.s32 %r11, %r11, %r10;
	ld.param.b64 %rd2, [second_param_1];
	mad.wide.u32 %rd3, %r8, 4, %rd2;
	st.global.b32 [%rd3], %r11;
	atom.global.add.u32 %r12, [counter], 1;
}
)");
  ASSERT_TRUE(module.ok()) << module.status();
  const Module::Entry* entry = (*module)->Find("second");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ((*module)->Find("third"), nullptr);
  EXPECT_EQ((*module)->entries().size(), 1U);
  EXPECT_EQ(entry->parameter_bytes, (std::vector<uint32_t>{12, 8}));
  EXPECT_EQ(entry->max_items, (std::array<uint32_t, 3>{2, 3, 1}));
  std::vector<uint32_t> out(24);
  const uint32_t first[3] = {1, 2, 100};
  const auto address = reinterpret_cast<uint64_t>(out.data());
  LaunchShape shape{{2, 2, 1}, {2, 3, 1}, 0};
  const Range memory = {address, 96, true};
  ASSERT_TRUE((*module)->Launch(*entry, shape, {first, &address}, {memory}).ok());
  for (uint32_t n = 0; n < 24; ++n) EXPECT_EQ(out[n], n + 102);
  EXPECT_EQ(*reinterpret_cast<const uint32_t*>((*module)->Variable("counter").begin), 29U);
  // What a launch is refused for.
  EXPECT_EQ((*module)->Launch(*entry, shape, {first}, {memory}).code(), absl::StatusCode::kInvalidArgument);
  shape.items = {4, 3, 1};
  EXPECT_EQ((*module)->Launch(*entry, shape, {first, &address}, {memory}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(PtxMachine, AsynchronousCopiesComeWhenTheyAreWaitedFor) {
  EXPECT_EQ(After(R"(
	mov.b32 	%r10, memory;
	cp.async.ca.shared.global 	[%r10], [%in], 4;
	cp.async.commit_group;
	cp.async.cg.shared.global 	[%r10+16], [%in], 16, 4;
	cp.async.commit_group;
	ld.shared.b32 	%r1, [memory];
	cp.async.wait_group 	1;
	ld.shared.b32 	%r2, [memory];
	ld.shared.b32 	%r3, [memory+16];
	cp.async.wait_all;
	ld.shared.v2.b32 	{%r4, %r5}, [memory+16];
	st.global.v4.b32 	[%out], {%r1, %r2, %r3, %r4};
	st.global.b32 	[%out+16], %r5;
)",
                  1, 5, {11, 12, 13, 14}),
            (std::vector<uint32_t>{~0U, 11, ~0U, 11, 0}));
}

TEST(PtxMachine, Mbarriers) {
  // Item 0 waits for all 40 arrivals, then reads what the last one wrote before it arrived.
  EXPECT_EQ(After(R"(
	setp.ne.b32 	%p1, %r0, 0;
	@!%p1 mbarrier.init.shared.b64 	[memory], 40;
	bar.sync 	0;
	setp.eq.b32 	%p2, %r0, 39;
	@%p2 st.shared.b32 	[memory+16], %r0;
	mbarrier.arrive.shared.b64 	%d1, [memory];
	@%p1 bra 	$end;
	{
	.reg .pred 	complete;
	waiting:
	mbarrier.try_wait.parity.shared.b64 	complete, [memory], 0;
	@complete bra 	done;
	bra.uni 	waiting;
	done:
	}
	ld.shared.b32 	%r1, [memory+16];
	st.global.b32 	[%out], %r1;
$end:
)",
                  40, 1),
            (std::vector<uint32_t>{39}));
}

TEST(PtxMachine, WrongAccessesAreNamed) {
  ExpectFailure(
      "	ld.global.b32 	%r1, [%in+16];", 1,
      {"kernel k, group (0, 0, 0), item (0, 0, 0): `ld.global.b32 %r1, [%in+16]`: reads 4 bytes", "not there"});
  ExpectFailure("	st.global.b32 	[%in], %r0;", 1, {"writes 4 bytes"});
  ExpectFailure("	ld.global.b64 	%d1, [%in+4];\n	ld.global.b64 	%d2, [%in+2];", 1, {"not aligned to 8"});
  ExpectFailure("	ld.shared.b32 	%r1, [memory+2048];", 1, {"of shared memory"});
  ExpectFailure("	mov.b64 %d1, 0;\n	ld.b32 	%r1, [%d1];", 1, {"of global memory"});
  ExpectFailure("	trap;", 1, {"a trap"});
  ExpectFailure("	st.param.b32 	[k_param_0], %r1;", 1, {"of param memory"});
}

TEST(PtxMachine, AThreadThatNeverComesIsNamed) {
  ExpectFailure(R"(
	setp.eq.b32 	%p1, %r0, 3;
	@%p1 bra 	$end;
	bar.sync 	0;
$end:)",
                40, {"`bar.sync 0`: waits for ever: of 40 items 1 have ended and 39 are at a barrier"});
  ExpectFailure("$again:\n	bra 	$again;", 1, {"more instructions"});
  ExpectFailure(R"(
	mbarrier.init.shared.b64 	[memory], 2;
$again:
	mbarrier.try_wait.parity.shared.b64 	%p1, [memory], 0;
	@!%p1 bra 	$again;)",
                1, {"waits for ever"});
}

TEST(PtxMachine, RacesInSharedMemoryAreNamed) {
  constexpr char kNoBarrier[] = R"(
	mul.wide.u32 	%d1, %r0, 4;
	mov.b64 	%d2, memory;
	add.s64 	%d3, %d2, %d1;
	st.shared.b32 	[%d3], %r0;
	ld.shared.b32 	%r1, [memory+4];)";
  ExpectFailure(kNoBarrier, 2, {"item (1, 0, 0): `st.shared.b32 [%d3], %r0`: writes 0x4", "item number 0"});
  ExpectFailure("	st.shared.b32 	[memory], %r0;", 2, {"item number 0"});
  LaunchLimits limits;
  limits.detect_races = false;
  std::vector<uint32_t> out(1);
  EXPECT_TRUE(RunBody(kNoBarrier, 2, out, {}, limits).ok());
  // Atomics do not race, nor do reads, nor lanes that bar.warp.sync orders.
  After("	atom.shared.add.u32 	%r1, [memory], 1;\n	ld.shared.b32 	%r2, [memory+4];", 64, 1);
  After(R"(
	mul.wide.u32 	%d1, %r0, 4;
	mov.b64 	%d2, memory;
	add.s64 	%d3, %d2, %d1;
	st.shared.b32 	[%d3], %r0;
	bar.warp.sync 	0xffffffff;
	xor.b32 	%r2, %r0, 1;
	mul.wide.u32 	%d1, %r2, 4;
	add.s64 	%d3, %d2, %d1;
	ld.shared.b32 	%r1, [%d3];)",
        64, 1);
}

TEST(PtxMachine, RacesInGlobalMemoryAreNamed) {
  // Every item writes its group's number to the first word.
  const auto module = Module::Parse(KernelOf("	mov.u32 %r1, %ctaid.x;\n	st.global.b32 [%out], %r1;\n"));
  ASSERT_TRUE(module.ok()) << module.status();
  LaunchLimits limits;
  const auto run = [&](uint32_t groups, uint32_t items) {
    std::vector<uint32_t> out(4);
    const auto address = reinterpret_cast<uint64_t>(out.data());
    return (*module)->Launch(*(*module)->Find("k"), {{groups, 1, 1}, {items, 1, 1}, 0}, {&address, &address},
                             {{address, 16, true}}, limits);
  };
  EXPECT_TRUE(run(2, 1).ok());
  limits.detect_global_races = true;
  EXPECT_TRUE(run(1, 1).ok());
  EXPECT_TRUE(absl::StrContains(run(2, 1).message(), "group (1, 0, 0), item (0, 0, 0)"));
  EXPECT_TRUE(absl::StrContains(run(1, 2).message(), "group (0, 0, 0), item (1, 0, 0)"));
  // A barrier orders those of one group.
  std::vector<uint32_t> out(1);
  const absl::Status ordered = RunBody(R"(
	setp.eq.b32 	%p1, %r0, 0;
	@%p1 st.global.b32 	[%out], 5;
	bar.sync 	0;
	@!%p1 st.global.b32 	[%out], 6;)",
                                       2, out, {}, limits);
  EXPECT_TRUE(ordered.ok()) << ordered;
  EXPECT_EQ(out[0], 6U);
}

TEST(PtxMachine, TextThatItDoesNotUnderstandIsRefusedWithItsLine) {
  const auto refusal = [](const std::string& text) { return std::string(Module::Parse(text).status().message()); };
  EXPECT_TRUE(absl::StrContains(refusal("\n.wrong"), "line 2: the directive '.wrong'"));
  EXPECT_TRUE(absl::StrContains(refusal(KernelOf("	bra $nowhere;")), "a label that is there"));
  EXPECT_TRUE(absl::StrContains(refusal(KernelOf("	mov.b32 %r99, 0;")), "`mov.b32 %r99, 0`: a register"));
  EXPECT_TRUE(absl::StrContains(refusal(KernelOf("	mov.b32 %r1, unknown;")), "nothing is named unknown"));
  EXPECT_TRUE(absl::StrContains(refusal(KernelOf("	mov.u32 %r1, %clusterid.x;")), "no register %clusterid.x"));
  EXPECT_TRUE(absl::StrContains(refusal(KernelOf("	ld.global.odd.b32 %r1, [%in];")), "'.odd' is not known"));
  EXPECT_TRUE(absl::StrContains(refusal(KernelOf("	add.s32 %r1 %r2;")), "'%r2' where there should be ,"));
}

}  // namespace
}  // namespace kiln::testing::ptx
