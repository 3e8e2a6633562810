#include "runtime/drivers/cpu/probe_target.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace kiln::runtime::cpu {
namespace {

TEST(ProbeTarget, SaysWhatTheCompilerNeeds) {
  const v1::Target target = ProbeTarget(3);
  EXPECT_EQ(target.kind(), v1::Target::CPU);
  EXPECT_TRUE(absl::StrContains(target.triple(), "linux")) << target.triple();
  EXPECT_FALSE(target.arch().empty());
  EXPECT_EQ(target.tuning().cores(), 3);
  EXPECT_GE(target.tuning().vector_bytes(), 16);
  EXPECT_GE(target.tuning().vector_registers(), 16);
  EXPECT_GE(target.tuning().l1_bytes(), 8 << 10);
  EXPECT_GE(target.tuning().l2_bytes(), target.tuning().l1_bytes());
}

TEST(ProbeTarget, FeaturesAreSortedAndSigned) {
  const v1::Target target = ProbeTarget(1);
  const std::vector<std::string> features(target.features().begin(), target.features().end());
  ASSERT_FALSE(features.empty());
  EXPECT_TRUE(std::is_sorted(features.begin(), features.end()));
  for (const std::string& feature : features) EXPECT_TRUE(feature[0] == '+' || feature[0] == '-') << feature;
  const auto has = [&](const char* name) { return std::count(features.begin(), features.end(), name) == 1; };
  EXPECT_EQ(target.tuning().vector_bytes() == 64, has("+avx512f"));
}

TEST(ProbeTarget, IsTheSameEveryTime) {
  EXPECT_EQ(ProbeTarget(2).SerializeAsString(), ProbeTarget(2).SerializeAsString());
}

TEST(HostTarget, IsWhatWasFoundButForWhatItWasTold) {
  v1::Target found = ProbeTarget(2);
  unsetenv("KILN_CPU_TARGET");
  EXPECT_EQ(HostTarget(2)->SerializeAsString(), found.SerializeAsString());
  setenv("KILN_CPU_TARGET", "arch: 'znver2' tuning { vector_bytes: 32 l2_bytes: 524288 }", 1);
  found.set_arch("znver2");
  found.mutable_tuning()->set_vector_bytes(32);
  found.mutable_tuning()->set_l2_bytes(524288);
  EXPECT_EQ(HostTarget(2)->SerializeAsString(), found.SerializeAsString());
  for (const char* bad : {"tuning { l9_bytes: 1 }", "features: '+avx512f'", "nonsense"}) {
    setenv("KILN_CPU_TARGET", bad, 1);
    const auto target = HostTarget(2);
    EXPECT_EQ(target.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_TRUE(absl::StrContains(target.status().message(), bad));
  }
  unsetenv("KILN_CPU_TARGET");
}

TEST(HostTarget, HasTheCoreThatItIsGivenUnlessItIsToldOfAnother) {
  v1::Target::Tuning::Core core;
  core.set_vector_bytes(32);
  core.set_l2_store_cycles(4);
  unsetenv("KILN_CPU_TARGET");
  v1::Target found = ProbeTarget(2);
  *found.mutable_tuning()->mutable_core() = core;
  found.mutable_tuning()->set_vector_bytes(32);  // as the core's figures are of such vectors
  EXPECT_EQ(HostTarget(2, core)->SerializeAsString(), found.SerializeAsString());
  EXPECT_FALSE(*IsToldOfCore());

  core.set_vector_bytes(4096);
  EXPECT_EQ(HostTarget(2, core)->SerializeAsString(), ProbeTarget(2).SerializeAsString());
  core.set_vector_bytes(32);

  setenv("KILN_CPU_TARGET", "tuning { l2_bytes: 524288 }", 1);
  found.mutable_tuning()->set_l2_bytes(524288);
  EXPECT_EQ(HostTarget(2, core)->SerializeAsString(), found.SerializeAsString());
  EXPECT_FALSE(*IsToldOfCore());

  for (const char* told : {"arch: 'znver2'", "tuning { vector_bytes: 16 }"}) {
    setenv("KILN_CPU_TARGET", told, 1);
    EXPECT_FALSE(HostTarget(2, core)->tuning().has_core()) << told;
    EXPECT_TRUE(*IsToldOfCore()) << told;
  }
  setenv("KILN_CPU_TARGET", "tuning { core { fmas_per_cycle: 1 } }", 1);
  EXPECT_EQ(HostTarget(2, core)->tuning().core().fmas_per_cycle(), 1);
  EXPECT_EQ(HostTarget(2, core)->tuning().core().l2_store_cycles(), 0);
  EXPECT_TRUE(*IsToldOfCore());
  setenv("KILN_CPU_TARGET", "nonsense", 1);
  EXPECT_EQ(IsToldOfCore().status().code(), absl::StatusCode::kInvalidArgument);
  unsetenv("KILN_CPU_TARGET");
}

TEST(DescribeCpu, CountsThreads) {
  EXPECT_TRUE(absl::EndsWith(DescribeCpu(1), ", 1 thread"));
  EXPECT_TRUE(absl::EndsWith(DescribeCpu(2), ", 2 threads"));
}

}  // namespace
}  // namespace kiln::runtime::cpu
