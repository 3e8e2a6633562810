#include "runtime/plan/access_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kiln::runtime {
namespace {

using Tasks = std::vector<uint32_t>;

class Orders : public ::testing::Test {
 protected:
  Tasks Access(uint64_t memory, uint64_t begin, uint64_t end, bool writes, uint32_t task) {
    Tasks waits;
    order_.Access(memory, begin, end, writes, task, waits);
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    return waits;
  }
  Tasks Read(uint64_t begin, uint64_t end, uint32_t task) { return Access(0, begin, end, false, task); }
  Tasks Write(uint64_t begin, uint64_t end, uint32_t task) { return Access(0, begin, end, true, task); }

 private:
  AccessOrder order_;
};

TEST_F(Orders, ReadersWaitForTheWriterAndNotForEachOther) {
  EXPECT_EQ(Write(0, 100, 0), Tasks());
  EXPECT_EQ(Read(10, 20, 1), Tasks{0});
  EXPECT_EQ(Read(15, 50, 2), Tasks{0});
  EXPECT_EQ(Read(200, 300, 3), Tasks());
}

TEST_F(Orders, AWriterWaitsForAllReadersOfWhatItOverwrites) {
  Write(0, 100, 0);
  Read(0, 30, 1);
  Read(20, 60, 2);
  EXPECT_EQ(Write(25, 35, 3), (Tasks{0, 1, 2}));
  EXPECT_EQ(Write(40, 50, 4), (Tasks{0, 2}));
  EXPECT_EQ(Write(60, 70, 5), Tasks{0});
  EXPECT_EQ(Read(0, 100, 6), (Tasks{0, 3, 4, 5}));
  EXPECT_EQ(Write(0, 100, 7), (Tasks{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Read(0, 1, 8), Tasks{7});
}

TEST_F(Orders, MemoriesAreApartAndNothingTouchesNothing) {
  Write(0, 100, 0);
  EXPECT_EQ(Access(1, 0, 100, true, 1), Tasks());
  EXPECT_EQ(Write(50, 50, 2), Tasks());
}

TEST_F(Orders, WhatWasReadBeforeAnyoneWroteIsKept) {
  EXPECT_EQ(Read(10, 20, 0), Tasks());
  EXPECT_EQ(Read(0, 40, 1), Tasks());
  EXPECT_EQ(Write(15, 30, 2), (Tasks{0, 1}));
}

}  // namespace
}  // namespace kiln::runtime
