#include "runtime/exec/load.h"

#include <functional>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/drivers/null/device.h"
#include "runtime/testing/programs.h"

namespace kiln::runtime {
namespace {

std::unique_ptr<hal::Device> NewCpu() { return *cpu::CreateDevice({.threads = 1}); }

TEST(Load, MakesAPlanOfPlainStructs) {
  const auto device = NewCpu();
  const v1::Executable executable = testing::AddProgram(100, device->target());
  const auto program = Load(executable, *device);
  ASSERT_TRUE(program.ok()) << program.status();
  const Plan& plan = (*program)->plan();
  ASSERT_EQ(plan.steps.size(), 2);
  EXPECT_EQ(plan.steps[1].first_operand, 3);
  EXPECT_EQ(plan.steps[1].operand_count, 3);
  ASSERT_EQ(plan.operands.size(), 6);
  EXPECT_EQ(plan.operands[0].space, PlanOperand::Space::kArena);
  EXPECT_EQ(plan.operands[0].offset, 64);
  EXPECT_EQ(plan.operands[2].space, PlanOperand::Space::kParameter);
  EXPECT_EQ(plan.operands[2].index, 1);
  EXPECT_EQ(plan.operands[5].space, PlanOperand::Space::kConstants);
  ASSERT_EQ(plan.parameters.size(), 2);
  EXPECT_EQ(plan.parameters[1].slot, 1);
  EXPECT_EQ(plan.parameters[1].bytes, 400);
  EXPECT_EQ(plan.parameters[1].alignment, 4);
  ASSERT_EQ(plan.results.size(), 1);
  EXPECT_EQ(plan.results[0].alias, PlanResult::kFresh);
  EXPECT_EQ(plan.arena_bytes, 464);
  EXPECT_EQ(plan.kernel_names, std::vector<std::string>({"add"}));
  EXPECT_EQ((*program)->signature().SerializeAsString(), executable.signature().SerializeAsString());
  EXPECT_GT((*program)->memory_bytes(), executable.object().size() + 464);
  EXPECT_EQ(device->stats().modules, 1);
}

TEST(Load, UnloadsWithTheLastReference) {
  const auto device = NewCpu();
  auto program = Load(testing::AddProgram(4, device->target()), *device);
  ASSERT_TRUE(program.ok());
  EXPECT_GT(device->stats().memory.in_use_bytes, 0);
  program->reset();
  EXPECT_EQ(device->stats().modules, 0);
  EXPECT_EQ(device->stats().memory.in_use_bytes, 0);
}

TEST(Load, AProgramWithoutKernelsLoads) {
  const auto device = NewCpu();
  v1::Executable executable;
  *executable.mutable_target() = device->target();
  EXPECT_TRUE(Load(executable, *device).ok());
}

TEST(Load, NeedsOnlyFeaturesThatTheDeviceHas) {
  const auto device = NewCpu();
  v1::Executable executable = testing::AddProgram(4, device->target());
  executable.mutable_target()->set_arch("another");
  executable.mutable_target()->clear_features();
  executable.mutable_target()->add_features("-whatever");
  EXPECT_TRUE(Load(executable, *device).ok());
}

TEST(Load, OutOfMemoryForConstants) {
  const auto device = *cpu::CreateDevice({.threads = 1, .memory_limit_bytes = 4096});
  const auto program = Load(testing::AddProgram(4096, device->target()), *device);
  EXPECT_EQ(DetailOf(program.status())->code(), v1::OUT_OF_MEMORY);
}

TEST(Load, FromManyThreadsAtOnce) {
  const auto device = NewCpu();
  const v1::Executable executable = testing::AddProgram(16, device->target());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) ASSERT_TRUE(Load(executable, *device).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->stats().modules, 0);
}

// One change to a good executable, and the field that the refusal must name.
struct BadCase {
  std::string field;
  std::function<void(v1::Executable&)> damage;
};

v1::Operand& FirstOperand(v1::Executable& e, int step) { return *e.mutable_steps(step)->mutable_operands(0); }
v1::Signature::Parameter& Parameter(v1::Executable& e, int i) { return *e.mutable_signature()->mutable_parameters(i); }
v1::Signature::Result& Result(v1::Executable& e) { return *e.mutable_signature()->mutable_results(0); }

const std::vector<BadCase>& BadCases() {
  static const auto* const cases = new std::vector<BadCase>{
      {"target.kind", [](auto& e) { e.mutable_target()->set_kind(v1::Target::NVPTX); }},
      {"target.triple", [](auto& e) { e.mutable_target()->set_triple("riscv64-unknown-linux-gnu"); }},
      {"target.features", [](auto& e) { e.mutable_target()->add_features("+no-such-feature"); }},
      {"target.features", [](auto& e) { e.mutable_target()->add_features("avx"); }},
      {"target.features", [](auto& e) { e.mutable_target()->add_features(""); }},
      {"arena_bytes", [](auto& e) { e.set_arena_bytes(~uint64_t{0}); }},
      {"kernels[0].symbol", [](auto& e) { e.mutable_kernels(0)->clear_symbol(); }},
      {"kernels[1].symbol", [](auto& e) { *e.add_kernels() = e.kernels(0); }},
      {"kernels[0].iterations", [](auto& e) { e.mutable_kernels(0)->set_iterations(uint64_t{1} << 63); }},
      {"kernels[0].grain", [](auto& e) { e.mutable_kernels(0)->set_grain(~uint64_t{0}); }},
      {"signature.parameters[0].dtype", [](auto& e) { Parameter(e, 0).set_dtype(v1::VOID); }},
      {"signature.parameters[0].dtype", [](auto& e) { Parameter(e, 0).set_dtype(static_cast<v1::DType>(99)); }},
      {"signature.parameters[1].shape", [](auto& e) { Parameter(e, 1).set_shape(0, -1); }},
      {"signature.parameters[1].shape", [](auto& e) { Parameter(e, 1).set_shape(0, int64_t{1} << 62); }},
      {"signature.parameters[1].bytes", [](auto& e) { Parameter(e, 1).set_bytes(32); }},
      {"signature.parameters[1].slot", [](auto& e) { Parameter(e, 1).set_slot(0); }},
      {"signature.results[0].dtype", [](auto& e) { Result(e).set_dtype(v1::WEAKINT); }},
      {"signature.results[0].bytes", [](auto& e) { Result(e).set_bytes(12); }},
      {"signature.results[0].aliases", [](auto& e) { Result(e).set_aliases(2); }},
      {"signature.results[0].aliases",
       [](auto& e) {
         Parameter(e, 0).set_shape(0, 2);
         Parameter(e, 0).set_bytes(8);
         Result(e).set_aliases(0);
       }},
      {"signature.results[0]", [](auto& e) { FirstOperand(e, 1).set_written(false); }},
      {"steps[1].kernel", [](auto& e) { e.mutable_steps(1)->set_kernel(1); }},
      {"steps[1].operands", [](auto& e) { e.mutable_steps(1)->mutable_operands()->RemoveLast(); }},
      {"steps[0].operands[0].space", [](auto& e) { FirstOperand(e, 0).clear_space(); }},
      {"steps[0].operands[0].space", [](auto& e) { FirstOperand(e, 0).set_space(static_cast<v1::Operand::Space>(9)); }},
      {"steps[0].operands[0].offset", [](auto& e) { FirstOperand(e, 0).set_offset(e.arena_bytes() + 1); }},
      {"steps[0].operands[0].index", [](auto& e) { FirstOperand(e, 0).set_index(1); }},
      {"steps[1].operands[0].index", [](auto& e) { FirstOperand(e, 1).set_index(1); }},
      {"steps[1].operands[0].index", [](auto& e) { Result(e).set_aliases(0); }},
      {"steps[1].operands[0].offset", [](auto& e) { FirstOperand(e, 1).set_offset(4); }},
      {"steps[0].operands[1].index", [](auto& e) { e.mutable_steps(0)->mutable_operands(1)->set_index(2); }},
      {"steps[0].operands[1].written", [](auto& e) { e.mutable_steps(0)->mutable_operands(1)->set_written(true); }},
      {"steps[1].operands[2].offset", [](auto& e) { e.clear_constants(); }},
      {"steps[1].operands[2].written", [](auto& e) { e.mutable_steps(1)->mutable_operands(2)->set_written(true); }},
  };
  return *cases;
}

TEST(Load, RefusesEachBadField) {
  const auto device = NewCpu();
  const v1::Executable good = testing::AddProgram(4, device->target());
  ASSERT_TRUE(Load(good, *device).ok());
  for (size_t i = 0; i < BadCases().size(); ++i) {
    v1::Executable bad = good;
    BadCases()[i].damage(bad);
    const auto program = Load(bad, *device);
    ASSERT_FALSE(program.ok()) << i << ": " << BadCases()[i].field;
    const auto detail = DetailOf(program.status());
    ASSERT_TRUE(detail.has_value()) << program.status();
    EXPECT_EQ(detail->code(), v1::INTERNAL_FAULT);
    EXPECT_EQ(detail->field(), BadCases()[i].field) << i << ": " << program.status();
  }
  EXPECT_EQ(device->stats().modules, 0);
}

TEST(Load, RefusesCodeThatDoesNotLink) {
  const auto device = NewCpu();
  v1::Executable executable = testing::AddProgram(4, device->target());
  executable.set_object("no object");
  EXPECT_EQ(DetailOf(Load(executable, *device).status())->code(), v1::INTERNAL_FAULT);
  executable = testing::AddProgram(4, device->target());
  executable.mutable_kernels(0)->set_symbol("no_such_kernel");
  EXPECT_EQ(DetailOf(Load(executable, *device).status())->code(), v1::INTERNAL_FAULT);
}

TEST(Load, WorksOnTheNullDevice) {
  const auto device = *null::CreateDevice({});
  EXPECT_TRUE(Load(testing::AddProgram(4, device->target()), *device).ok());
}

}  // namespace
}  // namespace kiln::runtime
