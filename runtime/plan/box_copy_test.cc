#include "runtime/plan/box_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace kiln::runtime {
namespace {

// A whole value 0, 1, 2, ... taken into the shares of one layout, then from these into
// those of another, and back into the whole.
void ExpectRoundTrip(const ValueLayout& a, const ValueLayout& b) {
  const ValueLayout whole = {a.shape, -1, 1};
  std::vector<std::vector<int16_t>> shares[3] = {
      {std::vector<int16_t>(static_cast<size_t>(whole.Elements()))},
      std::vector<std::vector<int16_t>>(static_cast<size_t>(a.shares),
                                        std::vector<int16_t>(static_cast<size_t>(a.Elements()), -1)),
      std::vector<std::vector<int16_t>>(static_cast<size_t>(b.shares),
                                        std::vector<int16_t>(static_cast<size_t>(b.Elements()), -1))};
  std::iota(shares[0][0].begin(), shares[0][0].end(), int16_t{0});
  const auto wanted = shares[0][0];
  const ValueLayout* layouts[] = {&whole, &a, &b, &whole};
  for (int step = 0; step < 3; ++step) {
    auto& from = shares[step];
    auto& to = shares[(step + 1) % 3];
    for (auto& share : to) std::fill(share.begin(), share.end(), int16_t{-1});
    for (size_t j = 0; j < to.size(); ++j) {
      for (size_t i = 0; i < from.size(); ++i) {
        const auto box = MeetShares(*layouts[step], static_cast<int64_t>(i), *layouts[step + 1],
                                    static_cast<int64_t>(j), sizeof(int16_t));
        if (!box.has_value()) continue;
        ASSERT_LE(box->FromEnd(), from[i].size() * sizeof(int16_t));
        ASSERT_LE(box->ToEnd(), to[j].size() * sizeof(int16_t));
        // In parts of some length, the first of which is no limit.
        const uint64_t max_bytes = std::vector<uint64_t>{1 << 20, 2, 6, 14}[(i + j) % 4];
        std::vector<BoxCopy> parts;
        SplitBox(*box, max_bytes, sizeof(int16_t), parts);
        for (const BoxCopy& part : parts) {
          ASSERT_LE(part.FromEnd() - part.from_offset, max_bytes);
          ASSERT_LE(part.ToEnd() - part.to_offset, max_bytes);
          ForEachRun(part, reinterpret_cast<const char*>(from[i].data()), reinterpret_cast<char*>(to[j].data()),
                     [](const char* source, char* target, uint64_t bytes) { std::memcpy(target, source, bytes); });
        }
      }
    }
  }
  EXPECT_EQ(shares[0][0], wanted);
}

TEST(BoxCopy, EveryLayoutGoesToEveryOther) {
  const std::vector<int64_t> shape = {4, 6, 12};
  std::vector<ValueLayout> layouts = {{shape, -1, 1}, {shape, -1, 3}};
  for (int axis = 0; axis < 3; ++axis) {
    for (int64_t shares : {2, 3, 4}) {
      if (shape[static_cast<size_t>(axis)] % shares == 0) layouts.push_back({shape, axis, shares});
    }
  }
  for (const ValueLayout& a : layouts) {
    for (const ValueLayout& b : layouts) ExpectRoundTrip(a, b);
  }
}

TEST(BoxCopy, NeighboursInMemoryAreOneRun) {
  const auto box = MeetShares({{4, 6}, -1, 1}, 0, {{4, 6}, 0, 2}, 1, 4);
  ASSERT_TRUE(box.has_value());
  EXPECT_EQ(box->from_offset, 48u);
  EXPECT_EQ(box->to_offset, 0u);
  EXPECT_EQ(box->run_bytes, 48u);
  EXPECT_TRUE(box->repeats.empty());
}

TEST(BoxCopy, NothingHasNothing) {
  EXPECT_FALSE(MeetShares({{0, 6}, -1, 1}, 0, {{0, 6}, 0, 2}, 1, 4).has_value());
  EXPECT_TRUE(MeetShares({{}, -1, 2}, 0, {{}, -1, 2}, 1, 4).has_value());  // a scalar
}

}  // namespace
}  // namespace kiln::runtime
