// Code that tenants share: who gets it, who may know of it, and what nobody learns.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "server/engine/programs/presented.h"
#include "server/engine/tenancy_fixture.h"

namespace kiln::server {
namespace {

class SharingTest : public ::testing::Test, protected EngineWithTenants {
 protected:
  void Share(CacheSharing sharing) {
    std::vector<Tenant> tenants = {Named("a"), Named("b"), Named("c")};
    for (Tenant& tenant : tenants) {
      tenant.cache_sharing = sharing;
      if (sharing == CacheSharing::kGroup && tenant.name != "c") tenant.sharing_group = "team";
    }
    ASSERT_TRUE(SetTenants(tenants).ok());
  }

  absl::Status ExecuteByHash(const std::string& tenant, const std::string& hash) {
    ExecuteRequest request;
    request.graph_hash = hash;
    request.caller = Home(tenant);
    absl::Status status;
    absl::Notification done;
    engine_->Execute(std::move(request), {}, [&](absl::StatusOr<ExecuteResult> result) {
      status = result.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }

  static std::string HashOf(const absl::StatusOr<CompileResult>& result) {
    return std::string(result->program->graph_hash.view());
  }
};

TEST_F(SharingTest, NothingIsSharedUnlessTheFileSaysSo) {
  Share(CacheSharing::kNone);
  const std::string hash = HashOf(Compile("a", 1));
  EXPECT_EQ(CodeOf(ExecuteByHash("b", hash)), v1::NEED_GRAPH);
  EXPECT_FALSE(Compile("b", 1)->from_cache);
  EXPECT_EQ(compiles_, 2);
}

TEST_F(SharingTest, WithAllAlsoByHash) {
  Share(CacheSharing::kAll);
  const std::string hash = HashOf(Compile("a", 1));
  EXPECT_TRUE(ExecuteByHash("b", hash).ok());
  EXPECT_TRUE(Compile("c", 1)->from_cache);
  EXPECT_EQ(compiles_, 1);
  // What is loaded is each one's own, and paid for by each.
  EXPECT_EQ(HashesOf("b"), std::vector<std::string>{hash});
  EXPECT_EQ(AccountOf("b").used(Quota::kProgramBytes), each_);
  EXPECT_EQ(CodeOf(ExecuteByHash("nobody", hash)), v1::NEED_GRAPH) << "a tenant that the file has not";
}

TEST_F(SharingTest, InAGroupToWhoSendsTheGraph) {
  Share(CacheSharing::kGroup);
  const std::string hash = HashOf(Compile("a", 1));
  EXPECT_EQ(CodeOf(ExecuteByHash("b", hash)), v1::NEED_GRAPH);
  EXPECT_EQ(HashesOf("b"), std::vector<std::string>{});
  EXPECT_TRUE(Compile("b", 1)->from_cache);
  EXPECT_EQ(compiles_, 1);
  EXPECT_FALSE(Compile("c", 1)->from_cache) << "it is in no group";
  EXPECT_EQ(compiles_, 2);
  // What it has sent, it has by its hash, also when it is no longer loaded.
  SetLimit("b", Quota::kProgramBytes, each_);
  ASSERT_TRUE(Compile("b", 2).ok());
  EXPECT_EQ(HashesOf("b").size(), 1u);
  EXPECT_TRUE(ExecuteByHash("b", hash).ok());
  EXPECT_EQ(compiles_, 3);
}

TEST_F(SharingTest, HiddenItIsServedAsIfItWereCompiled) {
  Share(CacheSharing::kHidden);
  working_ = [] { absl::SleepFor(absl::Milliseconds(40)); };
  const auto first = Compile("a", 1);
  EXPECT_EQ(CodeOf(ExecuteByHash("b", HashOf(first))), v1::NEED_GRAPH);
  EXPECT_EQ(HashesOf("b"), std::vector<std::string>{});
  SetLimit("b", Quota::kCompileSeconds, 1);
  const absl::Time begin = absl::Now();
  const auto second = Compile("b", 1);
  const absl::Duration took = absl::Now() - begin;
  EXPECT_EQ(compiles_, 1);
  EXPECT_FALSE(second->from_cache);
  EXPECT_GE(took, absl::Milliseconds(36));
  EXPECT_GE(second->program->compile_us, 36'000u);
  EXPECT_EQ(first->program->stages, nullptr) << "nor does a trace tell the one from the other";
  EXPECT_EQ(second->program->stages, nullptr);
  EXPECT_EQ(AccountOf("b").used(Quota::kCompileSeconds), 1u) << "rounded up";
  EXPECT_EQ(second->program->hits, 0u);
  // Its own second time is a hit, and so is its hash.
  EXPECT_TRUE(Compile("b", 1)->from_cache);
  EXPECT_TRUE(ExecuteByHash("b", HashOf(first)).ok());
}

TEST_F(SharingTest, HiddenItIsRefusedAsIfItWereCompiled) {
  Share(CacheSharing::kHidden);
  working_ = [] { absl::SleepFor(absl::Milliseconds(40)); };
  ASSERT_TRUE(Compile("a", 1).ok());
  const absl::Time begin = absl::Now();
  SetLimit("b", Quota::kProgramBytes, 1);
  EXPECT_EQ(CodeOf(Compile("b", 1).status()), v1::QUOTA_EXCEEDED);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(36));
  Control control;
  control.deadline = absl::Now() + absl::Milliseconds(10);
  EXPECT_EQ(CodeOf(Compile("c", 1, "", control).status()), v1::DEADLINE_PASSED);
  EXPECT_EQ(compiles_, 1);
}

TEST_F(SharingTest, HiddenTheSameGraphInOtherWordsIsAnother) {
  Share(CacheSharing::kHidden);
  const v1::Graph graph = GraphOf(1);
  v1::Graph longer = *ParseGraph("0 CONST [] int32 1\n1 CONST [] int32 1\n2 SINK [1]\n");
  const auto compile = [this](const std::string& tenant, const v1::Graph& sent) {
    absl::StatusOr<CompileResult> result;
    absl::Notification done;
    engine_->Compile({&sent, "", {}, Home(tenant)}, {}, [&](absl::StatusOr<CompileResult> r) {
      result = std::move(r);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  };
  const std::string hash = HashOf(compile("a", graph));
  {
    const auto second = compile("b", longer);
    ASSERT_EQ(HashOf(second), hash);
    EXPECT_EQ(second->program->graph, longer.SerializeAsString());
  }
  EXPECT_EQ(compiles_, 2);
  // One that is no longer loaded is asked for again, and then served at once.
  SetLimit("b", Quota::kProgramBytes, each_);
  ASSERT_TRUE(Compile("b", 2).ok());
  EXPECT_EQ(CodeOf(ExecuteByHash("b", hash)), v1::NEED_GRAPH);
  EXPECT_TRUE(compile("b", longer)->from_cache);
  EXPECT_EQ(compiles_, 3);
}

// Whoever looks at how long a compile takes cannot tell whether somebody had it before.
TEST_F(SharingTest, HiddenTimesOfHitsAndMissesAreAlike) {
  Share(CacheSharing::kHidden);
  std::mt19937 random(1);
  working_ = [&random] {
    absl::SleepFor(absl::Microseconds(std::uniform_real_distribution<double>(9'000, 11'000)(random)));
  };
  constexpr int kEach = 60;
  std::vector<double> hits, misses;
  const auto time = [this](int number) {
    const absl::Time begin = absl::Now();
    EXPECT_FALSE(Compile("b", number)->from_cache);
    return absl::ToDoubleMicroseconds(absl::Now() - begin);
  };
  for (int i = 0; i < kEach; ++i) {
    ASSERT_TRUE(Compile("a", i).ok());
    hits.push_back(time(i));
    misses.push_back(time(1000 + i));
  }
  EXPECT_EQ(compiles_, 2 * kEach);
  double later = 0;
  for (const double hit : hits) {
    for (const double miss : misses) later += hit > miss ? 1 : hit == miss ? 0.5 : 0;
  }
  const double area = later / (kEach * kEach);
  // Of chance alone it is 0.5, give or take 0.05.
  EXPECT_GT(area, 0.25);
  EXPECT_LT(area, 0.75);
}

TEST_F(SharingTest, HiddenTimesDoNotSayHowBusyTheServerWas) {
  Share(CacheSharing::kHidden);
  constexpr int kEach = 30;
  working_ = [] { absl::SleepFor(absl::Milliseconds(16)); };
  for (int i = 0; i < kEach; ++i) ASSERT_TRUE(Compile("a", i).ok());
  working_ = [] { absl::SleepFor(absl::Milliseconds(4)); };
  std::vector<uint64_t> hits, misses;
  for (int i = 0; i < kEach; ++i) {
    hits.push_back(Compile("b", i)->program->compile_us);
    misses.push_back(Compile("b", 1000 + i)->program->compile_us);
  }
  std::sort(hits.begin(), hits.end());
  std::sort(misses.begin(), misses.end());
  EXPECT_GE(misses[0], 32'000u);
  // Half of what tells the one from the other without it.
  EXPECT_LT(hits[kEach / 2], misses[kEach / 2] + 6'000);
}

TEST(Presented, ForgetsTheOldestOfEachDomainAlone) {
  Presented presented;
  const auto code = [](size_t number) {
    Digest digest;
    digest.bytes[0] = static_cast<uint8_t>(number);
    digest.bytes[1] = static_cast<uint8_t>(number >> 8);
    return digest;
  };
  const TrustDomain a = DomainOf("s", "a"), b = DomainOf("s", "b");
  presented.Add(b, code(0));
  for (size_t i = 0; i <= Presented::kMaxEach; ++i) presented.Add(a, code(i));
  EXPECT_FALSE(presented.Has(a, code(0)));
  EXPECT_TRUE(presented.Has(a, code(1)));
  EXPECT_TRUE(presented.Has(b, code(0)));
  EXPECT_FALSE(presented.Has(b, code(1)));
}

}  // namespace
}  // namespace kiln::server
