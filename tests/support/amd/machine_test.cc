#include "tests/support/amd/machine.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace kiln::testing::amd {
namespace {

constexpr char kHead[] =
    "target triple = \"amdgcn-amd-amdhsa\"\n"
    "@s = internal addrspace(3) global [64 x i32] poison, align 16\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "declare i32 @llvm.amdgcn.workitem.id.y()\n"
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"
    "declare void @llvm.amdgcn.s.barrier()\n"
    "declare i32 @llvm.amdgcn.ds.swizzle(i32, i32)\n"
    "declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)\n"
    "declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)\n"
    "declare i32 @llvm.amdgcn.readfirstlane.i32(i32)\n"
    "define amdgpu_kernel void @k(ptr addrspace(1) %p, i64 %n) {\n"
    "%i = call i32 @llvm.amdgcn.workitem.id.x()\n";

// Runs `body`, with %i the item along x, on 64 integers.
absl::StatusOr<std::vector<uint32_t>> Result(const std::string& body, const LaunchShape& shape, uint32_t lanes = 32,
                                             uint64_t n = 0) {
  const auto module = Module::Load(absl::StrCat(kHead, body, "ret void\n}\n"), lanes);
  if (!module.ok()) return module.status();
  std::vector<uint32_t> memory(64, 9);
  const uint64_t arguments[] = {reinterpret_cast<uint64_t>(memory.data()), n};
  const absl::Status status = (*module)->Launch("k", shape, arguments);
  if (!status.ok()) return status;
  return memory;
}

constexpr char kStore[] =
    "%at = getelementptr i32, ptr addrspace(1) %p, i32 %i\n"
    "store i32 %v, ptr addrspace(1) %at\n";

void ExpectFailure(const absl::Status& status, const std::string& said) {
  EXPECT_TRUE(absl::StrContains(status.message(), said)) << status;
}

TEST(AmdMachine, KnowsWhereItsItemsStand) {
  const auto memory = Result(
      "%y = call i32 @llvm.amdgcn.workitem.id.y()\n%g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
      "%a = mul i32 %y, 4\n%b = mul i32 %g, 12\n%c = add i32 %a, %b\n%j = add i32 %c, %i\n"
      "%at = getelementptr i32, ptr addrspace(1) %p, i32 %j\nstore i32 %j, ptr addrspace(1) %at\n",
      {{2, 1, 1}, {4, 3, 1}});
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ((*memory)[i], i < 24 ? i : 9);
}

TEST(AmdMachine, ABarrierOrdersSharedMemory) {
  const auto memory = Result(absl::StrCat("%to = getelementptr i32, ptr addrspace(3) @s, i32 %i\n"
                                          "store i32 %i, ptr addrspace(3) %to\n"
                                          "call void @llvm.amdgcn.s.barrier()\n"
                                          "%o = sub i32 63, %i\n"
                                          "%from = getelementptr i32, ptr addrspace(3) @s, i32 %o\n"
                                          "%v = load i32, ptr addrspace(3) %from\n",
                                          kStore),
                             {{1, 1, 1}, {64, 1, 1}}, 64);
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ((*memory)[i], 63 - i);
}

TEST(AmdMachine, SharedMemoryBeginsAsNaNInEachGroup) {
  const auto memory =
      Result(absl::StrCat("%from = getelementptr i32, ptr addrspace(3) @s, i32 %i\n"
                          "%v = load i32, ptr addrspace(3) %from\nstore i32 0, ptr addrspace(3) %from\n",
                          kStore),
             {{2, 1, 1}, {1, 1, 1}});
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)[0], 0xFFFFFFFF);
}

TEST(AmdMachine, ItemsOfHalfAWaveSwizzle) {
  for (const uint32_t lanes : {32u, 64u}) {
    // All bits kept, and the third turned.
    const auto memory = Result(absl::StrCat("%v = call i32 @llvm.amdgcn.ds.swizzle(i32 %i, i32 4127)\n", kStore),
                               {{1, 1, 1}, {64, 1, 1}}, lanes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ((*memory)[i], i ^ 4);
  }
}

TEST(AmdMachine, ItemsAskForEachOthersValues) {
  const auto memory = Result(absl::StrCat("%l = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)\n"
                                          "%r = xor i32 %l, 31\n%a = shl i32 %r, 2\n"
                                          "%v = call i32 @llvm.amdgcn.ds.bpermute(i32 %a, i32 %i)\n",
                                          kStore),
                             {{1, 1, 1}, {64, 1, 1}}, 32);
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ((*memory)[i], i ^ 31);
}

constexpr char kSome[] = "%some = icmp ult i32 %i, 40\nbr i1 %some, label %in, label %out\nin:\n";

TEST(AmdMachine, NamesTheItemThatMissesABarrier) {
  const auto memory =
      Result(absl::StrCat(kSome, "call void @llvm.amdgcn.s.barrier()\nbr label %out\nout:\n"), {{1, 1, 1}, {64, 1, 1}});
  ExpectFailure(memory.status(),
                "kernel k, group (0, 0, 0), item (40, 0, 0): does not come to the barrier where item (0, 0, 0) is");
}

TEST(AmdMachine, NamesTheItemThatMissesAnExchange) {
  const std::string body =
      absl::StrCat(kSome, "%v = call i32 @llvm.amdgcn.ds.swizzle(i32 %i, i32 31)\nbr label %out\nout:\n");
  ExpectFailure(Result(body, {{1, 1, 1}, {64, 1, 1}}).status(),
                "item (40, 0, 0): does not come to the llvm.amdgcn.ds.swizzle where item (32, 0, 0) is");
  EXPECT_TRUE(Result(body, {{1, 1, 1}, {40, 1, 1}}).ok());
}

TEST(AmdMachine, NamesTheItemThatReachesNoMemory) {
  ExpectFailure(
      Result("%at = inttoptr i64 %n to ptr addrspace(1)\n%one = icmp eq i32 %i, 3\nbr i1 %one, label %in, label "
             "%out\nin:\nstore i32 1, ptr addrspace(1) %at\nbr label %out\nout:\n",
             {{1, 1, 1}, {64, 1, 1}}, 32, 64)
          .status(),
      "item (3, 0, 0): an access at 0x40, where no memory of its is");
  // In shared memory as well; and the next launch is none the worse.
  ExpectFailure(Result(absl::StrCat("%far = add i32 %i, 1\n%to = getelementptr i32, ptr addrspace(3) @s, i32 %far\n"
                                    "store i32 %i, ptr addrspace(3) %to\n"),
                       {{1, 1, 1}, {64, 1, 1}})
                    .status(),
                "item (63, 0, 0): an access at");
  EXPECT_TRUE(Result("", {{1, 1, 1}, {64, 1, 1}}).ok());
}

TEST(AmdMachine, RefusesWhatItDoesNotKnow) {
  ExpectFailure(Result("%v = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %i)\n", {}).status(),
                "an instruction that this machine does not know: llvm.amdgcn.readfirstlane");
}

}  // namespace
}  // namespace kiln::testing::amd
