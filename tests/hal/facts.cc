// What a device says of itself (runtime/hal/device.h; proto/kiln/v1/target.proto).
#include <algorithm>
#include <bit>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/hal/kernel_test.h"

namespace kiln::testing {
namespace {

class Facts : public KernelTest {
 protected:
  bool IsGpu() const { return row().kind == v1::Target::NVPTX || row().kind == v1::Target::AMDGPU; }
  // The prefix of the names of the row's devices.
  const char* Kind() const {
    switch (row().kind) {
      case v1::Target::NULL_TARGET: return "NULL";
      case v1::Target::NVPTX: return "CUDA";
      case v1::Target::AMDGPU: return "HIP";
      default: return "CPU";
    }
  }
};

TEST_P(Facts, NamesAreAKindAndANumber) {
  for (const auto& device : machine_->devices) {
    const std::string name(device->name());
    ASSERT_TRUE(absl::StartsWith(name, absl::StrCat(Kind(), ":"))) << name;
    EXPECT_EQ(name.find_first_not_of("0123456789", name.find(':') + 1), std::string::npos) << name;
    EXPECT_GT(device->description().size(), 5u) << name;
  }
  if (Lacks(Feature::kPair) == nullptr) {
    EXPECT_NE(device(0).name(), device(1).name());
  }
}

TEST_P(Facts, TheTargetIsWhatTheCompilerNeeds) {
  const v1::Target& target = device().target();
  EXPECT_EQ(target.kind(), row().kind);
  const v1::Target::Tuning& tuning = target.tuning();
  EXPECT_TRUE(std::has_single_bit(tuning.vector_bytes())) << tuning.vector_bytes();
  EXPECT_GE(tuning.vector_bytes(), 16u);
  EXPECT_GE(tuning.cores(), 1u);
  EXPECT_EQ(target.triple().empty(), row().kind == v1::Target::NULL_TARGET);
  EXPECT_EQ(target.arch().empty(), row().kind == v1::Target::NULL_TARGET);
  EXPECT_TRUE(std::is_sorted(target.features().begin(), target.features().end()));
  for (const std::string& feature : target.features()) {
    EXPECT_GE(feature.size(), 2u);
    EXPECT_TRUE(feature[0] == '+' || feature[0] == '-') << feature;
  }
  if (!IsGpu()) {
    EXPECT_EQ(tuning.lanes(), 0u);
    EXPECT_EQ(tuning.shared_bytes(), 0u);
    return;
  }
  EXPECT_TRUE(tuning.lanes() == 32 || tuning.lanes() == 64) << tuning.lanes();
  EXPECT_GE(tuning.shared_bytes(), 48u << 10);
  EXPECT_LE(tuning.shared_bytes(), 1u << 20);
  EXPECT_GE(tuning.l2_bytes(), 1u << 20);
}

TEST_P(Facts, AreFixedForLife) {
  const std::string before = device().target().SerializeAsString(), name(device().name()),
                    description(device().description());
  const v1::Executable sum = Sum();
  const BufferSlice a = NewFloats(Row(1, 1));
  EXPECT_EQ(Launch(*Load(sum), Operands(sum, a, a, a)), absl::OkStatus());
  EXPECT_EQ(device().target().SerializeAsString(), before);
  EXPECT_EQ(device().name(), name);
  EXPECT_EQ(device().description(), description);
}

TEST_P(Facts, DevicesOfAKindHaveOneTarget) {
  if (const char* why = Lacks(Feature::kPair)) GTEST_SKIP() << why;
  EXPECT_EQ(device(0).target().SerializeAsString(), device(1).target().SerializeAsString());
}

TEST_P(Facts, StatisticsBeginAtNothing) {
  for (const auto& device : machine_->devices) {
    const runtime::hal::DeviceStats stats = device->stats();
    EXPECT_EQ(stats.launches, 0u);
    EXPECT_EQ(stats.modules, 0u);
    EXPECT_EQ(stats.queue_depth, 0u);
    EXPECT_EQ(stats.memory.buffers, 0u);
    EXPECT_EQ(stats.memory.cached_bytes, 0u);
    EXPECT_EQ(stats.memory.peak_bytes, 0u);
    EXPECT_GE(stats.memory.limit_bytes, 32u << 20);
    EXPECT_EQ(device->health(), absl::OkStatus());
  }
}

TEST_P(Facts, ADeviceOfAnotherProcessSaysSo) {
  const bool is_remote = std::string(row().name) == "remote";
  for (const auto& device : machine_->devices) EXPECT_EQ(device->remote() != nullptr, is_remote) << device->name();
}

INSTANTIATE_TEST_SUITE_P(Devices, Facts, ::testing::ValuesIn(RowPointers()), RowName);

}  // namespace
}  // namespace kiln::testing
