#include "runtime/drivers/host/map_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

namespace kiln::runtime::host {
namespace {

TEST(MapPages, MemoryIsZeroAndMayBeWritten) {
  for (const uint64_t bytes : {uint64_t{4096}, kWorthLargePages - 4096, kWorthLargePages, kWorthLargePages + 4096}) {
    const PageSize size = bytes < kWorthLargePages ? PageSize::kSmall : PageSize::kLarge;
    auto* data = static_cast<char*>(MapPages(bytes, size));
    ASSERT_NE(data, nullptr);
    EXPECT_TRUE(std::all_of(data, data + bytes, [](char c) { return c == 0; }));
    std::fill(data, data + bytes, 'x');
    EXPECT_EQ(data[bytes - 1], 'x');
    EXPECT_TRUE(UnmapPages(data, bytes));
  }
}

TEST(MapPages, LargeMappingsBeginOnALargePage) {
  for (int iteration = 0; iteration < 8; ++iteration) {
    const uint64_t bytes = kWorthLargePages + 4096 * static_cast<uint64_t>(iteration);
    void* data = MapPages(bytes, PageSize::kLarge);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kLargePage, 0u);
    EXPECT_TRUE(UnmapPages(data, bytes));
  }
}

TEST(ClearPages, AllOfItIsZeroAndNothingElse) {
  constexpr uint64_t kAll = kMaxZeroed + 3 * 4096;
  auto* data = static_cast<char*>(MapPages(kAll, PageSize::kLarge));
  ASSERT_NE(data, nullptr);
  struct Part {
    uint64_t begin, bytes;
  };
  for (const Part part : {Part{0, 100}, Part{0, kMaxZeroed}, Part{0, kAll}, Part{1, kAll - 2}, Part{4096, kAll - 4096},
                          Part{5000, kMaxZeroed + 1}}) {
    std::fill(data, data + kAll, 'x');
    ClearPages(data + part.begin, part.bytes);
    const auto* begin = data + part.begin;
    const auto* end = begin + part.bytes;
    EXPECT_TRUE(std::all_of(static_cast<const char*>(data), begin, [](char c) { return c == 'x'; })) << part.begin;
    EXPECT_TRUE(std::all_of(begin, end, [](char c) { return c == 0; })) << part.bytes;
    EXPECT_TRUE(std::all_of(end, static_cast<const char*>(data) + kAll, [](char c) { return c == 'x'; })) << part.bytes;
  }
  EXPECT_TRUE(UnmapPages(data, kAll));
}

TEST(MapPages, WhatNoMachineHasIsNull) {
  for (const PageSize size : {PageSize::kSmall, PageSize::kLarge})
    EXPECT_EQ(MapPages(uint64_t{1} << 62, size), nullptr);
}

TEST(EmptyPages, AreZeroWhereTheyWere) {
  auto* data = static_cast<char*>(MapPages(3 * kPage, PageSize::kSmall));
  ASSERT_NE(data, nullptr);
  std::fill(data, data + 3 * kPage, 'x');
  EmptyPages(data + kPage, kPage);
  EXPECT_EQ(std::count(data, data + 3 * kPage, 'x'), static_cast<std::ptrdiff_t>(2 * kPage));
  EXPECT_TRUE(std::all_of(data + kPage, data + 2 * kPage, [](char c) { return c == 0; }));
  EXPECT_TRUE(UnmapPages(data, 3 * kPage));
}

}  // namespace
}  // namespace kiln::runtime::host
