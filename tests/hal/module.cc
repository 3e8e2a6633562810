// Code on a device: loaded, refused, launched, unloaded (runtime/hal/module.h).
#include <atomic>
#include <thread>

#include "runtime/exec/executor.h"
#include "runtime/exec/load.h"
#include "tests/hal/kernel_test.h"

namespace kiln::testing {
namespace {

class Module : public KernelTest {
 protected:
  absl::StatusOr<std::vector<BufferSlice>> Run(const std::shared_ptr<runtime::LoadedExecutable>& program,
                                               const std::vector<BufferSlice>& parameters) {
    std::vector<BufferSlice> results;
    const absl::Status status = Outcome([&](auto done) {
      runtime::Executor().Run(program, parameters, {},
                              [&results, done = std::move(done)](absl::StatusOr<runtime::RunResult> result) mutable {
                                if (result.ok()) results.assign(result->results.begin(), result->results.end());
                                done(result.status());
                              });
    });
    Settle();  // a run releases its buffers after its callback
    if (!status.ok()) return status;
    return results;
  }
};

TEST_P(Module, IsCountedWhileItIsLoaded) {
  const v1::Executable sum = Sum();
  EXPECT_EQ(device().stats().modules, 0u);
  auto one = Load(sum);
  EXPECT_EQ(device().stats().modules, 1u);
  auto other = Load(sum);
  EXPECT_EQ(device().stats().modules, 2u);
  one = nullptr;
  EXPECT_EQ(device().stats().modules, 1u);
  other = nullptr;
  EXPECT_EQ(device().stats().modules, 0u);
}

TEST_P(Module, LaunchesCompute) {
  if (const char* why = Lacks(Feature::kCode)) GTEST_SKIP() << why;
  for (const int64_t count : {1, 31, 1000, 100'003}) {
    const v1::Executable sum = Sum(count);
    const auto module = Load(sum);
    const auto n = static_cast<size_t>(count);
    const BufferSlice a = NewFloats(Row(0, 1, n)), b = NewFloats(Row(5, 2, n)), result = NewFloats(Row(0, 0, n));
    EXPECT_EQ(Launch(*module, Operands(sum, result, a, b)), absl::OkStatus());
    EXPECT_TRUE(FloatsOf(result) == Row(5, 3, n)) << count;
    EXPECT_TRUE(FloatsOf(a) == Row(0, 1, n) && FloatsOf(b) == Row(5, 2, n)) << count;
  }
}

TEST_P(Module, LaunchesAreCounted) {
  const v1::Executable sum = Sum();
  const auto module = Load(sum);
  const BufferSlice a = NewFloats(Row(1, 1)), result = NewFloats(Row(0, 0));
  const std::vector<void*> operands = Operands(sum, result, a, a);
  EXPECT_EQ(device().stats().launches, 0u);
  EXPECT_EQ(Launch(*module, operands, 5), absl::OkStatus());
  EXPECT_EQ(launched_, 5u);
  EXPECT_EQ(device().stats().launches, 5u);
  absl::Status status;
  InQueue([&] {
    status = module->Launch(0, operands.data(), {});
    status.Update(device().FinishLaunches());
  });
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(device().stats().launches, 6u);
  EXPECT_EQ(Launch(*module, operands, 0), absl::OkStatus());
  EXPECT_EQ(device().stats().launches, 6u);
}

TEST_P(Module, ALaunchSeesWhatWasDoneBeforeIt) {
  if (const char* why = Lacks(Feature::kCode)) GTEST_SKIP() << why;
  const v1::Executable sum = Sum();
  const auto module = Load(sum);
  const BufferSlice a = NewFloats(Row(0, 0)), b = NewFloats(Row(1, 1)), result = NewFloats(Row(0, 0));
  const std::vector<void*> operands = Operands(sum, result, a, b);
  auto& queue = device().queue();
  // a = a + b, twenty times, without waiting in between.
  for (int i = 0; i < 20; ++i) {
    queue.Submit(
        [&] {
          EXPECT_EQ(module->Launch(0, operands.data(), {}), absl::OkStatus());
          EXPECT_EQ(device().FinishLaunches(), absl::OkStatus());
        },
        0);
    queue.Copy(result, a, [](const absl::Status& status) { EXPECT_EQ(status, absl::OkStatus()); });
  }
  EXPECT_TRUE(FloatsOf(a) == Row(20, 20));
}

TEST_P(Module, StepsOfALaunchSeeEachOther) {
  if (const char* why = Lacks(Feature::kCode)) GTEST_SKIP() << why;
  const v1::Executable sum = Sum();
  const auto module = Load(sum);
  const BufferSlice a = NewFloats(Row(1, 1)), b = NewFloats(Row(0, 0)), c = NewFloats(Row(0, 0));
  // b = a + a; c = b + b; several times, so that a driver that makes graphs of launches does.
  std::vector<void*> operands = Operands(sum, b, a, a);
  const auto count = static_cast<uint32_t>(operands.size());
  for (void* operand : Operands(sum, c, b, b)) operands.push_back(operand);
  const runtime::hal::LaunchStep steps[] = {{0, 0, count}, {0, count, count}};
  for (int round = 1; round < 5; ++round) {
    ASSERT_EQ(Fill(device(), c, ""), absl::OkStatus());
    absl::Status status;
    uint32_t launched = 0;
    InQueue([&] {
      status = module->LaunchAll(steps, operands.data(), {}, launched);
      status.Update(device().FinishLaunches());
    });
    EXPECT_EQ(status, absl::OkStatus());
    EXPECT_EQ(launched, 2u);
    EXPECT_TRUE(FloatsOf(c) == Row(4, 4)) << round;
  }
}

TEST_P(Module, ALaunchListGoesOverModules) {
  const v1::Executable sum = Sum();
  const auto one = Load(sum), other = Load(sum);
  const BufferSlice a = NewFloats(Row(1, 1)), b = NewFloats(Row(0, 0)), c = NewFloats(Row(0, 0));
  std::vector<void*> operands = Operands(sum, b, a, a);
  const auto second = static_cast<uint32_t>(operands.size());
  for (void* operand : Operands(sum, c, b, a)) operands.push_back(operand);
  const runtime::hal::Launch launches[] = {{one.get(), 0, 0}, {other.get(), 0, second}};
  const auto list = device().MakeLaunchList(launches);
  for (int round = 1; round < 4; ++round) {
    absl::Status status;
    uint32_t launched = 0;
    InQueue([&] {
      status = list->Run(operands.data(), {}, launched);
      status.Update(device().FinishLaunches());
    });
    EXPECT_EQ(status, absl::OkStatus());
    EXPECT_EQ(launched, 2u);
    EXPECT_EQ(device().stats().launches, 2u * static_cast<uint64_t>(round));
  }
  ExpectComputed(c, Row(3, 3));
}

TEST_P(Module, ManyThreadsLoadAtOnce) {
  const v1::Executable sum = Sum();
  std::vector<std::unique_ptr<runtime::hal::Module>> modules(16);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < modules.size(); i += 4) modules[i] = Load(sum);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device().stats().modules, 16u);
  const BufferSlice a = NewFloats(Row(1, 1)), result = NewFloats(Row(0, 0));
  for (const auto& module : modules) EXPECT_EQ(Launch(*module, Operands(sum, result, a, a)), absl::OkStatus());
  ExpectComputed(result, Row(2, 2));
}

TEST_P(Module, ProgramsWithoutKernelsLoad) {
  v1::Executable none;
  *none.mutable_target() = device().target();
  const auto module = Load(none);
  EXPECT_EQ(device().stats().modules, 1u);
}

TEST_P(Module, BytesThatAreNoCodeAreRefused) {
  if (const char* why = Lacks(Feature::kCode)) GTEST_SKIP() << why;
  v1::Executable bad = Sum();
  bad.set_object(std::string(1000, 'x'));
  const absl::Status refused = device().LoadModule(bad).status();
  EXPECT_EQ(CodeOf(refused), v1::INTERNAL_FAULT) << refused;
  EXPECT_GT(refused.message().size(), 10u) << refused;
  EXPECT_EQ(device().stats().modules, 0u);
  EXPECT_EQ(device().health(), absl::OkStatus());
}

TEST_P(Module, AKernelThatIsNotInTheCodeIsRefusedByName) {
  if (const char* why = Lacks(Feature::kCode)) GTEST_SKIP() << why;
  v1::Executable bad = Sum();
  bad.mutable_kernels(0)->set_symbol("no_such_kernel");
  const absl::Status refused = device().LoadModule(bad).status();
  EXPECT_EQ(CodeOf(refused), v1::INTERNAL_FAULT) << refused;
  EXPECT_NE(refused.message().find("no_such_kernel"), absl::string_view::npos) << refused;
  EXPECT_EQ(device().stats().modules, 0u);
}

TEST_P(Module, ProgramsRun) {
  const auto program = runtime::Load(Sum(), device());
  ASSERT_TRUE(program.ok()) << program.status();
  const BufferSlice a = NewFloats(Row(0, 1)), b = NewFloats(Row(7, 0));
  for (int run = 0; run < 3; ++run) {
    const auto results = Run(*program, {a, b});
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ(results->size(), 1u);
    EXPECT_EQ(results->front().bytes, 4000u);
    ExpectComputed(results->front(), Row(7, 1));
  }
  EXPECT_EQ(device().stats().launches, 3u);
}

TEST_P(Module, WrongArgumentsAreRefusedAndNothingIsLaunched) {
  const auto program = runtime::Load(Sum(), device());
  ASSERT_TRUE(program.ok()) << program.status();
  const BufferSlice a = NewFloats(Row(0, 1)), b = NewFloats(Row(7, 0));
  EXPECT_EQ(CodeOf(Run(*program, {a}).status()), v1::MISSING_ARGUMENT);
  EXPECT_EQ(CodeOf(Run(*program, {a, b, b}).status()), v1::UNKNOWN_ARGUMENT);
  EXPECT_EQ(CodeOf(Run(*program, {a, {b.buffer, 4, 4000}}).status()), v1::OUT_OF_BOUNDS);
  EXPECT_EQ(CodeOf(Run(*program, {a, {b.buffer, 0, 3996}}).status()), v1::BUFFER_SIZE_MISMATCH);
  if (Lacks(Feature::kPair) == nullptr) {
    const BufferSlice there = NewFloats(Row(0, 1), 1);
    EXPECT_EQ(CodeOf(Run(*program, {a, there}).status()), v1::BUFFER_DEVICE_MISMATCH);
  }
  EXPECT_EQ(device().stats().launches, 0u);
}

TEST_P(Module, ProgramsForAnotherTargetAreRefused) {
  v1::Executable other = Sum();
  other.mutable_target()->set_kind(v1::Target::C_SOURCE);
  const absl::Status refused = runtime::Load(other, device()).status();
  EXPECT_EQ(CodeOf(refused), v1::INTERNAL_FAULT) << refused;
  EXPECT_EQ(DetailOf(refused)->field(), "target.kind");
}

INSTANTIATE_TEST_SUITE_P(Devices, Module, ::testing::ValuesIn(RowPointers()), RowName);

}  // namespace
}  // namespace kiln::testing
