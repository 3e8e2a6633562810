// Memory: what an allocator promises (runtime/hal/allocator.h).
#include <algorithm>
#include <cstring>
#include <map>

#include "tests/hal/hal_test.h"

namespace kiln::testing {
namespace {

class Allocation : public HalTest {
 protected:
  runtime::hal::AllocatorStats stats(size_t number = 0) { return device(number).stats().memory; }
  uint64_t limit() { return stats().limit_bytes; }
  absl::Status Refusal(uint64_t bytes) { return device().allocator().Allocate(bytes, MemoryUse::kProgram).status(); }
};

TEST_P(Allocation, AddressesAreAlignedAndApart) {
  std::vector<BufferSlice> slices;
  std::map<uint64_t, uint64_t> ranges;  // begin -> end
  for (const MemoryUse use : {MemoryUse::kProgram, MemoryUse::kClient}) {
    for (const uint64_t bytes : {1, 63, 64, 65, 255, 256, 257, 4096, 300'000}) {
      slices.push_back(New(bytes, use));
      EXPECT_EQ(slices.back().buffer->bytes(), bytes);
      EXPECT_EQ(slices.back().buffer->device(), &device());
      const auto address = reinterpret_cast<uint64_t>(slices.back().device_data());
      EXPECT_EQ(address % runtime::hal::kBufferAlignment, 0u) << bytes;
      ranges[address] = address + bytes;
    }
  }
  ASSERT_EQ(ranges.size(), slices.size());
  uint64_t end = 0;
  for (const auto& [from, to] : ranges) {
    EXPECT_GE(from, end);
    end = to;
  }
}

TEST_P(Allocation, ZeroBytesAreABuffer) {
  const BufferSlice one = New(0, MemoryUse::kClient), other = New(0);
  EXPECT_EQ(one.buffer->bytes(), 0u);
  EXPECT_NE(one.buffer->device_data(), nullptr);
  EXPECT_NE(one.buffer->device_data(), other.buffer->device_data());
  EXPECT_EQ(BytesOf(one), "");
}

TEST_P(Allocation, WhatAClientGetsIsZeroFreshAndAgain) {
  for (const uint64_t bytes : {1, 65, 5000, 300'000, 1 << 20, 10 << 20}) {
    for (int round = 0; round < 3; ++round) {
      const BufferSlice slice = New(bytes, MemoryUse::kClient), beside = New(bytes, MemoryUse::kClient);
      EXPECT_TRUE(BytesOf(slice) == std::string(bytes, '\0')) << bytes << ", round " << round;
      // Also by Store and Load, which do not wait for the queue.
      std::string want(bytes, '\0'), direct(bytes, 'x');
      want[0] = 'a';
      ASSERT_EQ(device().Store("a", 1, beside.device_data()), absl::OkStatus());
      ASSERT_EQ(device().Load(beside.device_data(), bytes, direct.data()), absl::OkStatus());
      EXPECT_TRUE(direct == want) << bytes << ", round " << round;
      ASSERT_EQ(Fill(device(), slice, "\xff"), absl::OkStatus());
      ASSERT_EQ(Fill(device(), beside, "\xff"), absl::OkStatus());
    }
    Settle();
  }
}

TEST_P(Allocation, TheHostSeesTheMemoryOrIsToldSo) {
  const BufferSlice slice = NewWith("abcdef");
  const BufferSlice middle{slice.buffer, 2, 3};
  if (Lacks(Feature::kHostMemory) != nullptr) {
    EXPECT_EQ(slice.buffer->host_data(), nullptr);
    EXPECT_EQ(middle.host_data(), nullptr);
  } else {
    ASSERT_EQ(slice.buffer->host_data(), slice.buffer->device_data());
    EXPECT_EQ(std::string(static_cast<char*>(middle.host_data()), 3), "cde");
    std::memcpy(middle.host_data(), "XYZ", 3);
    EXPECT_EQ(BytesOf(slice), "abXYZf");
  }
}

TEST_P(Allocation, MoreThanTheLimitIsRefusedWithNumbers) {
  const BufferSlice held = New(1000);
  for (const uint64_t bytes : {limit() + 1, uint64_t{1} << 62, ~uint64_t{0} - 63, ~uint64_t{0}}) {
    const absl::Status refused = Refusal(bytes);
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    ASSERT_EQ(CodeOf(refused), v1::OUT_OF_MEMORY) << refused;
    EXPECT_EQ(DetailOf(refused)->limit_value(), limit());
    EXPECT_GE(DetailOf(refused)->used(), 1000u);
    EXPECT_NE(refused.message().find(std::to_string(bytes)), std::string::npos) << refused;
  }
  EXPECT_EQ(stats().buffers, 1u);
}

TEST_P(Allocation, WhatIsFreedCanBeHadAgain) {
  BufferSlice half = New(limit() / 2);
  EXPECT_EQ(CodeOf(Refusal(limit() / 2 + 4096)), v1::OUT_OF_MEMORY);
  half = {};
  Settle();
  // Of another size, so that a cache cannot return the same memory.
  EXPECT_NE(New(limit() / 2 + 4096).buffer, nullptr);
  Settle();
  EXPECT_NE(New(limit() / 4).buffer, nullptr);
}

TEST_P(Allocation, StatisticsSayWhatIsThere) {
  EXPECT_EQ(stats().in_use_bytes, 0u);
  EXPECT_EQ(stats().buffers, 0u);
  EXPECT_EQ(stats().allocations, 0u);
  {
    const BufferSlice small = New(1000), large = New(500'000);
    EXPECT_EQ(stats().buffers, 2u);
    EXPECT_EQ(stats().allocations, 2u);
    EXPECT_GE(stats().in_use_bytes, 501'000u);
    EXPECT_LE(stats().in_use_bytes, 501'000u * 5 / 4 + 4096);  // rounding included
    EXPECT_EQ(stats().peak_bytes, stats().in_use_bytes);
  }
  const uint64_t peak = stats().peak_bytes;
  Settle();
  EXPECT_EQ(stats().in_use_bytes, 0u);
  EXPECT_EQ(stats().buffers, 0u);
  New(10);
  EXPECT_EQ(stats().peak_bytes, peak);
  EXPECT_EQ(stats().allocations, 3u);
}

TEST_P(Allocation, FreedMemoryIsKeptForTheNextUntilTrimmed) {
  if (const char* why = Lacks(Feature::kCache)) GTEST_SKIP() << why;
  New(5000);
  Settle();
  EXPECT_GE(stats().cached_bytes, 5000u);
  EXPECT_EQ(stats().in_use_bytes, 0u);
  const BufferSlice again = New(5001);
  EXPECT_EQ(stats().reuses, 1u);
  EXPECT_EQ(stats().cached_bytes, 0u);
  New(9000);
  Settle();
  EXPECT_GE(stats().cached_bytes, 9000u);
  device().allocator().Trim();
  EXPECT_EQ(stats().cached_bytes, 0u);
  EXPECT_EQ(stats().buffers, 1u);
}

TEST_P(Allocation, EachDeviceHasItsOwn) {
  if (const char* why = Lacks(Feature::kPair)) GTEST_SKIP() << why;
  const BufferSlice first = New(limit() / 2);
  EXPECT_EQ(stats(1).in_use_bytes, 0u);
  EXPECT_EQ(stats(1).limit_bytes, limit());
  EXPECT_NE(New(limit() / 2, MemoryUse::kProgram, 1).buffer, nullptr);
}

TEST_P(Allocation, ScratchMemoryOfADomainGrowsAndStays) {
  const auto scratch_of = [&](uint64_t bytes) { return device().Scratch(bytes, nullptr, MemoryDomain::kFirst); };
  void *small = nullptr, *less = nullptr, *large = nullptr, *again = nullptr;
  InQueue([&] { small = *scratch_of(100); });
  InQueue([&] { less = *scratch_of(50); });
  InQueue([&] { large = *scratch_of(100'000); });
  InQueue([&] { again = *scratch_of(0); });
  EXPECT_NE(small, nullptr);
  EXPECT_EQ(less, small);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(again, large);
  for (void* scratch : {small, large})
    EXPECT_EQ(reinterpret_cast<uint64_t>(scratch) % runtime::hal::kBufferAlignment, 0u);
  absl::Status refused;
  InQueue([&] { refused = scratch_of(limit() + 1).status(); });
  EXPECT_EQ(CodeOf(refused), v1::OUT_OF_MEMORY);
  InQueue([&] { again = *scratch_of(64); });
  EXPECT_NE(again, nullptr);
}

// Results and arenas, constants, scratch: whatever it was for, and is.
TEST_P(Allocation, NobodyFindsWhatAnotherDomainLeft) {
  uint64_t domains = 100;
  for (const uint64_t bytes : {100, 5000, 300'000}) {
    for (const MemoryUse use : {MemoryUse::kProgram, MemoryUse::kScratch, MemoryUse::kClient}) {
      // New ones each time: each may find again what it left itself.
      const MemoryDomain a{domains++}, b{domains++};
      for (const auto& [left, got] : {std::pair(a, b), std::pair(a, MemoryDomain::kNobody),
                                      std::pair(MemoryDomain::kNobody, MemoryDomain::kNobody)}) {
        const auto take = [&](MemoryDomain domain) {
          return BufferSlice::Whole(device().allocator().Allocate(bytes, use, domain).value());
        };
        // More than one, of which each must be clear.
        for (int round = 0; round < 2; ++round) {
          const BufferSlice one = take(left), other = take(left);
          for (const BufferSlice& slice : {one, other}) ASSERT_EQ(Fill(device(), slice, "\xa5"), absl::OkStatus());
        }
        Settle();
        const BufferSlice one = take(got), other = take(got);
        for (const BufferSlice& slice : {one, other})
          EXPECT_TRUE(BytesOf(slice) == std::string(bytes, '\0')) << bytes << ", use " << static_cast<int>(use);
      }
    }
  }
}

TEST_P(Allocation, NobodyFindsInScratchMemoryWhatAnotherDomainLeft) {
  // Whose number is 0 does not find its own, either.
  const auto leave = [&](uint64_t domain, uint64_t bytes) {
    void* const scratch = *device().Scratch(bytes, nullptr, MemoryDomain{domain});
    std::string held(bytes, 'x');
    EXPECT_EQ(device().Load(scratch, bytes, held.data()), absl::OkStatus());
    const std::string own(bytes, static_cast<char>(domain == 0 ? 1 : domain));
    EXPECT_EQ(device().Store(own.data(), bytes, scratch), absl::OkStatus());
    const auto others = std::count_if(held.begin(), held.end(), [domain](char byte) {
      return byte != 0 && (domain == 0 || byte != static_cast<char>(domain));
    });
    EXPECT_EQ(others, 0) << bytes << " bytes for " << domain;
  };
  for (const uint64_t bytes : {1000, 1 << 20}) {
    for (const uint64_t domain : {100, 101, 102, 100, 101, 0, 0, 102}) InQueue([&] { leave(domain, bytes); });
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Allocation, ::testing::ValuesIn(RowPointers()), RowName);

}  // namespace
}  // namespace kiln::testing
