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

TEST(MapPages, WhatNoMachineHasIsNull) { EXPECT_EQ(MapPages(uint64_t{1} << 62), nullptr); }

}  // namespace
}  // namespace kiln::runtime::host
