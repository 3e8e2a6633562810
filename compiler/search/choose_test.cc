#include "compiler/search/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/graph/graph_text.h"

namespace kiln::compiler {
namespace {

constexpr char kScaled[] = R"(
  0 CONST [] weakint 64
  1 CONST [] weakint 96
  2 STACK [0, 1]
  3 PARAM : float32 [2] slot=0
  4 PARAM : float32 [2] slot=1
  5 RANGE [0] range=(0) type=LOOP
  6 RANGE [1] range=(1) type=LOOP
  7 INDEX [3, 5, 6]
  8 INDEX [4, 5, 6]
  9 MUL [8, 8]
  10 STORE [7, 9]
  11 END [10, 5, 6]
  12 SINK [11] kernel name="squares"
)";

v1::Target TargetOfLanes() {
  v1::Target target;
  target.set_kind(v1::Target::NULL_TARGET);
  target.mutable_tuning()->set_vector_bytes(64);
  target.mutable_tuning()->set_vector_registers(32);
  return target;
}

absl::StatusOr<Choices> ChooseAfter(
    const std::string& from, uint32_t most, const std::function<bool()>& stop = [] { return false; }) {
  return Choose(*ParseGraph(kScaled), TargetOfLanes(), Limits(), from, most, stop);
}

TEST(Choose, EachMayBeChosenAfterInItsTurn) {
  const auto first = ChooseAfter("", 96);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->may_thread);
  EXPECT_GT(first->next.size(), 8u);
  EXPECT_NE(std::find(first->next.begin(), first->next.end(), "SWAP(0, 1)"), first->next.end());
  for (const std::string& schedule : first->next) {
    const auto second = ChooseAfter(schedule, 0);
    EXPECT_TRUE(second.ok()) << schedule << ": " << second.status();
    EXPECT_EQ(second->next.size(), 0u);
  }
}

TEST(Choose, NoMoreThanAreWanted) {
  EXPECT_EQ(ChooseAfter("", 3)->next.size(), 3u);
  int looks = 0;
  EXPECT_LT(ChooseAfter("", 96, [&] { return ++looks > 2; })->next.size(), 3u);
}

TEST(Choose, WhatMayNotBeAppliedIsRefused) {
  const auto code = [](const absl::StatusOr<Choices>& choices) { return DetailOf(choices.status())->code(); };
  EXPECT_EQ(code(ChooseAfter("SPLIT(7, 4, UPCAST)", 0)), v1::BAD_ARGUMENT);
  EXPECT_EQ(code(ChooseAfter("SPLIT(", 0)), v1::BAD_ARGUMENT);
  // A kernel that is none: what a graph is before it is lowered.
  const v1::Graph sum = *ParseGraph("0 CONST [] float32 2\n1 ADD [0, 0]\n2 TUPLE [1]");
  EXPECT_FALSE(Choose(sum, TargetOfLanes(), Limits(), "", 1, [] { return false; }).ok());
}

}  // namespace
}  // namespace kiln::compiler
