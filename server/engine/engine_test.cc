// The engine on a device that computes nothing, with a compiler that makes
// nothing: what is left is what the engine itself does.
#include "server/engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "runtime/drivers/null/device.h"

namespace kiln::server {
namespace {

constexpr char kTwice[] = R"(
  0 CONST [] weakint 4
  1 PARAM [0] slot=3 dtype=float32
  2 ADD [1, 1]
  3 SINK [2]
)";

v1::Graph GraphOf(const char* text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// Says that any graph takes float32 [4] in slot 3 and int32 [2] in slot 7, which
// it updates, and gives float32 [4] and the updated slot 7.
class FakeCompiler {
 public:
  CompileFn Function() {
    return [this](const v1::Graph& graph, const v1::Target& target, const compiler::Options&,
                  compiler::CompileObserver*, const CompileFor&) -> absl::StatusOr<v1::Executable> {
      ++compiles;
      if (gate != nullptr) gate->WaitForNotification();
      if (!failure.ok()) return failure;
      v1::Executable executable;
      *executable.mutable_target() = target;
      v1::Kernel* kernel = executable.add_kernels();
      kernel->set_symbol("k");
      kernel->set_iterations(1);
      v1::Step* step = executable.add_steps();
      AddOperand(*step, v1::Operand::PARAMETER, 0, false);
      AddOperand(*step, v1::Operand::PARAMETER, 1, true);
      AddOperand(*step, v1::Operand::RESULT, 0, true);
      AddParameter(executable, 3, v1::FLOAT32, 4, false);
      AddParameter(executable, 7, v1::INT32, 2, true);
      v1::Signature::Result* fresh = executable.mutable_signature()->add_results();
      fresh->set_dtype(v1::FLOAT32);
      fresh->add_shape(4);
      fresh->set_bytes(16);
      v1::Signature::Result* updated = executable.mutable_signature()->add_results();
      updated->set_dtype(v1::INT32);
      updated->add_shape(2);
      updated->set_bytes(8);
      updated->set_aliases(1);
      return executable;
    };
  }

  std::atomic<int> compiles{0};
  absl::Status failure;
  absl::Notification* gate = nullptr;

 private:
  static void AddOperand(v1::Step& step, v1::Operand::Space space, uint32_t index, bool written) {
    v1::Operand* operand = step.add_operands();
    operand->set_space(space);
    operand->set_index(index);
    operand->set_written(written);
  }
  static void AddParameter(v1::Executable& executable, uint32_t slot, v1::DType dtype, int64_t size, bool written) {
    v1::Signature::Parameter* parameter = executable.mutable_signature()->add_parameters();
    parameter->set_slot(slot);
    parameter->set_dtype(dtype);
    parameter->add_shape(size);
    parameter->set_bytes(4 * size);
    parameter->set_written(written);
  }
};

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() { Restart(EngineOptions()); }

  void Restart(const EngineOptions& options, int count = 1) {
    std::vector<std::unique_ptr<runtime::hal::Device>> devices;
    for (int i = 0; i < count; ++i)
      devices.push_back(*runtime::null::CreateDevice({.name = "NULL:" + std::to_string(i)}));
    engine_ = std::make_unique<Engine>(options, std::move(devices), compiler_.Function(), nullptr);
  }

  absl::StatusOr<CompileResult> Compile(const v1::Graph& graph, const Control& control = {},
                                        absl::string_view device = "") {
    absl::StatusOr<CompileResult> result;
    absl::Notification done;
    engine_->Compile({&graph, device, {}}, control, [&](absl::StatusOr<CompileResult> r) {
      result = std::move(r);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  absl::StatusOr<ExecuteResult> Execute(ExecuteRequest request, const Control& control = {}) {
    absl::StatusOr<ExecuteResult> result;
    absl::Notification done;
    engine_->Execute(std::move(request), control, [&](absl::StatusOr<ExecuteResult> r) {
      result = std::move(r);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  // By graph, with good arguments by value.
  ExecuteRequest Good() {
    ExecuteRequest request;
    request.graph = &graph_;
    request.arguments.push_back({3, TensorView{v1::FLOAT32, four_, sixteen_}});
    request.arguments.push_back({7, TensorView{v1::INT32, two_, eight_}});
    return request;
  }

  uint64_t MemoryInUse() { return engine_->devices()[0]->stats().memory.in_use_bytes; }

  const v1::Graph graph_ = GraphOf(kTwice);
  const std::vector<int64_t> four_ = {4};
  const std::vector<int64_t> two_ = {2};
  const std::string sixteen_ = std::string(16, 'x');
  const std::string eight_ = std::string(8, 'y');
  FakeCompiler compiler_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, CompilesOnceAndExecutesByHash) {
  const auto first = Compile(graph_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->from_cache);
  EXPECT_EQ(first->program->kernels, 1u);
  EXPECT_TRUE(Compile(graph_)->from_cache);

  ExecuteRequest request = Good();
  request.graph = nullptr;
  request.graph_hash = first->program->graph_hash.view();
  request.results_inline = true;
  const auto run = Execute(std::move(request));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->from_cache);
  EXPECT_EQ(compiler_.compiles, 1);
  ASSERT_EQ(run->results.size(), 2u);
  EXPECT_EQ(run->results[0].data.size(), 16u);
}

TEST_F(EngineTest, DevicesOfOneTargetShareWhatIsCompiled) {
  Restart({}, /*count=*/3);
  const auto first = Compile(graph_, {}, "NULL:0");
  const auto second = Compile(graph_, {}, "NULL:1");
  ASSERT_TRUE(first.ok() && second.ok()) << second.status();
  EXPECT_NE(first->program, second->program);
  EXPECT_EQ(second->program->program->single()->device().name(), "NULL:1");
  EXPECT_EQ(second->program->graph, first->program->graph);

  // On the third it is not even loaded, and the hash is enough.
  ExecuteRequest request = Good();
  request.graph = nullptr;
  request.graph_hash = first->program->graph_hash.view();
  request.device = "NULL:2";
  request.results_inline = true;
  const auto run = Execute(std::move(request));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->program->program->single()->device().name(), "NULL:2");
  EXPECT_EQ(compiler_.compiles, 1);
}

TEST_F(EngineTest, ResultsAreHandlesUnlessSentByValue) {
  const auto buffer = engine_->buffers().Allocate("", v1::INT32, {2});
  ASSERT_TRUE(buffer.ok());
  ExecuteRequest request = Good();
  request.arguments[1].value = BufferAddress{buffer->handle, 0};
  const auto run = Execute(std::move(request));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_NE(run->results[0].handle, 0u);
  EXPECT_EQ(run->results[0].buffer->dtype, v1::FLOAT32);
  EXPECT_EQ(run->results[0].buffer->slice.bytes, 16u);
  EXPECT_EQ(run->results[1].handle, buffer->handle) << "a parameter updated in place keeps its handle";
  EXPECT_TRUE(engine_->buffers().Free({run->results[0].handle, buffer->handle}).ok());
}

TEST_F(EngineTest, AWrittenParameterSentByValueComesBackByValue) {
  const auto run = Execute(Good());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->results[1].buffer, nullptr);
  EXPECT_EQ(run->results[1].data, eight_) << "the null device changes nothing";
}

TEST_F(EngineTest, HashesAreChecked) {
  ExecuteRequest request = Good();
  request.graph = nullptr;
  const std::string unknown(32, '\1');
  request.graph_hash = unknown;
  EXPECT_EQ(DetailOf(Execute(request).status())->code(), v1::NEED_GRAPH);
  request.graph = &graph_;
  EXPECT_EQ(DetailOf(Execute(request).status())->code(), v1::HASH_MISMATCH);
  request.graph_hash = "short";
  EXPECT_EQ(DetailOf(Execute(request).status())->code(), v1::BAD_ARGUMENT);
  request.graph_hash = "";
  request.graph = nullptr;
  EXPECT_EQ(DetailOf(Execute(request).status())->code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(compiler_.compiles, 0);
}

TEST_F(EngineTest, LimitsAreCheckedBeforeAnythingElse) {
  EngineOptions options;
  options.limits.max_nodes = 3;
  Restart(options);
  auto detail = DetailOf(Compile(graph_).status());
  EXPECT_EQ(detail->code(), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(detail->limit(), "nodes");
  EXPECT_EQ(detail->limit_value(), 3u);
  EXPECT_EQ(detail->used(), 4u);

  options.limits = {};
  options.limits.max_bytes = 10;
  Restart(options);
  detail = DetailOf(Compile(graph_).status());
  EXPECT_EQ(detail->code(), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(detail->limit(), "bytes");
  EXPECT_EQ(detail->used(), graph_.ByteSizeLong());
}

TEST_F(EngineTest, ResultsByValueHaveALimitThatIsCheckedBeforeAnythingRuns) {
  EngineOptions options;
  options.max_inline_result_bytes = 23;
  Restart(options);
  ExecuteRequest request = Good();
  request.results_inline = true;
  const absl::Status status = Execute(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(detail.limit(), "inline result bytes");
  EXPECT_EQ(detail.limit_value(), 23u);
  EXPECT_EQ(detail.used(), 24u);
  EXPECT_EQ(engine_->ListPrograms().front()->program->single()->runs(), 0u);
  // What a request held is given back a moment after its answer.
  while (MemoryInUse() != 0) std::this_thread::yield();
  // What was sent by value goes back by value, and alone it fits.
  EXPECT_TRUE(Execute(Good()).ok());

  options.max_inline_result_bytes = 24;
  Restart(options);
  EXPECT_TRUE(Execute(request).ok());
}

TEST_F(EngineTest, ManyFirstRequestsCompileOnce) {
  absl::Notification all_asked;
  compiler_.gate = &all_asked;
  constexpr int kRequests = 64;
  absl::BlockingCounter answers(kRequests);
  std::atomic<int> good{0};
  for (int i = 0; i < kRequests; ++i) {
    engine_->Execute(Good(), {}, [&](absl::StatusOr<ExecuteResult> result) {
      good += result.ok();
      answers.DecrementCount();
    });
  }
  all_asked.Notify();
  answers.Wait();
  EXPECT_EQ(good, kRequests);
  EXPECT_EQ(compiler_.compiles, 1);
}

TEST_F(EngineTest, CallersThatStayTakeOverFromOneThatLeft) {
  absl::Notification pool_is_free;
  compiler_.gate = &pool_is_free;
  const v1::Graph other = GraphOf("0 CONST [] weakint 4\n1 PARAM [0] slot=1 dtype=int32\n2 SINK [1]\n");
  std::atomic<bool> left{false};
  Control leaving;
  leaving.cancelled = &left;
  absl::BlockingCounter answers(3);
  absl::Status first, second;
  // One thread compiles, and it is busy.
  engine_->Compile({&other, "", {}}, {}, [&](const auto&) { answers.DecrementCount(); });
  engine_->Compile({&graph_, "", {}}, leaving, [&](const auto& result) {
    first = result.status();
    answers.DecrementCount();
  });
  engine_->Compile({&graph_, "", {}}, {}, [&](const auto& result) {
    second = result.status();
    answers.DecrementCount();
  });
  left = true;
  pool_is_free.Notify();
  answers.Wait();
  EXPECT_EQ(first.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(second.ok()) << second;
  EXPECT_EQ(compiler_.compiles, 2);
}

TEST_F(EngineTest, FailuresAreNotKept) {
  v1::ErrorDetail detail;
  detail.set_code(v1::SHAPE_MISMATCH);
  detail.set_node(2);
  compiler_.failure = MakeError(detail, "no");
  EXPECT_EQ(DetailOf(Compile(graph_).status())->node(), 2u);
  EXPECT_EQ(DetailOf(Execute(Good()).status())->code(), v1::SHAPE_MISMATCH);
  EXPECT_EQ(compiler_.compiles, 2);
  compiler_.failure = absl::OkStatus();
  EXPECT_TRUE(Compile(graph_).ok());
}

TEST_F(EngineTest, ExpiredAndCancelledRequestsDoNotCompile) {
  Control late;
  late.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(DetailOf(Execute(Good(), late).status())->code(), v1::DEADLINE_PASSED);
  const std::atomic<bool> gone{true};
  Control cancelled;
  cancelled.cancelled = &gone;
  EXPECT_EQ(Compile(graph_, cancelled).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(compiler_.compiles, 0);
}

TEST_F(EngineTest, BadArgumentsAreNamedAndCostNothing) {
  ASSERT_TRUE(Compile(graph_).ok());
  const uint64_t small = engine_->buffers().Allocate("", 12)->handle;
  const uint64_t large = engine_->buffers().Allocate("", 64)->handle;
  const uint64_t floats = engine_->buffers().Allocate("", v1::FLOAT32, {8})->handle;
  const uint64_t ints = engine_->buffers().Allocate("", v1::INT32, {4})->handle;
  const uint64_t square = engine_->buffers().Allocate("", v1::FLOAT32, {2, 2})->handle;
  const uint64_t in_use = MemoryInUse();
  const TensorView good{v1::FLOAT32, four_, sixteen_};
  struct Row {
    const char* what;
    std::vector<Argument> arguments;  // beside a good slot 7
    v1::ErrorCode code;
    uint32_t slot;
  };
  const Row rows[] = {
      {"missing", {}, v1::MISSING_ARGUMENT, 3},
      {"unknown slot", {{3, good}, {4, good}}, v1::UNKNOWN_ARGUMENT, 4},
      {"twice", {{3, good}, {3, good}}, v1::BAD_ARGUMENT, 3},
      {"integer for memory", {{3, int64_t{5}}}, v1::BAD_ARGUMENT, 3},
      {"integer for no slot", {{3, good}, {4, int64_t{5}}}, v1::UNKNOWN_ARGUMENT, 4},
      {"unknown handle", {{3, BufferAddress{77, 0}}}, v1::UNKNOWN_HANDLE, 3},
      {"too small", {{3, BufferAddress{small, 0}}}, v1::BUFFER_SIZE_MISMATCH, 3},
      {"rest too small", {{3, BufferAddress{large, 52}}}, v1::BUFFER_SIZE_MISMATCH, 3},
      {"offset past the end", {{3, BufferAddress{large, 65}}}, v1::OUT_OF_BOUNDS, 3},
      {"typed and too large", {{3, BufferAddress{floats, 0}}}, v1::BUFFER_SIZE_MISMATCH, 3},
      {"typed and of another shape", {{3, BufferAddress{square, 0}}}, v1::BUFFER_SIZE_MISMATCH, 3},
      {"other dtype", {{3, BufferAddress{ints, 0}}}, v1::BUFFER_DTYPE_MISMATCH, 3},
      {"unaligned", {{3, BufferAddress{large, 2}}}, v1::BUFFER_DTYPE_MISMATCH, 3},
      {"tensor of other dtype", {{3, TensorView{v1::INT32, four_, sixteen_}}}, v1::BUFFER_DTYPE_MISMATCH, 3},
      {"tensor of other shape", {{3, TensorView{v1::FLOAT32, two_, sixteen_}}}, v1::BUFFER_SIZE_MISMATCH, 3},
      {"tensor cut short", {{3, TensorView{v1::FLOAT32, four_, eight_}}}, v1::BUFFER_SIZE_MISMATCH, 3},
  };
  for (const Row& row : rows) {
    ExecuteRequest request = Good();
    request.arguments.erase(request.arguments.begin());
    request.arguments.insert(request.arguments.end(), row.arguments.begin(), row.arguments.end());
    const auto run = Execute(std::move(request));
    ASSERT_FALSE(run.ok()) << row.what;
    const auto detail = DetailOf(run.status());
    ASSERT_TRUE(detail.has_value()) << row.what << ": " << run.status();
    EXPECT_EQ(detail->code(), row.code) << row.what << ": " << run.status();
    EXPECT_EQ(detail->slot(), row.slot) << row.what;
  }
  EXPECT_EQ(MemoryInUse(), in_use);
}

TEST_F(EngineTest, SpareBytesAreFineWhereTheirTypeIsUnknown) {
  ASSERT_TRUE(Compile(graph_).ok());
  const uint64_t large = engine_->buffers().Allocate("", 64)->handle;
  for (uint64_t offset : {0, 16, 48}) {
    ExecuteRequest request = Good();
    request.arguments[0].value = BufferAddress{large, offset};
    EXPECT_TRUE(Execute(std::move(request)).ok()) << offset;
  }
}

TEST_F(EngineTest, UnknownDeviceIsNamed) {
  ExecuteRequest request = Good();
  request.device = "CUDA:7";
  EXPECT_EQ(DetailOf(Execute(std::move(request)).status())->code(), v1::UNKNOWN_DEVICE);
}

}  // namespace
}  // namespace kiln::server
