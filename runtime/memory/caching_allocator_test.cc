#include "runtime/memory/caching_allocator.h"

#include <cstring>
#include <thread>
#include <vector>

#include "base/account.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/host/host_allocator.h"

namespace kiln::runtime {
namespace {

using hal::MemoryUse;

constexpr MemoryDomain kA{100}, kB{101};

class CachingAllocatorTest : public ::testing::Test {
 protected:
  std::shared_ptr<hal::Buffer> New(uint64_t bytes, MemoryUse use = MemoryUse::kProgram) {
    auto buffer = allocator_->Allocate(bytes, use);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *buffer : nullptr;
  }

  uint64_t cleared_ = 0;
  absl::Status clearing_;
  std::unique_ptr<hal::Allocator> allocator_ =
      MakeCachingAllocator(host::MakeHostAllocator(nullptr, 1 << 20), 512 << 10, [this](void* data, uint64_t bytes) {
        std::memset(data, 0, bytes);
        cleared_ += bytes;
        return clearing_;
      });
};

TEST(SizeClass, FourToADoubling) {
  const uint64_t kCases[][2] = {{0, 256},     {1, 256},     {256, 256},   {257, 320},
                                {320, 320},   {449, 512},   {512, 512},   {513, 640},
                                {1025, 1280}, {4096, 4096}, {4097, 5120}, {(uint64_t{1} << 62) - 1, uint64_t{1} << 62}};
  for (const auto& [bytes, expected] : kCases) EXPECT_EQ(SizeClass(bytes), expected) << bytes;
}

TEST(SizeClass, WastesAtMostAFifth) {
  for (uint64_t bytes = 256; bytes < 100'000; ++bytes) {
    const uint64_t rounded = SizeClass(bytes);
    ASSERT_GE(rounded, bytes);
    ASSERT_LE((rounded - bytes) * 5, rounded) << bytes;
    ASSERT_EQ(SizeClass(rounded), rounded);
  }
}

TEST_F(CachingAllocatorTest, WhatStandsForMemoryElsewhereCountsAndIsNotKept) {
  New(300 << 10).reset();
  EXPECT_GT(allocator_->stats().cached_bytes, 0u);
  auto stands = New(900 << 10, MemoryUse::kElsewhere);
  EXPECT_EQ(stands->device_data(), nullptr);
  EXPECT_EQ(stands->bytes(), 900u << 10);
  EXPECT_EQ(allocator_->stats().cached_bytes, 0u) << "what is idle makes room";
  EXPECT_EQ(allocator_->stats().in_use_bytes, 900u << 10);
  EXPECT_FALSE(allocator_->Allocate(200 << 10, MemoryUse::kProgram).ok());
  EXPECT_FALSE(allocator_->Allocate(200 << 10, MemoryUse::kElsewhere).ok());
  stands.reset();
  EXPECT_EQ(allocator_->stats().in_use_bytes, 0u);
  EXPECT_EQ(allocator_->stats().cached_bytes, 0u);
}

TEST_F(CachingAllocatorTest, ReliefIsAskedBeforeMemoryIsRefused) {
  hal::Guarantees& guarantees = allocator_->guarantees();
  const auto allocate = [&](uint64_t bytes) {
    return guarantees.Allocate(nullptr, *allocator_, bytes, MemoryUse::kProgram);
  };
  auto kept = *allocate(800 << 10);
  int asked = 0;
  guarantees.SetRelief([&] {
    ++asked;
    kept = nullptr;
  });
  EXPECT_TRUE(allocate(1 << 10).ok());
  EXPECT_EQ(asked, 0);
  EXPECT_FALSE(allocate(2 << 20).ok()) << "more than there is";
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(allocate(700 << 10).ok());
  EXPECT_EQ(asked, 1);
  // What is guaranteed to others is no less free for that.
  Account other;
  guarantees.Set({{&other, 900 << 10}});
  EXPECT_FALSE(allocate(700 << 10).ok());
  EXPECT_EQ(asked, 2);
  guarantees.SetRelief(nullptr);
  EXPECT_FALSE(allocate(700 << 10).ok());
  EXPECT_EQ(asked, 2);
}

TEST_F(CachingAllocatorTest, ReusesMemoryOfTheSameClass) {
  std::shared_ptr<hal::Buffer> first = New(1000);
  void* const data = first->device_data();
  EXPECT_EQ(allocator_->stats().in_use_bytes, 1024);
  first.reset();
  EXPECT_EQ(allocator_->stats().in_use_bytes, 0);
  EXPECT_EQ(allocator_->stats().cached_bytes, 1024);
  const auto second = New(900);
  EXPECT_EQ(second->device_data(), data);
  EXPECT_EQ(second->bytes(), 900);
  EXPECT_EQ(allocator_->stats().cached_bytes, 0);
  EXPECT_EQ(allocator_->stats().reuses, 1);
  EXPECT_EQ(allocator_->stats().allocations, 2);
}

TEST_F(CachingAllocatorTest, RoundingAndScratchTakeNothingOfWhatIsGuaranteed) {
  constexpr uint64_t kAll = 1 << 20, kGuaranteed = 73 * 4096;
  const Account a, b;
  hal::Guarantees& guarantees = allocator_->guarantees();
  guarantees.Set({{&a, kGuaranteed}});
  const auto take = [&](const Account& account, uint64_t bytes, MemoryUse use = MemoryUse::kProgram) {
    return guarantees.Allocate(&account, *allocator_, bytes, use);
  };
  ASSERT_GT(SizeClass(kAll - kGuaranteed), kAll - kGuaranteed);
  const auto most = take(b, kAll - kGuaranteed);
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_FALSE(take(b, 64).ok());
  {
    const auto all = take(a, kGuaranteed);
    EXPECT_TRUE(all.ok()) << all.status();
  }
  EXPECT_FALSE(take(b, 4096, MemoryUse::kScratch).ok());
  // What it has as scratch is within its part, and none of what it is told that it has.
  const auto scratch = take(a, kGuaranteed / 2, MemoryUse::kScratch);
  EXPECT_TRUE(scratch.ok()) << scratch.status();
  EXPECT_EQ(guarantees.Of(&a).used, 0u);
  EXPECT_FALSE(take(b, 64).ok());
}

TEST_F(CachingAllocatorTest, WithinADomainRecycledMemoryIsZeroForAClientOnly) {
  const auto take = [&](MemoryUse use) { return *allocator_->Allocate(1000, use, kA); };
  std::memset(take(MemoryUse::kProgram)->host_data(), 0xee, 1000);
  EXPECT_EQ(static_cast<unsigned char*>(take(MemoryUse::kProgram)->host_data())[999], 0xee);
  EXPECT_EQ(cleared_, 0);
  const auto clean = take(MemoryUse::kClient);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(static_cast<char*>(clean->host_data())[i], 0) << i;
  EXPECT_EQ(cleared_, 1000);
}

// The whole piece: what the next of the same domain gets may be longer.
TEST_F(CachingAllocatorTest, AnotherDomainFindsNothing) {
  for (const MemoryDomain left : {kA, MemoryDomain::kNobody, MemoryDomain::kServer}) {
    allocator_->Trim();
    std::memset((*allocator_->Allocate(1024, MemoryUse::kProgram, left))->host_data(), 0xee, 1024);
    (*allocator_->Allocate(900, MemoryUse::kScratch, kB)).reset();
    const auto longer = *allocator_->Allocate(1024, MemoryUse::kProgram, kB);
    for (int i = 0; i < 1024; ++i) ASSERT_EQ(static_cast<char*>(longer->host_data())[i], 0) << i;
  }
  EXPECT_EQ(allocator_->stats().reuses, 6);
}

TEST_F(CachingAllocatorTest, WhoIsNobodyFindsNothingOfNobody) {
  std::memset(New(1000)->host_data(), 0xee, 1000);
  EXPECT_EQ(static_cast<char*>(New(1000)->host_data())[999], 0);
  EXPECT_EQ(allocator_->stats().reuses, 1);
}

TEST_F(CachingAllocatorTest, WhoHasLeftSomeGetsThatAgain) {
  std::shared_ptr<hal::Buffer> a = *allocator_->Allocate(1000, MemoryUse::kProgram, kA);
  std::shared_ptr<hal::Buffer> b = *allocator_->Allocate(1000, MemoryUse::kProgram, kB);
  const void* const own = a->device_data();
  a.reset();
  b.reset();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*allocator_->Allocate(1000, MemoryUse::kProgram, kA))->device_data(), own);
    EXPECT_NE((*allocator_->Allocate(1000, MemoryUse::kProgram, kB))->device_data(), own);
  }
  EXPECT_EQ(cleared_, 0);
}

TEST_F(CachingAllocatorTest, WhatCannotBeClearedIsGivenToNobody) {
  std::memset((*allocator_->Allocate(1000, MemoryUse::kProgram, kA))->host_data(), 0xee, 1000);
  clearing_ = absl::UnavailableError("lost");
  EXPECT_EQ(allocator_->Allocate(1000, MemoryUse::kProgram, kB).status(), clearing_);
  EXPECT_EQ(allocator_->stats().in_use_bytes, 0);
  clearing_ = absl::OkStatus();
  EXPECT_EQ(static_cast<char*>((*allocator_->Allocate(1000, MemoryUse::kProgram, kB))->host_data())[5], 0);
}

TEST_F(CachingAllocatorTest, CacheIsBoundedAndDropsTheOldest) {
  std::vector<std::shared_ptr<hal::Buffer>> buffers;
  for (int i = 0; i < 6; ++i) buffers.push_back(New(128 << 10));
  void* const last = buffers.back()->device_data();
  for (auto& buffer : buffers) buffer.reset();
  EXPECT_EQ(allocator_->stats().cached_bytes, 512 << 10);
  EXPECT_EQ(New(128 << 10)->device_data(), last);
  EXPECT_EQ(allocator_->stats().peak_bytes, 6 * (128 << 10));
}

TEST_F(CachingAllocatorTest, IdleMemoryGivesWayToARequest) {
  auto kept = New(512 << 10);
  kept.reset();
  EXPECT_EQ(allocator_->stats().cached_bytes, 512 << 10);
  // Of another class, and fits only without what is idle.
  const auto large = New(900 << 10);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(allocator_->stats().cached_bytes, 0);
}

TEST_F(CachingAllocatorTest, RoundingNeverCausesRefusal) {
  // The class of this size is above the limit.
  const uint64_t bytes = (1 << 20) - 4096;
  EXPECT_GT(SizeClass(bytes), bytes);
  EXPECT_NE(New(bytes), nullptr);
}

TEST_F(CachingAllocatorTest, OutOfMemoryNamesTheLimit) {
  for (const uint64_t bytes : {uint64_t{2} << 20, uint64_t{1} << 62, ~uint64_t{0}}) {
    const auto refused = allocator_->Allocate(bytes, MemoryUse::kClient);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(DetailOf(refused.status())->code(), v1::OUT_OF_MEMORY);
    EXPECT_EQ(DetailOf(refused.status())->limit_value(), 1 << 20);
  }
  EXPECT_EQ(allocator_->stats().limit_bytes, 1 << 20);
}

TEST_F(CachingAllocatorTest, TrimEmptiesTheCache) {
  New(1000);
  New(100'000);
  EXPECT_GT(allocator_->stats().cached_bytes, 0);
  allocator_->Trim();
  EXPECT_EQ(allocator_->stats().cached_bytes, 0);
}

TEST_F(CachingAllocatorTest, ManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        auto buffer = allocator_->Allocate(100 * (1 + (t + i) % 9), MemoryUse::kProgram);
        ASSERT_TRUE(buffer.ok());
        std::memset((*buffer)->host_data(), t, (*buffer)->bytes());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator_->stats().in_use_bytes, 0);
  EXPECT_EQ(allocator_->stats().buffers, 0);
  EXPECT_EQ(allocator_->stats().allocations, 4000);
}

}  // namespace
}  // namespace kiln::runtime
