// Recording and replaying on a device that computes nothing: names, what is kept, and
// what is refused.
#include <gtest/gtest.h>

#include <atomic>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "runtime/drivers/null/device.h"
#include "server/engine/engine.h"
#include "server/metrics/metrics.h"

namespace kiln::server {
namespace {

v1::Signature::Parameter& AddParameter(v1::Executable& executable, uint32_t slot, bool written) {
  v1::Signature::Parameter& parameter = *executable.mutable_signature()->add_parameters();
  parameter.set_slot(slot);
  parameter.set_dtype(v1::FLOAT32);
  parameter.add_shape(4);
  parameter.set_bytes(16);
  parameter.set_written(written);
  return parameter;
}

// Any graph takes float32 [4] in slots 3, which it writes, and 7, and variables "n"
// (slot 8) and "m" (slot 9, by default 5), 1 to 10 both.
absl::StatusOr<v1::Executable> Compiled(const v1::Graph&, const v1::Target& target, const compiler::Options&,
                                        compiler::CompileObserver*) {
  v1::Executable executable;
  *executable.mutable_target() = target;
  v1::Kernel& kernel = *executable.add_kernels();
  kernel.set_symbol("k");
  kernel.set_iterations(1);
  v1::Step& step = *executable.add_steps();
  for (uint32_t i = 0; i < 2; ++i) {
    AddParameter(executable, i == 0 ? 3 : 7, i == 0);
    v1::Operand& operand = *step.add_operands();
    operand.set_space(v1::Operand::PARAMETER);
    operand.set_index(i);
    operand.set_written(i == 0);
  }
  for (uint32_t slot : {8, 9}) {
    v1::Signature::Variable& variable = *executable.mutable_signature()->add_variables();
    variable.set_slot(slot);
    variable.set_name(slot == 8 ? "n" : "m");
    variable.set_min_value(1);
    variable.set_max_value(10);
    if (slot == 9) variable.set_default_value(5);
  }
  return executable;
}

v1::RecordedArgument Memory(uint32_t slot, uint32_t buffer, uint64_t offset = 0) {
  v1::RecordedArgument argument;
  argument.set_slot(slot);
  argument.mutable_memory()->set_buffer(buffer);
  argument.mutable_memory()->set_offset(offset);
  return argument;
}

v1::RecordedArgument Integer(uint32_t slot, uint32_t number) {
  v1::RecordedArgument argument;
  argument.set_slot(slot);
  argument.set_integer(number);
  return argument;
}

v1::RecordedArgument Constant(uint32_t slot, int64_t value) {
  v1::RecordedArgument argument;
  argument.set_slot(slot);
  argument.set_constant(value);
  return argument;
}

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() { Restart(EngineOptions()); }

  void Restart(const EngineOptions& options) {
    std::vector<std::unique_ptr<runtime::hal::Device>> devices;
    devices.push_back(*runtime::null::CreateDevice({}));
    engine_ = std::make_unique<Engine>(options, std::move(devices), InProcess(Compiled), nullptr);
    first_ = Compile(1);
  }

  // A graph of its own for each number; its hash.
  std::string Compile(int number) {
    const auto graph = ParseGraph(absl::StrCat("0 CONST [] int32 ", number, "\n1 SINK [0]\n"));
    EXPECT_TRUE(graph.ok()) << graph.status();
    std::string hash;
    absl::Notification done;
    engine_->Compile({&*graph, "", {}}, {}, [&](absl::StatusOr<CompileResult> result) {
      EXPECT_TRUE(result.ok()) << result.status();
      hash = std::string(result->program->graph_hash.view());
      done.Notify();
    });
    done.WaitForNotification();
    return hash;
  }

  static void AddStep(v1::RecordSequenceRequest& request, const std::vector<v1::RecordedArgument>& arguments,
                      uint32_t program = 0) {
    v1::RecordedStep& step = *request.add_steps();
    step.set_program(program);
    for (const v1::RecordedArgument& argument : arguments) *step.add_arguments() = argument;
  }

  // One step of the first program: buffer 0 from buffer 1, n = integer 0.
  v1::RecordSequenceRequest Good() {
    v1::RecordSequenceRequest request;
    request.add_programs()->set_graph_hash(first_);
    AddStep(request, {Memory(3, 0), Memory(7, 1), Integer(8, 0)});
    return request;
  }

  absl::StatusOr<std::string> Record(const v1::RecordSequenceRequest& request) {
    absl::StatusOr<std::string> id;
    absl::Notification done;
    engine_->Record(request, nullptr, {}, [&](absl::StatusOr<Recordings::Handle> recording) {
      if (recording.ok()) {
        id = std::string((*recording)->id.view());
      } else {
        id = recording.status();
      }
      done.Notify();
    });
    done.WaitForNotification();
    return id;
  }

  absl::Status Replay(absl::string_view id, const std::vector<BufferAddress>& buffers,
                      const std::vector<int64_t>& integers, SessionPtr caller = nullptr) {
    ReplayRequest request;
    request.recording = id;
    request.buffers.assign(buffers.begin(), buffers.end());
    request.integers = integers;
    request.caller = std::move(caller);
    absl::Status status;
    absl::Notification done;
    engine_->Replay(request, {}, [&](absl::StatusOr<ExecuteTiming> timing) {
      status = timing.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }

  uint64_t Allocate(uint64_t bytes, SessionPtr owner = nullptr) {
    return engine_->buffers().Allocate("", bytes, std::move(owner))->handle;
  }

  std::unique_ptr<Engine> engine_;
  std::string first_;
};

TEST_F(ReplayTest, TheNameIsWhatRunsOnWhat) {
  const std::string other = Compile(2);
  v1::RecordSequenceRequest request = Good();
  const auto id = Record(request);
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(id->size(), 32u);
  EXPECT_EQ(*Record(request), *id);
  // Programs in another order, arguments in another order.
  v1::RecordSequenceRequest same;
  same.add_programs()->set_graph_hash(other);
  same.add_programs()->set_graph_hash(first_);
  AddStep(same, {Integer(8, 0), Memory(7, 1), Memory(3, 0)}, 1);
  EXPECT_EQ(*Record(same), *id);
  // What is another recording.
  same.mutable_steps(0)->set_program(0);
  EXPECT_NE(*Record(same), *id);
  v1::RecordSequenceRequest twice = request;
  *twice.add_steps() = twice.steps(0);
  EXPECT_NE(*Record(twice), *id);
  v1::RecordSequenceRequest shifted = request;
  shifted.mutable_steps(0)->mutable_arguments(0)->mutable_memory()->set_offset(4);
  EXPECT_NE(*Record(shifted), *id);
  v1::RecordSequenceRequest constant = request;
  *constant.mutable_steps(0)->mutable_arguments(2) = Constant(8, 1);
  const std::string one = *Record(constant);
  EXPECT_NE(one, *id);
  constant.mutable_steps(0)->mutable_arguments(2)->set_constant(2);
  EXPECT_NE(*Record(constant), one);
  v1::RecordSequenceRequest options = request;
  options.mutable_programs(0)->mutable_options()->set_no_contraction(true);
  EXPECT_EQ(DetailOf(Record(options).status())->code(), v1::NEED_GRAPH) << "compiled with other options only";
}

TEST_F(ReplayTest, BadRecordingsAreRefused) {
  struct Row {
    const char* what;
    std::vector<v1::RecordedArgument> arguments;
    v1::ErrorCode code;
    uint32_t slot;
  };
  v1::RecordedArgument empty;
  empty.set_slot(8);
  const Row rows[] = {
      {"no memory", {Memory(3, 0), Integer(8, 0)}, v1::MISSING_ARGUMENT, 7},
      {"no variable", {Memory(3, 0), Memory(7, 1)}, v1::MISSING_ARGUMENT, 8},
      {"a slot too many", {Memory(3, 0), Memory(7, 1), Integer(8, 0), Memory(4, 1)}, v1::UNKNOWN_ARGUMENT, 4},
      {"twice", {Memory(3, 0), Memory(7, 1), Memory(7, 1), Integer(8, 0)}, v1::BAD_ARGUMENT, 7},
      {"an integer as memory", {Constant(3, 0), Memory(7, 1), Integer(8, 0)}, v1::BAD_ARGUMENT, 3},
      {"memory as an integer", {Memory(3, 0), Memory(7, 1), Memory(8, 0)}, v1::BAD_ARGUMENT, 8},
      {"nothing", {Memory(3, 0), Memory(7, 1), empty}, v1::BAD_ARGUMENT, 8},
      {"no value of the variable", {Memory(3, 0), Memory(7, 1), Constant(8, 11)}, v1::BAD_ARGUMENT, 8},
      {"no multiple", {Memory(3, 0, 2), Memory(7, 1), Integer(8, 0)}, v1::BUFFER_DTYPE_MISMATCH, 3},
      {"shared", {Memory(3, 0), Memory(7, 0, 12), Integer(8, 0)}, v1::BAD_ARGUMENT, 3},
  };
  for (const Row& row : rows) {
    v1::RecordSequenceRequest request = Good();
    AddStep(request, row.arguments);
    const auto id = Record(request);
    ASSERT_FALSE(id.ok()) << row.what;
    const auto detail = DetailOf(id.status());
    ASSERT_TRUE(detail.has_value()) << row.what << id.status();
    EXPECT_EQ(detail->code(), row.code) << row.what << ": " << id.status();
    EXPECT_EQ(detail->slot(), row.slot) << row.what;
    EXPECT_EQ(detail->field(), "steps[1]") << row.what;
  }
  v1::RecordSequenceRequest request = Good();
  request.mutable_steps(0)->set_program(1);
  EXPECT_EQ(DetailOf(Record(request).status())->code(), v1::BAD_ARGUMENT);
  request = Good();
  request.clear_steps();
  EXPECT_EQ(DetailOf(Record(request).status())->code(), v1::BAD_ARGUMENT);
  request = Good();
  request.set_device("CUDA:7");
  EXPECT_EQ(DetailOf(Record(request).status())->code(), v1::UNKNOWN_DEVICE);
  request = Good();
  request.mutable_programs(0)->set_graph_hash(std::string(32, 'x'));
  EXPECT_EQ(DetailOf(Record(request).status())->code(), v1::NEED_GRAPH);
  request.mutable_programs(0)->set_graph_hash("short");
  EXPECT_EQ(DetailOf(Record(request).status())->code(), v1::BAD_ARGUMENT);
}

TEST_F(ReplayTest, RunsOnTheCallersOwnMemory) {
  const std::string id = *Record(Good());
  const auto session = [&] { return *engine_->sessions().Find(engine_->sessions().Open("", 60)->token); };
  const SessionPtr mine = session(), theirs = session();
  const uint64_t out = Allocate(16, mine), in = Allocate(20), small = Allocate(12);
  EXPECT_TRUE(Replay(id, {{out, 0}, {in, 4}}, {3}, mine).ok());
  const auto refused = [&](const absl::Status& status, v1::ErrorCode code, const std::string& field) {
    const auto detail = DetailOf(status);
    ASSERT_TRUE(detail.has_value()) << status;
    EXPECT_EQ(v1::ErrorCode_Name(detail->code()), v1::ErrorCode_Name(code)) << status;
    EXPECT_EQ(detail->field(), field) << status;
  };
  refused(Replay(id, {{out, 0}, {in, 4}}, {3}, theirs), v1::UNKNOWN_HANDLE, "buffers[0]");
  refused(Replay(id, {{in, 0}, {77, 0}}, {3}), v1::UNKNOWN_HANDLE, "buffers[1]");
  refused(Replay(id, {{out, 0}, {small, 0}}, {3}, mine), v1::BUFFER_SIZE_MISMATCH, "buffers[1]");
  refused(Replay(id, {{out, 0}, {in, 8}}, {3}, mine), v1::BUFFER_SIZE_MISMATCH, "buffers[1]");
  refused(Replay(id, {{out, 0}, {in, 21}}, {3}, mine), v1::OUT_OF_BOUNDS, "buffers[1]");
  refused(Replay(id, {{out, 0}, {in, 0}}, {11}, mine), v1::BAD_ARGUMENT, "steps[0]");
  refused(Replay(id, {{out, 0}, {in, 0}}, {}, mine), v1::MISSING_ARGUMENT, "");
  refused(Replay(std::string(32, 'x'), {{out, 0}, {in, 0}}, {3}, mine), v1::NEED_GRAPH, "recording");
  refused(Replay("short", {{out, 0}, {in, 0}}, {3}, mine), v1::BAD_ARGUMENT, "recording");
}

TEST_F(ReplayTest, TheLeastRecentlyReplayedIsForgotten) {
  EngineOptions options;
  options.program_cache_bytes = 100'000;
  Restart(options);
  const uint64_t memory = Allocate(20'000);
  const auto recorded = [&](uint64_t offset) {
    v1::RecordSequenceRequest request = Good();
    request.mutable_steps(0)->mutable_arguments(0)->mutable_memory()->set_offset(offset);
    const auto id = Record(request);
    EXPECT_TRUE(id.ok()) << id.status();
    return *id;
  };
  const std::string first = recorded(0), second = recorded(4);
  const uint64_t in = Allocate(16);
  for (uint64_t i = 2; i < 1000; ++i) {
    recorded(4 * i);
    ASSERT_TRUE(Replay(first, {{memory, 0}, {in, 0}}, {1}).ok()) << i;
  }
  EXPECT_EQ(DetailOf(Replay(second, {{memory, 0}, {in, 0}}, {1}))->code(), v1::NEED_GRAPH);
  EXPECT_EQ(recorded(4), second);
  EXPECT_TRUE(Replay(second, {{memory, 0}, {in, 0}}, {1}).ok());
}

TEST_F(ReplayTest, ARecordingKeepsItsPrograms) {
  EngineOptions options;
  options.program_cache_bytes = 100'000;
  Restart(options);
  const std::string id = *Record(Good());
  const uint64_t out = Allocate(16), in = Allocate(16);
  for (int i = 2; i < 500; ++i) Compile(i);
  EXPECT_EQ(DetailOf(Record(Good()).status())->code(), v1::NEED_GRAPH) << "the store has forgotten the program";
  EXPECT_TRUE(Replay(id, {{out, 0}, {in, 0}}, {1}).ok());
}

TEST_F(ReplayTest, OneThatIsCancelledWhileItWaitsIsCounted) {
  const std::string id = *Record(Good());
  const uint64_t out = Allocate(16), in = Allocate(20);
  Control control;
  control.flow = 1;
  absl::Notification called, done;
  Turn turn;
  constexpr uint64_t kLongNs = 1'000'000'000;
  engine_->turns().Take({control, {engine_->devices()[0].get()}, kLongNs}, [&](absl::StatusOr<Turn> got) {
    turn = *std::move(got);
    called.Notify();
  });
  called.WaitForNotification();
  std::atomic<bool> cancelled{false};
  control.flow = 2;
  control.cancelled = &cancelled;
  ReplayRequest request;
  request.recording = id;
  request.buffers = {{out, 0}, {in, 0}};
  const std::vector<int64_t> integers = {1};
  request.integers = integers;
  absl::Status status;
  engine_->Replay(request, control, [&](const absl::StatusOr<ExecuteTiming>& timing) {
    status = timing.status();
    done.Notify();
  });
  cancelled = true;
  done.WaitForNotification();
  turn.End(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine_->metrics().cancelled.Sum(Series<Place>::Of(Place::kQueue)), 1);
}

TEST_F(ReplayTest, WhatRunsIsCounted) {
  const std::string id = *Record(Good());
  const uint64_t out = Allocate(16), in = Allocate(20);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Replay(id, {{out, 0}, {in, 0}}, {1}).ok());
  EXPECT_FALSE(Replay(id, {{out, 0}, {77, 0}}, {1}).ok());
  const Metrics& metrics = engine_->metrics();
  const auto in_phase = [&metrics](Phase phase) {
    uint64_t count = 0;
    for (size_t bucket = 0; bucket <= std::size(kStepBounds); ++bucket)
      count += metrics.execute.Count(Series<Phase>::Of(phase), bucket);
    return count;
  };
  EXPECT_EQ(in_phase(Phase::kDevice), 3);
  EXPECT_EQ(in_phase(Phase::kCompile), 0);
  using Lookups = Series<CacheResult, CacheReason>;
  EXPECT_EQ(metrics.cache_lookups.Sum(Lookups::Of(CacheResult::kMiss, CacheReason::kCompiled)), 1);
  EXPECT_EQ(metrics.cache_lookups.Sum(Lookups::Of(CacheResult::kHit, CacheReason::kMemory)), 1);
  using Busy = Series<DeviceNumber, TenantNumber>;
  // Each of the three runs is rounded once on its way to either.
  EXPECT_NEAR(static_cast<double>(metrics.device_busy.Sum(Busy::Of({0}, TenantOf(nullptr)))),
              static_cast<double>(metrics.execute.Sum(Series<Phase>::Of(Phase::kDevice))), 3);
}

}  // namespace
}  // namespace kiln::server
