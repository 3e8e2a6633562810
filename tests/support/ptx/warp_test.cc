#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/ptx/evaluate.h"

namespace kiln::testing::ptx {
namespace {

constexpr char kStore[] = R"(
	mul.wide.u32 	%d20, %r0, 4;
	add.s64 	%d21, %out, %d20;
	st.global.b32 	[%d21], %r1;)";

// What each of 32 items has in %r1 after `body`.
std::vector<uint32_t> Lanes(const std::string& body) {
  std::vector<uint32_t> out(32, 0);
  const absl::Status ran = RunBody(absl::StrCat(body, kStore), 32, out);
  EXPECT_TRUE(ran.ok()) << ran;
  return out;
}
void Expect(const std::string& body, uint32_t (*want)(uint32_t)) {
  const std::vector<uint32_t> got = Lanes(body);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(got[lane], want(lane)) << "lane " << lane << body;
}

TEST(PtxWarp, Shuffles) {
  Expect("	shfl.sync.bfly.b32 	%r1, %r0, 5, 31, -1;", [](uint32_t n) { return n ^ 5; });
  Expect("	shfl.sync.idx.b32 	%r1, %r0, 7, 31, 0xffffffff;", [](uint32_t) { return 7U; });
  Expect("	shfl.sync.down.b32 	%r1|%p1, %r0, 8, 31, -1;", [](uint32_t n) { return n < 24 ? n + 8 : n; });
  Expect("	shfl.sync.up.b32 	%r1, %r0, 3, 0, -1;", [](uint32_t n) { return n >= 3 ? n - 3 : n; });
  // Segments of 8 lanes.
  Expect("	shfl.sync.down.b32 	%r1, %r0, 2, 0x181f, -1;", [](uint32_t n) { return n % 8 < 6 ? n + 2 : n; });
  Expect("	shfl.sync.idx.b32 	%r1, %r0, 3, 0x181f, -1;", [](uint32_t n) { return n / 8 * 8 + 3; });
  Expect("	shfl.sync.down.b32 	%r2|%p1, %r0, 8, 31, -1;\n	selp.b32 %r1, 1, 0, %p1;",
         [](uint32_t n) { return n < 24 ? 1U : 0U; });
}

TEST(PtxWarp, VotesAndReductions) {
  Expect("	setp.lt.u32 	%p1, %r0, 4;\n	vote.sync.ballot.b32 	%r1, %p1, -1;", [](uint32_t) { return 15U; });
  Expect(
      "	setp.lt.u32 	%p1, %r0, 4;\n	vote.sync.any.pred 	%p2, !%p1, -1;\n	selp.b32 	%r1, 1, 0, "
      "%p2;",
      [](uint32_t) { return 1U; });
  Expect(
      "	setp.lt.u32 	%p1, %r0, 4;\n	vote.sync.all.pred 	%p2, %p1, -1;\n	selp.b32 	%r1, 1, 0, %p2;",
      [](uint32_t) { return 0U; });
  Expect("	redux.sync.add.s32 	%r1, %r0, -1;", [](uint32_t) { return 496U; });
  Expect("	redux.sync.max.u32 	%r1, %r0, -1;", [](uint32_t) { return 31U; });
  Expect("	shr.u32 	%r2, %r0, 4;\n	match.any.sync.b32 	%r1, %r2, -1;",
         [](uint32_t n) { return n < 16 ? 0xffffU : 0xffff0000U; });
  Expect("	elect.sync 	%r1|%p1, -1;", [](uint32_t) { return 0U; });
}

TEST(PtxWarp, TheHalvesOfAWarpMayGoApart) {
  Expect(R"(
	setp.lt.u32 	%p1, %r0, 16;
	@%p1 bra 	$low;
	redux.sync.add.s32 	%r1, %r0, 0xffff0000;
	bra 	$end;
$low:
	redux.sync.add.s32 	%r1, %r0, 0xffff;
$end:)",
         [](uint32_t n) { return n < 16 ? 120U : 376U; });
}

TEST(PtxWarp, LanesThatAreMissingAreNamed) {
  const auto failure = [](const std::string& body) {
    std::vector<uint32_t> out(32);
    return std::string(RunBody(body, 32, out).message());
  };
  EXPECT_TRUE(absl::StrContains(failure(R"(
	setp.eq.b32 	%p1, %r0, 9;
	@%p1 exit;
	shfl.sync.bfly.b32 	%r1, %r0, 1, 31, -1;)"),
                                "lane 9, which has to take part, has ended"));
  EXPECT_TRUE(
      absl::StrContains(failure("	shfl.sync.bfly.b32 	%r1, %r0, 1, 31, 0xffff;"), "does not name this one"));
  EXPECT_TRUE(absl::StrContains(failure(R"(
	setp.eq.b32 	%p1, %r0, 9;
	@%p1 bra 	$other;
	bar.warp.sync 	-1;
	exit;
$other:
	bar.sync 	0;)"),
                                "waits for ever"));
}

}  // namespace
}  // namespace kiln::testing::ptx
