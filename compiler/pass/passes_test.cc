#include "compiler/pass/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "base/error.h"

namespace kiln::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Passes, StagesStandAsTheyAreNumbered) {
  int number = 0;
  for (const StagePasses& stage : AllPasses()) {
    EXPECT_EQ(static_cast<int>(stage.stage), number++) << stage.name;
    EXPECT_EQ(&PassesOf(stage.stage), &stage);
    EXPECT_FALSE(stage.passes.empty()) << stage.name;
  }
}

TEST(Passes, ARowSaysAllThatIsAskedOfIt) {
  std::set<std::string> stages;
  for (const StagePasses& stage : AllPasses()) {
    EXPECT_TRUE(stages.emplace(stage.name).second) << stage.name;
    std::set<std::string> names;
    for (const Pass& pass : stage.passes) {
      SCOPED_TRACE(std::string(pass.name));
      EXPECT_TRUE(names.emplace(pass.name).second);
      // Tools write _ for a space.
      for (const char c : pass.name) EXPECT_TRUE(absl::ascii_islower(static_cast<unsigned char>(c)) || c == ' ');
      EXPECT_FALSE(pass.what.empty());
      EXPECT_TRUE(pass.run != nullptr);
      EXPECT_EQ(pass.when.words.empty(), pass.when.holds == nullptr);
      // It makes a graph, which is verified, or something that is shown in its own way, or both.
      EXPECT_TRUE(pass.text != nullptr || pass.after != nullptr);
      EXPECT_EQ(pass.text == nullptr, pass.extension == "uop");
      EXPECT_TRUE(!stage.alone || pass.before != nullptr);
      // Without an optional pass the next one gets what the optional one got.
      EXPECT_TRUE(pass.need == Need::kRequired || (pass.before != nullptr && pass.after != nullptr));
    }
  }
}

// What a pass leaves, the next that may follow takes: its ops are all legal there.
TEST(Passes, EachTakesWhatTheOneBeforeItLeaves) {
  for (const StagePasses& stage : AllPasses()) {
    const Spec* left = nullptr;
    for (const Pass& pass : stage.passes) {
      if (left != nullptr && pass.before != nullptr) {
        EXPECT_EQ(left->stage & ~pass.before->stage & ~uint32_t{kInGraph}, 0u) << pass.name;
      }
      if (pass.after != nullptr) left = pass.after;
    }
  }
}

TEST(Passes, TheOptionalOnes) {
  std::vector<std::string> optional;
  for (const StagePasses& stage : AllPasses()) {
    for (const Pass& pass : stage.passes) {
      if (pass.need == Need::kOptional) optional.emplace_back(pass.name);
    }
  }
  EXPECT_THAT(optional, ElementsAre("choose layouts", "chain kernels", "simplify ranges", "contract products", "scan",
                                    "optimize", "hoist copies", "core products", "dots", "keep row"));
  EXPECT_TRUE(CheckDisabled(optional).ok());
  EXPECT_TRUE(CheckDisabled({}).ok());
}

TEST(Passes, WhatCannotBeDisabledIsRefusedWithTheNamesThatCan) {
  const absl::Status required = CheckDisabled({"optimize", "bounds"});
  EXPECT_EQ(DetailOf(required)->code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(required.message(),
            "\"bounds\" cannot be disabled: no program compiles without it; these can: choose layouts, chain kernels, "
            "simplify ranges, contract products, scan, optimize, hoist copies, core products, dots, keep row");
  EXPECT_THAT(std::string(CheckDisabled({"optimise"}).message()),
              HasSubstr("\"optimise\" cannot be disabled: there is no pass called so; these can: choose layouts"));
}

TEST(Passes, AreFoundByName) {
  ASSERT_NE(FindPass("reduce to acc"), nullptr);
  EXPECT_EQ(FindPass("reduce to acc")->after, &kAccumulatingSpec);
  EXPECT_EQ(FindPass("decompose")->before, &kKernelSpec);  // of kernels, which come before programs
  EXPECT_EQ(FindPass("memory plan")->extension, "txt");
  EXPECT_EQ(FindPass("reduce"), nullptr);
}

}  // namespace
}  // namespace kiln::compiler
