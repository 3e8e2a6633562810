// What is made of weights once: that it is made once, and never outlives what they were.
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/load.h"
#include "runtime/testing/programs.h"

namespace kiln::runtime {
namespace {

using hal::BufferSlice;
using testing::Floats;
using testing::ReadFloats;

using Values = std::vector<float>;

class PreparationTest : public ::testing::Test {
 protected:
  static constexpr int64_t kCount = 4;
  static constexpr uint64_t kBytes = kCount * sizeof(float);

  std::shared_ptr<LoadedExecutable> LoadOrDie(const v1::Executable& executable) {
    auto program = Load(executable, *device_);
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }

  // The first result of a run; nothing if it failed.
  Values Run(const std::shared_ptr<LoadedExecutable>& program, const std::vector<BufferSlice>& parameters,
             absl::Span<const BufferSlice> results = {}) {
    Values values;
    absl::Notification done;
    RunOptions options;
    options.results = results;
    executor_.Run(program, parameters, options, [&](absl::StatusOr<RunResult> result) {
      status_ = result.status();
      if (result.ok()) values = ReadFloats(result->results[0]);
      done.Notify();
    });
    done.WaitForNotification();
    return values;
  }
  Values Run() { return Run(program_, {a_, w_}); }

  // Waits for one transfer.
  void Transfer(const std::function<void(hal::DoneCallback)>& begin) {
    absl::Notification done;
    begin([&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      done.Notify();
    });
    done.WaitForNotification();
  }

  // Behind everyone's back: what was made before is used for as long as it is kept.
  void Sneak(const BufferSlice& slice, const Values& values) {
    std::memcpy(slice.host_data(), values.data(), values.size() * sizeof(float));
  }

  std::unique_ptr<hal::Device> device_ = *cpu::CreateDevice({.threads = 2});
  Executor executor_;
  std::shared_ptr<LoadedExecutable> program_ = LoadOrDie(testing::PreparedProgram(kCount, device_->target()));
  BufferSlice a_ = Floats(*device_, {1, 2, 3, 4});
  BufferSlice w_ = Floats(*device_, {10, 20, 30, 40});
  absl::Status status_;
};

TEST_F(PreparationTest, IsMadeOnceForEachBuffer) {
  EXPECT_EQ(Run(), Values({21, 42, 63, 84}));
  Sneak(w_, {0, 0, 0, 0});
  EXPECT_EQ(Run(), Values({21, 42, 63, 84}));
  const BufferSlice other = Floats(*device_, {1, 1, 1, 1});
  EXPECT_EQ(Run(program_, {a_, other}), Values({3, 4, 5, 6}));
  EXPECT_EQ(Run(), Values({21, 42, 63, 84}));
}

TEST_F(PreparationTest, IsSharedByProgramsOfTheSameKey) {
  Run();
  Sneak(w_, {0, 0, 0, 0});
  EXPECT_EQ(Run(LoadOrDie(testing::PreparedProgram(kCount, device_->target())), {a_, w_}), Values({21, 42, 63, 84}));
  v1::Executable other = testing::PreparedProgram(kCount, device_->target());
  other.mutable_preparations(0)->set_key(std::string(32, '3'));
  EXPECT_EQ(Run(LoadOrDie(other), {a_, w_}), Values({1, 2, 3, 4}));
}

TEST_F(PreparationTest, EveryTransferToTheBufferEndsIt) {
  const Values ones = {1, 1, 1, 1};
  const BufferSlice source = Floats(*device_, ones);
  const absl::string_view bytes(reinterpret_cast<const char*>(ones.data()), kBytes);
  const std::vector<std::function<void(hal::DoneCallback)>> writes = {
      [&](hal::DoneCallback done) { device_->queue().Write(ones.data(), w_, std::move(done)); },
      [&](hal::DoneCallback done) { device_->queue().WritePieces({bytes}, w_, std::move(done)); },
      [&](hal::DoneCallback done) { device_->queue().Copy(source, w_, std::move(done)); },
      [&](hal::DoneCallback done) { device_->queue().Fill(w_, bytes.substr(0, 4), std::move(done)); },
  };
  for (size_t i = 0; i < writes.size(); ++i) {
    SCOPED_TRACE(i);
    Transfer([&](hal::DoneCallback done) {
      const Values tens = {10, 20, 30, 40};
      absl::Notification written;
      device_->queue().Write(tens.data(), w_, [&](const absl::Status&) { written.Notify(); });
      written.WaitForNotification();
      done(absl::OkStatus());
    });
    EXPECT_EQ(Run(), Values({21, 42, 63, 84}));
    Transfer(writes[i]);
    EXPECT_EQ(Run(), Values({3, 4, 5, 6}));
  }
}

TEST_F(PreparationTest, AProgramThatWritesTheBufferEndsIt) {
  EXPECT_EQ(Run(), Values({21, 42, 63, 84}));
  Run(LoadOrDie(testing::DoubleProgram(kCount, device_->target())), {w_});
  EXPECT_EQ(Run(), Values({41, 82, 123, 164}));
  // As a result that the caller brought.
  const BufferSlice halves = Floats(*device_, {0.5f, 0.5f, 0.5f, 0.5f});
  const BufferSlice zeros = Floats(*device_, {0, 0, 0, 0});
  Run(LoadOrDie(testing::AddProgram(kCount, device_->target())), {halves, zeros}, {&w_, 1});
  EXPECT_EQ(Run(), Values({3, 4, 5, 6}));
}

TEST_F(PreparationTest, PartsOfOneBufferHaveTheirOwn) {
  const BufferSlice both = Floats(*device_, {1, 1, 1, 1, 2, 2, 2, 2});
  const BufferSlice first{both.buffer, 0, kBytes}, second{both.buffer, kBytes, kBytes};
  EXPECT_EQ(Run(program_, {a_, first}), Values({3, 4, 5, 6}));
  EXPECT_EQ(Run(program_, {a_, second}), Values({5, 6, 7, 8}));
  EXPECT_EQ(Run(program_, {a_, first}), Values({3, 4, 5, 6}));
  // Whoever writes to one may have written to all.
  Run(LoadOrDie(testing::DoubleProgram(kCount, device_->target())), {first});
  EXPECT_EQ(Run(program_, {a_, first}), Values({5, 6, 7, 8}));
  EXPECT_EQ(Run(program_, {a_, second}), Values({5, 6, 7, 8}));
}

TEST_F(PreparationTest, OfManyTheOldestGoes) {
  const Values zeros(4 * (hal::Buffer::kMaxDerived + 1), 0);
  const BufferSlice all = Floats(*device_, zeros);
  const auto part = [&](size_t i) { return BufferSlice{all.buffer, i * kBytes, kBytes}; };
  for (size_t i = 0; i <= hal::Buffer::kMaxDerived; ++i) Run(program_, {a_, part(i)});
  Sneak(all, Values(zeros.size(), 1));
  EXPECT_EQ(Run(program_, {a_, part(1)}), Values({1, 2, 3, 4}));
  EXPECT_EQ(Run(program_, {a_, part(0)}), Values({3, 4, 5, 6}));
}

TEST_F(PreparationTest, GoesWithTheBuffer) {
  const uint64_t before = device_->stats().memory.buffers;
  BufferSlice w = Floats(*device_, {1, 1, 1, 1});
  EXPECT_EQ(Run(program_, {a_, w}), Values({3, 4, 5, 6}));
  EXPECT_GT(device_->stats().memory.buffers, before + 1);
  w = BufferSlice();
  EXPECT_EQ(device_->stats().memory.buffers, before);
}

TEST_F(PreparationTest, ThatFitsNowhereIsOutOfMemory) {
  const auto small = *cpu::CreateDevice({.threads = 1, .memory_limit_bytes = 1 << 20});
  v1::Executable executable = testing::PreparedProgram(kCount, small->target());
  executable.mutable_preparations(0)->set_bytes(uint64_t{1} << 30);
  const auto program = Load(executable, *small);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(Run(*program, {Floats(*small, {1, 1, 1, 1}), Floats(*small, {1, 1, 1, 1})}).empty());
  EXPECT_EQ(DetailOf(status_)->code(), v1::OUT_OF_MEMORY) << status_;
}

TEST_F(PreparationTest, IsMadeAnewInASequence) {
  // w doubles, then a + 2 w goes to `out`, twice over.
  v1::Executable into = testing::PreparedProgram(kCount, device_->target());
  v1::Signature::Parameter* out = into.mutable_signature()->add_parameters();
  *out = into.signature().parameters(1);
  out->set_slot(2);
  out->set_written(true);
  into.mutable_signature()->mutable_results(0)->set_aliases(2);
  v1::Operand* target = into.mutable_steps(0)->mutable_operands(0);
  target->set_space(v1::Operand::PARAMETER);
  target->set_index(2);
  const auto prepared = LoadOrDie(into);
  const auto twice = LoadOrDie(testing::DoubleProgram(kCount, device_->target()));
  std::vector<SequenceStep> steps;
  for (int i = 0; i < 2; ++i) {
    steps.push_back({twice, {{1, 0}}, {}});
    steps.push_back({prepared, {{0, 0}, {1, 0}, {2, 0}}, {}});
  }
  const auto sequence = Sequence::Make(device_.get(), std::move(steps));
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  const BufferSlice result = Floats(*device_, {0, 0, 0, 0});
  Run(prepared, {a_, w_, result});  // is not to be found by the replays
  for (const float factor : {4.0f, 16.0f}) {
    absl::Notification done;
    const BufferSlice buffers[] = {a_, w_, result};
    executor_.Run(*sequence, buffers, {}, [&](const absl::StatusOr<RunResult>& ran) {
      EXPECT_TRUE(ran.ok()) << ran.status();
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_EQ(ReadFloats(result), Values({1 + 20 * factor, 2 + 40 * factor, 3 + 60 * factor, 4 + 80 * factor}));
  }
  // Nor is what was made before good after them.
  EXPECT_EQ(Run(prepared, {a_, w_, result}), Values({321, 642, 963, 1284}));
}

// One change to a good executable, and the field that the refusal must name.
TEST_F(PreparationTest, RefusesEachBadField) {
  const struct {
    const char* field;
    std::function<void(v1::Preparation&)> damage;
  } cases[] = {
      {"preparations[0].parameter", [](auto& p) { p.set_parameter(2); }},
      {"preparations[0].bytes", [](auto& p) { p.set_bytes(~uint64_t{0}); }},
      {"preparations[0].key", [](auto& p) { p.set_key("short"); }},
      {"preparations[0].step.kernel", [](auto& p) { p.mutable_step()->set_kernel(7); }},
      {"preparations[0].step", [](auto& p) { p.mutable_step()->mutable_operands(1)->set_index(0); }},
      {"preparations[0].step", [](auto& p) { p.mutable_step()->mutable_operands(0)->set_written(false); }},
      {"preparations[0].step.operands[0].index", [](auto& p) { p.mutable_step()->mutable_operands(0)->set_index(1); }},
      {"steps[0].operands", [](auto& p) { p.mutable_step()->mutable_operands()->RemoveLast(); }},
  };
  for (const auto& bad : cases) {
    v1::Executable executable = testing::PreparedProgram(kCount, device_->target());
    bad.damage(*executable.mutable_preparations(0));
    const auto program = Load(executable, *device_);
    ASSERT_FALSE(program.ok()) << bad.field;
    EXPECT_EQ(DetailOf(program.status())->field(), bad.field) << program.status();
  }
  v1::Executable executable = testing::PreparedProgram(kCount, device_->target());
  executable.mutable_steps(0)->mutable_operands(2)->set_index(1);
  EXPECT_EQ(DetailOf(Load(executable, *device_).status())->field(), "steps[0].operands[2].index");
  executable = testing::PreparedProgram(kCount, device_->target());
  executable.mutable_signature()->mutable_parameters(1)->set_written(true);
  EXPECT_EQ(DetailOf(Load(executable, *device_).status())->field(), "preparations[0].parameter");
}

}  // namespace
}  // namespace kiln::runtime
