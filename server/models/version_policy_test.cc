#include "server/models/version_policy.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

using Versions = std::vector<uint64_t>;

TEST(VersionPolicy, ChoosesOfWhatIsThere) {
  const auto policy = ParseVersionPolicy("latest:2,bert=3+7,ranker=all");
  ASSERT_TRUE(policy.ok()) << policy.status();
  const Versions there = {1, 3, 4, 7, 10};
  EXPECT_EQ(policy->For("any").Of(there), (Versions{7, 10}));
  EXPECT_EQ(policy->For("bert").Of(there), (Versions{3, 7}));
  EXPECT_EQ(policy->For("ranker").Of(there), there);
  EXPECT_EQ(policy->For("any").Of({5}), Versions{5});
  EXPECT_EQ(policy->For("bert").Of({1, 2}), Versions{});
  EXPECT_EQ(policy->For("any").Of({}), Versions{});
}

TEST(VersionPolicy, OthersHaveTheLatestUnlessTheyAreTold) {
  EXPECT_EQ(ParseVersionPolicy("latest")->For("a").Of({1, 2}), Versions{2});
  EXPECT_EQ(ParseVersionPolicy("all")->For("a").Of({1, 2}), (Versions{1, 2}));
  EXPECT_EQ(ParseVersionPolicy("a=1")->For("a").Of({1, 2}), Versions{1});
  EXPECT_EQ(ParseVersionPolicy("a=1")->For("b").Of({1, 2}), Versions{2});
  EXPECT_EQ(ParseVersionPolicy("2")->For("b").Of({1, 2, 3}), Versions{2});
}

TEST(VersionPolicy, WhatItDoesNotKnowIsNamed) {
  for (const char* bad : {"", "newest", "latest:0", "latest:", "latest:-1", "latest:65537", "a=", "=1", "a=0", "a=1+",
                          "a=1+x", "/=1", "latest,all", "a=1,a=2", "all,", "a=01"}) {
    EXPECT_EQ(ParseVersionPolicy(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(ParseVersionPolicy("all,bert=x").status().message(),
            "\"bert=x\": a choice is latest, latest:2, all, or versions such as 3+7");
}

}  // namespace
}  // namespace kiln::server
