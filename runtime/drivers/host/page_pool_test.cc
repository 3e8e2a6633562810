#include "runtime/drivers/host/page_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"

namespace kiln::runtime::host {
namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

// Of this process, as the system counts them.
int64_t MappingsNow() {
  std::ifstream maps("/proc/self/maps");
  int64_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

TEST(PagePool, EverySecondOneFreedLeavesNoMappingEach) {
  const auto mappings = std::make_shared<Mappings>();
  PagePool pool(mappings);
  for (const uint64_t bytes : {256 * kKiB, kMiB + 4096, 4 * kMiB, 5 * kMiB - 64, 17 * kMiB}) {
    const int64_t before = MappingsNow();
    std::vector<void*> all;
    for (int i = 0; i < 256; ++i) {
      const auto taken = pool.Take(bytes);
      ASSERT_TRUE(taken.ok()) << taken.status();
      all.push_back(*taken);
    }
    for (size_t i = 0; i < all.size(); i += 2) pool.Return(all[i], bytes);
    EXPECT_LT(MappingsNow() - before, 32) << bytes;
    for (size_t i = 1; i < all.size(); i += 2) pool.Return(all[i], bytes);
    // An empty slab of each kind stays.
    EXPECT_LE(mappings->used(), 2u);
    EXPECT_LE(MappingsNow() - before, 4) << bytes;
  }
}

TEST(PagePool, NoTwoHaveTheSameByteAndAllAreZero) {
  const auto mappings = std::make_shared<Mappings>();
  PagePool pool(mappings);
  std::mt19937_64 random(7);
  struct Piece {
    char* data;
    uint64_t bytes;
    char mark;
  };
  std::vector<Piece> pieces;
  const auto check_and_return = [&](size_t at) {
    const Piece piece = pieces[at];
    // At its ends, where another would begin.
    for (const uint64_t byte : {uint64_t{0}, piece.bytes / 2, piece.bytes - 1})
      ASSERT_EQ(piece.data[byte], piece.mark) << byte << " of " << piece.bytes;
    pool.Return(piece.data, piece.bytes);
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(at));
  };
  for (int step = 0; step < 600; ++step) {
    if (pieces.size() < 40 && random() % 5 < 3) {
      const uint64_t bytes = 256 * kKiB + random() % (step % 10 == 0 ? 40 * kMiB : 6 * kMiB);
      const auto taken = pool.Take(bytes);
      ASSERT_TRUE(taken.ok()) << taken.status();
      char* const data = static_cast<char*>(*taken);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kPage, 0u);
      const char mark = static_cast<char>('a' + step % 26);
      for (const uint64_t byte : {uint64_t{0}, bytes / 2, bytes - 1}) {
        ASSERT_EQ(data[byte], 0) << byte << " of " << bytes;
        data[byte] = mark;
      }
      pieces.push_back({data, bytes, mark});
    } else if (!pieces.empty()) {
      check_and_return(random() % pieces.size());
    }
  }
  while (!pieces.empty()) check_and_return(0);
  EXPECT_LE(mappings->used(), 2u);
}

TEST(PagePool, MoreMappingsThanItMayHaveAreRefusedByName) {
  const auto mappings = std::make_shared<Mappings>(3);
  PagePool pool(mappings);
  PagePool other(mappings);
  const auto one = pool.Take(PagePool::kOwnMapping);
  const auto two = other.Take(PagePool::kOwnMapping);
  const auto small = pool.Take(256 * kKiB);
  ASSERT_TRUE(one.ok() && two.ok() && small.ok());
  for (const uint64_t bytes : {PagePool::kOwnMapping, 4 * kMiB}) {
    const auto refused = pool.Take(bytes);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    const auto detail = DetailOf(refused.status());
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->code(), v1::OUT_OF_MEMORY);
    EXPECT_EQ(detail->limit(), "memory mappings");
    EXPECT_EQ(detail->limit_value(), 3u);
    EXPECT_EQ(detail->used(), 3u);
  }
  // The slab that is there has room.
  const auto more = pool.Take(kMiB);
  ASSERT_TRUE(more.ok());
  other.Return(*two, PagePool::kOwnMapping);
  const auto again = pool.Take(PagePool::kOwnMapping);
  ASSERT_TRUE(again.ok()) << again.status();
  pool.Return(*again, PagePool::kOwnMapping);
  pool.Return(*more, kMiB);
  pool.Return(*small, 256 * kKiB);
  pool.Return(*one, PagePool::kOwnMapping);
}

TEST(PagePool, WhatTheSystemDoesNotTakeBackIsEmptyAndUsedAgain) {
  const auto mappings = std::make_shared<Mappings>();
  if (mappings->limit() > 50'000) GTEST_SKIP() << "this system gives a process too many mappings to use them up";
  PagePool pool(mappings);
  constexpr uint64_t kBytes = PagePool::kOwnMapping;
  // They meet, so that the system makes one mapping of them.
  std::vector<void*> all;
  for (int i = 0; i < 8; ++i) all.push_back(*pool.Take(kBytes));
  std::sort(all.begin(), all.end());
  size_t middle = 0;
  for (size_t i = 1; i + 1 < all.size(); ++i) {
    if (static_cast<char*>(all[i]) + kBytes == all[i + 1] && static_cast<char*>(all[i - 1]) + kBytes == all[i])
      middle = i;
  }
  ASSERT_NE(middle, 0u);
  static_cast<char*>(all[middle])[12'345] = 'x';
  // All others that there may be: neighbours that differ are never one.
  std::vector<void*> fill;
  fill.reserve(1 << 18);
  for (int i = 0;; ++i) {
    void* const page = mmap(nullptr, kPage, i % 2 == 0 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) break;
    fill.push_back(page);
  }
  pool.Return(all[middle], kBytes);
  const uint64_t used = mappings->used();
  const absl::StatusOr<void*> again = pool.Take(kBytes);
  const absl::StatusOr<void*> none = pool.Take(kBytes);
  for (void* page : fill) munmap(page, kPage);
  EXPECT_EQ(used, 8u);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, all[middle]);
  EXPECT_EQ(static_cast<char*>(*again)[12'345], 0);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted) << none.status();
  for (void* data : all) pool.Return(data, kBytes);
  EXPECT_EQ(mappings->used(), 0u);
}

}  // namespace
}  // namespace kiln::runtime::host
