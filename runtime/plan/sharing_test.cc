#include "runtime/plan/sharing.h"

#include <random>

#include "gtest/gtest.h"

namespace kiln::runtime {
namespace {

bool Share(const Region& a, const Region& b) {
  return a.memory == b.memory && a.begin < b.end && b.begin < a.end && a.begin < a.end && b.begin < b.end;
}

TEST(FindClash, IsWhatComparingEachWithEachFinds) {
  std::mt19937 random(11);
  const auto below = [&](uint64_t n) { return random() % n; };
  int clashes = 0;
  for (int round = 0; round < 20'000; ++round) {
    Regions regions;
    const uint64_t count = below(9), size = 1 + below(40);
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t begin = below(size);
      regions.push_back({below(3), begin, begin + below(6), below(4) == 0, i});
    }
    bool expected = false;
    for (const Region& a : regions) {
      for (const Region& b : regions) expected |= a.name != b.name && a.written && Share(a, b);
    }
    const Regions given = regions;
    const auto found = FindClash(regions);
    ASSERT_EQ(found.has_value(), expected) << round;
    if (!found.has_value()) continue;
    ++clashes;
    EXPECT_NE(found->first, found->second);
    EXPECT_TRUE(given[found->first].written) << round;
    EXPECT_TRUE(Share(given[found->first], given[found->second])) << round;
  }
  EXPECT_GT(clashes, 2000);
  EXPECT_LT(clashes, 18'000);
}

}  // namespace
}  // namespace kiln::runtime
