#include "runtime/drivers/host/map_pages.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kiln::runtime::host {
namespace {

TEST(MapPages, MemoryIsZeroAndMayBeWritten) {
  for (const uint64_t bytes : {uint64_t{4096}, kWorthLargePages - 4096, kWorthLargePages, kWorthLargePages + 4096}) {
    auto* data = static_cast<char*>(MapPages(bytes));
    ASSERT_NE(data, nullptr);
    EXPECT_TRUE(std::all_of(data, data + bytes, [](char c) { return c == 0; }));
    std::fill(data, data + bytes, 'x');
    EXPECT_EQ(data[bytes - 1], 'x');
    UnmapPages(data, bytes);
  }
}

TEST(MapPages, LargeMappingsBeginOnALargePage) {
  for (int iteration = 0; iteration < 8; ++iteration) {
    const uint64_t bytes = kWorthLargePages + 4096 * static_cast<uint64_t>(iteration);
    void* data = MapPages(bytes);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kLargePage, 0u);
    UnmapPages(data, bytes);
  }
}

TEST(ClearPages, AllOfItIsZeroAndNothingElse) {
  constexpr uint64_t kAll = kMaxZeroed + 3 * 4096;
  auto* data = static_cast<char*>(MapPages(kAll));
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
  UnmapPages(data, kAll);
}

TEST(MapPages, WhatNoMachineHasIsNull) { EXPECT_EQ(MapPages(uint64_t{1} << 62), nullptr); }

}  // namespace
}  // namespace kiln::runtime::host
