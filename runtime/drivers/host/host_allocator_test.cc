#include "runtime/drivers/host/host_allocator.h"

#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/host/host_scratch.h"

namespace kiln::runtime::host {
namespace {

using hal::MemoryUse;

TEST(HostAllocator, LimitIsExact) {
  const auto allocator = MakeHostAllocator(nullptr, 1024);
  auto most = allocator->Allocate(960, MemoryUse::kClient);
  auto rest = allocator->Allocate(64, MemoryUse::kClient);
  ASSERT_TRUE(most.ok() && rest.ok());
  const auto refused = allocator->Allocate(1, MemoryUse::kClient);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const auto detail = DetailOf(refused.status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(detail->limit_value(), 1024);
  EXPECT_EQ(detail->used(), 1024);
  rest->reset();
  EXPECT_TRUE(allocator->Allocate(1, MemoryUse::kClient).ok());
  EXPECT_EQ(allocator->stats().peak_bytes, 1024);
  EXPECT_EQ(allocator->stats().buffers, 1);
}

TEST(HostAllocator, HugeRequestsDoNotWrap) {
  const auto allocator = MakeHostAllocator(nullptr, ~uint64_t{0});
  for (const uint64_t bytes : {~uint64_t{0}, ~uint64_t{0} - 63, uint64_t{1} << 50}) {
    EXPECT_EQ(allocator->Allocate(bytes, MemoryUse::kClient).status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(allocator->stats().in_use_bytes, 0);
}

TEST(HostScratch, FreesTheOldBeforeItGrows) {
  const auto allocator = MakeHostAllocator(nullptr, 1024);
  HostScratch scratch(allocator.get());
  EXPECT_TRUE(scratch.Get(640).ok());
  EXPECT_TRUE(scratch.Get(1024).ok());
  EXPECT_EQ(scratch.Get(1025).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(scratch.Get(64).ok());
  EXPECT_EQ(allocator->stats().in_use_bytes, 64);
}

}  // namespace
}  // namespace kiln::runtime::host
