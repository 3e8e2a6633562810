#include "runtime/drivers/cpu/cpu_name.h"

#include "gtest/gtest.h"

namespace kiln::runtime::cpu {
namespace {

const std::set<std::string> kSapphireRapids = {"avx2",       "avx512bf16",  "avx512bw",  "avx512cd", "avx512fp16",
                                               "avx512vnni", "avx512vbmi2", "serialize", "wbnoinvd", "amx-tile"};

std::set<std::string> With(std::set<std::string> features, const std::string& more) {
  features.insert(more);
  return features;
}

TEST(CpuName, OfAModelThatLlvmDoesNotKnowIsOneWithItsFeatures) {
  EXPECT_EQ(CpuName("rocketlake", kSapphireRapids), "sapphirerapids");
  EXPECT_EQ(CpuName("generic", kSapphireRapids), "sapphirerapids");
  EXPECT_EQ(CpuName("x86-64", kSapphireRapids), "sapphirerapids");
  EXPECT_EQ(CpuName("sapphirerapids", With(kSapphireRapids, "prefetchi")), "graniterapids");
  EXPECT_EQ(CpuName("znver4", {"sse4a", "avx512bf16", "avx512vbmi2", "avx512vp2intersect", "avxvnni"}), "znver5");
  EXPECT_EQ(CpuName("znver3", {"sse4a", "avx512bf16", "avx512vbmi2", "vaes", "pku"}), "znver4");
  EXPECT_EQ(CpuName("skylake", {"avx512bw", "avx512cd", "avx512vnni"}), "cascadelake");
}

TEST(CpuName, StaysWhatLlvmSaysWhereThatIsAsNew) {
  EXPECT_EQ(CpuName("emeraldrapids", kSapphireRapids), "emeraldrapids");
  EXPECT_EQ(CpuName("graniterapids-d", With(kSapphireRapids, "prefetchi")), "graniterapids-d");
  EXPECT_EQ(CpuName("diamondrapids", With(kSapphireRapids, "prefetchi")), "diamondrapids");
  // What a virtual machine hides makes no CPU older.
  EXPECT_EQ(CpuName("graniterapids", kSapphireRapids), "graniterapids");
  EXPECT_EQ(CpuName("haswell", {"avx2", "fma"}), "haswell");
  EXPECT_EQ(CpuName("znver2", {"avx2", "fma", "sse4a"}), "znver2");
  // Of another architecture, whose features are others.
  EXPECT_EQ(CpuName("neoverse-v2", {"neon", "sve2"}), "neoverse-v2");
}

}  // namespace
}  // namespace kiln::runtime::cpu
