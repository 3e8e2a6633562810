#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/ptx/machine.h"

namespace kiln::testing::ptx {
namespace {

constexpr char kHead[] = ".version 8.0\n.target sm_80\n.address_size 64\n";

// Two results in one; a loop, a branch over it, and a return from the middle.
constexpr char kSumTo[] = R"(
.func (.param .align 8 .b8 func_retval0[16]) sum_to(
	.param .b32 sum_to_param_0
)
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<2>;
	ld.param.u32 	%r1, [sum_to_param_0];
	mov.u32 	%r2, 0;
	mov.u64 	%rd1, -1;
	setp.eq.s32 	%p1, %r1, 0;
	@%p1 bra 	$L__BB1_2;
$L__BB1_1:
	add.s32 	%r2, %r2, %r1;
	add.s32 	%r1, %r1, -1;
	setp.ne.s32 	%p2, %r1, 0;
	@%p2 bra 	$L__BB1_1;
	cvt.u64.u32 	%rd1, %r2;
	st.param.b64 	[func_retval0+0], %rd1;
	st.param.b32 	[func_retval0+8], %r1;
	ret;
$L__BB1_2:
	st.param.b64 	[func_retval0+0], %rd1;
	st.param.b32 	[func_retval0+8], 7;
	ret;
}
)";

// Calls sum_to, and gives twice what comes back.
constexpr char kTwice[] = R"(
.func (.param .b64 func_retval0) twice(
	.param .b32 twice_param_0
)
{
	.reg .b32 	%r<3>;
	.reg .b64 	%rd<4>;
	ld.param.u32 	%r1, [twice_param_0];
	{
	.param .b32 param0;
	st.param.b32 	[param0+0], %r1;
	.param .align 8 .b8 retval0[16];
	call.uni (retval0),
	sum_to,
	(
	param0
	);
	ld.param.b64 	%rd1, [retval0+0];
	}
	add.s64 	%rd2, %rd1, %rd1;
	st.param.b64 	[func_retval0+0], %rd2;
	ret;
}
)";

constexpr char kEntry[] = R"(
.visible .entry k(
	.param .u64 k_param_0
)
{
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<6>;
	ld.param.u64 	%rd1, [k_param_0];
	mov.u32 	%r1, %tid.x;
	{
	.param .b32 param0;
	st.param.b32 	[param0+0], %r1;
	.param .align 8 .b8 retval0[16];
	call.uni (retval0), sum_to, (param0);
	ld.param.b64 	%rd2, [retval0+0];
	ld.param.b32 	%r2, [retval0+8];
	}
	{
	.param .b32 param0;
	st.param.b32 	[param0+0], %r1;
	.param .b64 retval0;
	call.uni (retval0), twice, (param0);
	ld.param.b64 	%rd3, [retval0+0];
	}
	mul.wide.u32 	%rd4, %r1, 24;
	add.s64 	%rd5, %rd1, %rd4;
	st.global.u64 	[%rd5], %rd2;
	st.global.u32 	[%rd5+8], %r2;
	st.global.u64 	[%rd5+16], %rd3;
	ret;
}
)";

struct Row {
  int64_t sum;
  int32_t left, unused;
  int64_t twice;
};

TEST(InlineCalls, BodiesStandWhereTheyAreCalled) {
  const auto module = Module::Parse(absl::StrCat(kHead, kSumTo, kTwice, kEntry));
  ASSERT_TRUE(module.ok()) << module.status();
  std::vector<Row> rows(5);
  const uint64_t begin = reinterpret_cast<uint64_t>(rows.data());
  const Range range = {begin, rows.size() * sizeof(Row), true};
  const void* const parameter = &begin;
  LaunchShape shape;
  shape.items = {5, 1, 1};
  const absl::Status ran = (*module)->Launch(*(*module)->Find("k"), shape, {&parameter, 1}, {&range, 1});
  ASSERT_TRUE(ran.ok()) << ran;
  const std::vector<int64_t> sums = {-1, 1, 3, 6, 10};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].sum, sums[i]);
    EXPECT_EQ(rows[i].left, i == 0 ? 7 : 0);
    EXPECT_EQ(rows[i].twice, 2 * sums[i]);
  }
}

TEST(InlineCalls, OfWhatIsNotThereOrCallsItselfAreRefused) {
  const auto missing = Module::Parse(absl::StrCat(kHead, kTwice, kEntry));
  EXPECT_TRUE(absl::StrContains(missing.status().message(), "no body of sum_to")) << missing.status();
  const auto circle = Module::Parse(absl::StrCat(kHead, R"(
.func again()
{
	call.uni again;
	ret;
}
)"));
  EXPECT_TRUE(absl::StrContains(circle.status().message(), "again calls itself")) << circle.status();
}

}  // namespace
}  // namespace kiln::testing::ptx
