#include "runtime/drivers/cpu/core/measure_core.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "runtime/drivers/cpu/core/loops.h"
#include "runtime/drivers/cpu/probe_target.h"

namespace kiln::runtime::cpu {
namespace {

using Core = v1::Target::Tuning::Core;

Core CoreOf(float ports, float cycles, float bytes) {
  Core core;
  core.set_vector_bytes(64);
  core.set_fmas_per_cycle(ports);
  core.set_fma_latency(cycles);
  core.set_loads_per_cycle(ports);
  core.set_l2_load_cycles(cycles);
  core.set_l2_store_cycles(cycles);
  core.set_far_bytes_per_cycle(bytes);
  core.set_gather_cycles(cycles);
  return core;
}

TEST(MeasureCore, FindsWhatACoreCanBe) {
  v1::Target target = ProbeTarget(1);
  const auto begin = std::chrono::steady_clock::now();
  const Core measured = MeasureCore(target);
  const auto taken = std::chrono::steady_clock::now() - begin;
  if (LoopsOf(target.tuning().vector_bytes()) == nullptr) {
    EXPECT_EQ(measured.ByteSizeLong(), 0u);
    return;
  }
  // It has 200 ms, on a machine that does nothing else; what a test may expect of a busy one is that it ends.
  EXPECT_LT(taken, std::chrono::seconds(10));
  // Whatever else the machine does: nothing is quicker than a core can be.
  EXPECT_GT(measured.fmas_per_cycle(), 0.1);
  EXPECT_LT(measured.fmas_per_cycle(), 4.4);
  EXPECT_GT(measured.fma_latency(), 1.5);
  EXPECT_GT(measured.loads_per_cycle(), 0.1);
  EXPECT_GT(measured.l2_store_cycles(), 0.2);
  EXPECT_GT(measured.gather_cycles(), 0.1);
  EXPECT_GT(measured.far_bytes_per_cycle(), 0.1);
  const Core rounded = Rounded(measured);
  EXPECT_EQ(Rounded(rounded).SerializeAsString(), rounded.SerializeAsString());
}

TEST(MeasureCore, MeasuresNothingWithoutFmaOrWithOtherVectors) {
  v1::Target target;
  target.mutable_tuning()->set_vector_bytes(32);
  target.mutable_tuning()->set_l2_bytes(1 << 20);
  target.add_features("+avx2");
  EXPECT_EQ(MeasureCore(target).ByteSizeLong(), 0u);
  target.add_features("+fma");
  target.mutable_tuning()->set_vector_bytes(64);
  EXPECT_EQ(MeasureCore(target).ByteSizeLong(), 0u);
  target.mutable_tuning()->set_vector_bytes(16);
  EXPECT_EQ(MeasureCore(target).ByteSizeLong(), 0u);
}

// What an Emerald Rapids gave in sixteen runs, some beside two builds.
TEST(Rounded, IsTheSameWithAndWithoutOtherWork) {
  Core quiet = CoreOf(2, 4, 9.7f), busy = CoreOf(1.6f, 3.98f, 7.0f);
  quiet.set_l2_load_cycles(1.30f);
  busy.set_l2_load_cycles(1.53f);
  quiet.set_l2_store_cycles(3.69f);
  busy.set_l2_store_cycles(4.42f);
  quiet.set_gather_cycles(0.42f);
  busy.set_gather_cycles(0.86f);
  Core want = CoreOf(2, 4, 8);
  want.set_l2_load_cycles(1.5f);
  want.set_gather_cycles(1);
  EXPECT_EQ(Rounded(quiet).DebugString(), want.DebugString());
  EXPECT_EQ(Rounded(busy).DebugString(), want.DebugString());
}

TEST(Rounded, StaysWithinWhatACoreMayBe) {
  Core least = CoreOf(1, 2, 1), most = CoreOf(4, 10, 64);
  least.set_l2_load_cycles(0.5f);
  least.set_l2_store_cycles(0.5f);
  least.set_gather_cycles(1);
  most.set_l2_load_cycles(8);
  most.set_l2_store_cycles(16);
  most.set_gather_cycles(16);
  EXPECT_EQ(Rounded(CoreOf(1e-9f, 1e-9f, 1e-9f)).DebugString(), least.DebugString());
  EXPECT_EQ(Rounded(CoreOf(1e9f, 1e9f, 1e9f)).DebugString(), most.DebugString());
  EXPECT_EQ(Rounded(least).DebugString(), least.DebugString());
  EXPECT_EQ(Rounded(most).DebugString(), most.DebugString());
}

TEST(Rounded, ForgetsNoFigure) {
  const Core rounded = Rounded(CoreOf(2, 4, 8));
  const auto* type = Core::descriptor();
  for (int i = 0; i < type->field_count(); ++i)
    EXPECT_TRUE(rounded.GetReflection()->HasField(rounded, type->field(i))) << type->field(i)->name();
}

TEST(Rounded, LeavesOutWhatIsNoFigure) {
  Core unknown;
  unknown.set_vector_bytes(64);
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  for (const float none : {0.0f, -1.0f, nan, infinite})
    EXPECT_EQ(Rounded(CoreOf(none, none, none)).DebugString(), unknown.DebugString()) << none;
  // Figures of vectors that there are not are none.
  Core narrow = CoreOf(2, 4, 8);
  narrow.set_vector_bytes(48);
  EXPECT_EQ(Rounded(narrow).ByteSizeLong(), 0u);
}

}  // namespace
}  // namespace kiln::runtime::cpu
