// Runs of programs on several devices that do not end well, and many at once; and
// messages that no compiler makes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "runtime/exec/task_run.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/multi_engine.h"

namespace kiln::testing {
namespace {

using compiler::HostTensor;
using runtime::hal::BufferSlice;

// The sum of x, float32 (1024, 4) split over D0 and D1, to each row of it.
constexpr char kAddSum[] = R"(
  0 CONST [] weakint 1024
  1 CONST [] weakint 4
  2 STACK [0, 1]
  3 PARAM [2] slot=0 dtype=float32 device=("D0", "D1")
  4 REDUCE [3] ADD axes=(0)
  5 ADD [3, 4]
  6 STORE [3, 5]
  7 AFTER [3, 6]
  8 TUPLE [7, 4]
)";

class MultiRunTest : public ::testing::Test {
 protected:
  MultiRunTest() : engine_(2) {
    auto graph = ParseGraph(kAddSum);
    EXPECT_TRUE(graph.ok()) << graph.status();
    auto message = engine_.Compile(*graph, ExactOptions());
    EXPECT_TRUE(message.ok()) << message.status();
    message_ = *std::move(message);
    auto program = engine_.Load(message_);
    EXPECT_TRUE(program.ok()) << program.status();
    program_ = *std::move(program);
  }

  std::vector<BufferSlice> Shares() {
    std::vector<BufferSlice> shares;
    for (const auto& device : engine_.devices()) {
      auto buffer = device->allocator().Allocate(512 * 16, runtime::hal::MemoryUse::kProgram);
      EXPECT_TRUE(buffer.ok());
      std::vector<float> ones(2048, 1.0f);
      std::memcpy((*buffer)->host_data(), ones.data(), 512 * 16);
      shares.push_back(BufferSlice::Whole(*std::move(buffer)));
    }
    return shares;
  }

  absl::Status Run(absl::Span<const BufferSlice> shares, const runtime::RunOptions& options) {
    absl::Status status;
    absl::Notification done;
    runtime::TaskRun::Start(program_, shares, options, runtime::Executor(), &engine_.collectives(),
                            [&](absl::StatusOr<runtime::TaskRunResult> result) {
                              status = result.status();
                              done.Notify();
                            });
    done.WaitForNotification();
    return status;
  }

  static float First(const BufferSlice& slice) {
    float value;
    std::memcpy(&value, slice.host_data(), sizeof(value));
    return value;
  }

  MultiEngine engine_;
  v1::MultiProgram message_;
  std::shared_ptr<const runtime::Program> program_;
};

TEST_F(MultiRunTest, CancelledAndLateRunsWriteNothing) {
  const auto shares = Shares();
  const std::atomic<bool> cancelled{true};
  EXPECT_EQ(Run(shares, {.control = {.cancelled = &cancelled}}).code(), absl::StatusCode::kCancelled);
  const absl::Status late = Run(shares, {.control = {.deadline = absl::Now() - absl::Seconds(1)}});
  EXPECT_EQ(DetailOf(late)->code(), v1::DEADLINE_PASSED) << late;
  EXPECT_EQ(First(shares[0]), 1.0f);
  EXPECT_TRUE(Run(shares, {}).ok());
  EXPECT_EQ(First(shares[0]), 1025.0f);
  EXPECT_EQ(First(shares[1]), 1025.0f);
}

TEST_F(MultiRunTest, AKnownTransferIsACollectiveAndReported) {
  using runtime::ProgramTask;
  const auto collectives = [](const runtime::Program& program) {
    return std::count_if(program.tasks().begin(), program.tasks().end(),
                         [](const ProgramTask& task) { return task.kind == ProgramTask::Kind::kCollective; });
  };
  EXPECT_EQ(collectives(*program_), 1);
  std::vector<runtime::RanCollective> ran;
  absl::Notification done;
  runtime::TaskRun::Start(program_, Shares(), {}, runtime::Executor(), &engine_.collectives(),
                          [&](absl::StatusOr<runtime::TaskRunResult> result) {
                            ASSERT_TRUE(result.ok()) << result.status();
                            ran = result->collectives;
                            done.Notify();
                          });
  done.WaitForNotification();
  ASSERT_EQ(ran.size(), 1u);
  EXPECT_EQ(ran[0].kind, runtime::collective::Kind::kAllReduce);
  EXPECT_EQ(ran[0].bytes, 16u);
  EXPECT_STRNE(ran[0].report.algorithm, "");
  EXPECT_GT(ran[0].report.bus_gb_s, 0);
  // On one device of two names there is nobody to meet.
  MultiEngine one(2, /*as_one=*/true);
  const auto alone = one.Load(message_);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(collectives(**alone), 0);
}

TEST_F(MultiRunTest, AProgramSaysWhetherReducesHaveAnOrder) {
  EXPECT_FALSE(program_->deterministic_order());
  compiler::Options options = ExactOptions();
  options.deterministic = true;
  const auto message = engine_.Compile(*ParseGraph(kAddSum), options);
  ASSERT_TRUE(message.ok()) << message.status();
  const auto program = engine_.Load(*message);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE((*program)->deterministic_order());
}

TEST_F(MultiRunTest, WrongArgumentsAreTold) {
  auto shares = Shares();
  EXPECT_EQ(DetailOf(Run({shares.data(), 1}, {}))->code(), v1::MISSING_ARGUMENT);
  std::swap(shares[0], shares[1]);
  EXPECT_EQ(DetailOf(Run(shares, {}))->code(), v1::BUFFER_DEVICE_MISMATCH);
  std::swap(shares[0], shares[1]);
  shares[1].bytes -= 4;
  EXPECT_EQ(DetailOf(Run(shares, {}))->code(), v1::BUFFER_SIZE_MISMATCH);
}

TEST_F(MultiRunTest, ManyAtOnceGiveAllBack) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      const auto shares = Shares();
      float wanted = 1;
      for (int iteration = 0; iteration < 2; ++iteration) {
        ASSERT_TRUE(Run(shares, {}).ok());
        wanted += 1024 * wanted;  // exact: below 2^24
      }
      EXPECT_EQ(First(shares[0]), wanted);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // All before any: an entry of one may hold another's memory.
  for (const auto& device : engine_.devices()) EXPECT_TRUE(device->queue().Drain(absl::InfiniteFuture()).ok());
  for (const auto& device : engine_.devices()) EXPECT_EQ(device->stats().memory.in_use_bytes, 0u);
}

TEST_F(MultiRunTest, UnsoundMessagesAreRefused) {
  using Edit = std::function<void(v1::MultiProgram&)>;
  const auto value = [](v1::MultiProgram& m, int i) { return m.mutable_values(i); };
  const auto segment = [](v1::MultiProgram& m) -> v1::SegmentStep* {
    for (v1::MultiStep& step : *m.mutable_steps()) {
      if (step.has_segment()) return step.mutable_segment();
    }
    return nullptr;
  };
  const auto transfer = [](v1::MultiProgram& m) -> v1::TransferStep* {
    for (v1::MultiStep& step : *m.mutable_steps()) {
      if (step.has_transfer()) return step.mutable_transfer();
    }
    return nullptr;
  };
  const auto arena = [](v1::MultiProgram& m) -> v1::PlacedValue* {
    for (v1::PlacedValue& value : *m.mutable_values()) {
      if (value.space() == v1::PlacedValue::ARENA) return &value;
    }
    return nullptr;
  };
  const Edit edits[] = {
      [&](auto& m) { m.add_devices("D2"); },
      [&](auto& m) { m.clear_arena_bytes(); },
      [&](auto& m) { m.set_arena_bytes(0, 1); },
      [&](auto& m) { arena(m)->set_offset(0, uint64_t{1} << 63); },
      [&](auto& m) { arena(m)->set_offset(0, 4); },
      [&](auto& m) { arena(m)->clear_offset(); },
      [&](auto& m) { arena(m)->mutable_placement()->set_device(0, 7); },
      [&](auto& m) { arena(m)->set_shape(0, int64_t{1} << 62); },
      [&](auto& m) { value(m, 0)->set_shape(0, -4); },
      [&](auto& m) { value(m, 0)->set_shape(0, 1023); },
      [&](auto& m) { value(m, 0)->set_dtype(v1::VOID); },
      [&](auto& m) { value(m, 0)->clear_placement(); },
      [&](auto& m) { value(m, 0)->mutable_placement()->set_axis(9); },
      [&](auto& m) { value(m, 0)->set_index(5); },
      [&](auto& m) { value(m, 0)->set_space(v1::PlacedValue::SPACE_UNSPECIFIED); },
      [&](auto& m) { m.set_parameter_values(0, 999); },
      [&](auto& m) { m.clear_result_values(); },
      [&](auto& m) { m.mutable_signature()->add_parameters(); },
      [&](auto& m) { segment(m)->set_executable(77); },
      [&](auto& m) { segment(m)->set_device(0, 77); },
      [&](auto& m) { segment(m)->set_parameters(0, 999); },
      [&](auto& m) { segment(m)->add_results(0); },
      [&](auto& m) { segment(m)->mutable_device()->SwapElements(0, 1); },
      [&](auto& m) { transfer(m)->set_from(999); },
      [&](auto& m) { transfer(m)->set_to(0); },
      [&](auto& m) { transfer(m)->set_reduce_op(v1::SUB); },
      [&](auto& m) { m.mutable_executables(0)->mutable_kernels(0)->set_symbol("nobody"); },
  };
  for (size_t i = 0; i < std::size(edits); ++i) {
    v1::MultiProgram edited = message_;
    edits[i](edited);
    std::vector<runtime::hal::Device*> devices = {engine_.devices()[0].get(), engine_.devices()[1].get()};
    const auto program = runtime::Program::Load(edited, devices);
    ASSERT_FALSE(program.ok()) << "edit " << i;
    EXPECT_EQ(program.status().code(), absl::StatusCode::kInternal) << "edit " << i << ": " << program.status();
  }
}

}  // namespace
}  // namespace kiln::testing
