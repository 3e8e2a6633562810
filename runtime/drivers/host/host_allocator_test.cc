#include "runtime/drivers/host/host_allocator.h"

#include <algorithm>
#include <cstddef>

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

TEST(HostScratch, AnotherDomainGetsAnotherPiece) {
  const auto allocator = MakeHostAllocator(nullptr, 1024);
  HostScratch scratch(allocator.get());
  constexpr MemoryDomain kA{100}, kB{101};
  const auto take = [&](MemoryDomain domain) { return static_cast<char*>(*scratch.Get(64, nullptr, domain)); };
  take(kA)[63] = 'a';
  EXPECT_EQ(take(kA)[63], 'a');
  EXPECT_EQ(take(kB)[63], 0);
  take(MemoryDomain::kNobody)[63] = 'n';
  EXPECT_EQ(take(MemoryDomain::kNobody)[63], 0);
  EXPECT_EQ(allocator->stats().in_use_bytes, 64);
}

TEST(HostScratch, ReleasesWhatIsLarge) {
  const auto allocator = MakeHostAllocator(nullptr, 8 << 20);
  HostScratch scratch(allocator.get());
  ASSERT_TRUE(scratch.Get(HostScratch::kKept).ok());
  scratch.ReleaseLarge();
  EXPECT_EQ(allocator->stats().in_use_bytes, HostScratch::kKept);
  ASSERT_TRUE(scratch.Get(HostScratch::kKept + 1).ok());
  scratch.ReleaseLarge();
  EXPECT_EQ(allocator->stats().in_use_bytes, 0);
}

TEST(HostAllocator, MemoryIsZeroWhateverItIsFor) {
  const auto allocator = MakeHostAllocator(nullptr, 8 << 20);
  for (const uint64_t bytes : {1000, 100'000, 1 << 20}) {
    for (int round = 0; round < 3; ++round) {
      const auto buffer = *allocator->Allocate(bytes, MemoryUse::kProgram);
      auto* const data = static_cast<char*>(buffer->host_data());
      EXPECT_EQ(std::count(data, data + bytes, 0), static_cast<std::ptrdiff_t>(bytes));
      std::fill(data, data + bytes, 'x');
    }
  }
}

}  // namespace
}  // namespace kiln::runtime::host
