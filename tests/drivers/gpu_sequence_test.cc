// Recorded sequences on a GPU: launches of several modules are asked for together, become graphs,
// and stop where they must.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "runtime/exec/sequence.h"
#include "runtime/observer.h"
#include "tests/drivers/gpu_fixture.h"

namespace kiln::testing {
namespace {

using runtime::Sequence;
using runtime::SequenceStep;
using ::testing::HasSubstr;

// Parameter 0 becomes parameter 1, of 32 floats each.
v1::Executable CopyInto(GpuMachine& machine) {
  v1::Executable executable = machine.Program();
  v1::Signature& signature = *executable.mutable_signature();
  signature.clear_results();
  *signature.add_parameters() = signature.parameters(0);
  for (uint32_t slot = 0; slot < 2; ++slot) {
    signature.mutable_parameters(slot)->set_slot(slot);
    signature.mutable_parameters(slot)->set_written(slot == 0);
    v1::Operand& operand = *executable.mutable_steps(0)->mutable_operands(slot);
    operand.set_space(v1::Operand::PARAMETER);
    operand.set_index(slot);
  }
  return executable;
}

// Of two programs by turns: the first 128 bytes of buffer 1 are copied to its second, these to its
// third, and so on; the last to buffer 0. Buffer 1 has room for `steps` of them.
absl::StatusOr<std::shared_ptr<Sequence>> Chain(GpuMachine& machine, Device& device, uint32_t steps) {
  std::vector<std::shared_ptr<runtime::LoadedExecutable>> programs;
  for (int i = 0; i < 2; ++i) {
    KILN_ASSIGN_OR_RETURN(auto program, runtime::Load(CopyInto(machine), device));
    programs.push_back(std::move(program));
  }
  std::vector<SequenceStep> list;
  for (uint32_t i = 0; i < steps; ++i) {
    const SequenceStep::Memory from = {1, 128ul * i};
    const SequenceStep::Memory to =
        i + 1 == steps ? SequenceStep::Memory{0, 0} : SequenceStep::Memory{1, from.offset + 128};
    list.push_back({programs[i % 2], {to, from}, {}});
  }
  return Sequence::Make(&device, std::move(list));
}

absl::Status Replay(std::shared_ptr<Sequence> sequence, const std::vector<BufferSlice>& buffers,
                    const runtime::hal::LaunchControl& control = {}, runtime::RuntimeObserver* observer = nullptr) {
  absl::Status status;
  absl::Notification done;
  runtime::RunOptions options;
  options.control = control;
  runtime::hal::Queue& queue = sequence->device().queue();
  runtime::Executor(observer).Run(std::move(sequence), buffers, options, [&](absl::StatusOr<runtime::RunResult> run) {
    status = run.status();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_TRUE(queue.Drain(absl::InfiniteFuture()).ok());
  return status;
}

class GpuSequenceTest : public GpuDeviceTest {
 protected:
  void Record(uint32_t steps) {
    Open();
    auto sequence = Chain(*machine_, device(), steps);
    ASSERT_TRUE(sequence.ok()) << sequence.status();
    sequence_ = *std::move(sequence);
    for (int i = 0; i < 2; ++i) sets_.push_back({New(128), New(128ul * steps)});
  }
  void TearDown() override {
    sequence_.reset();
    sets_.clear();
  }
  // With these buffers; the values that come out are asserted.
  void ReplayOnce(int set, int seed, const runtime::hal::LaunchControl& control = {}) {
    const std::vector<BufferSlice>& buffers = sets_.at(set);
    ASSERT_EQ(Write(device(), Pattern(128, seed), {buffers[1].buffer, 0, 128}), absl::OkStatus());
    ASSERT_EQ(Replay(sequence_, buffers, control), absl::OkStatus());
    EXPECT_TRUE(*Read(device(), buffers[0]) == Pattern(128, seed)) << seed;
  }
  size_t Count(const std::string& meaning) { return fake_.Calls(machine_->Entry(meaning)).size(); }

  std::shared_ptr<Sequence> sequence_;
  std::vector<std::vector<BufferSlice>> sets_;
};

TEST_P(GpuSequenceTest, WhatComesAgainIsOneGraph) {
  Record(100);
  ReplayOnce(0, 1);
  EXPECT_EQ(Count("graph"), 0u);
  EXPECT_EQ(Count("launch"), 100u);
  for (size_t iteration = 1; iteration < 4; ++iteration) {
    ReplayOnce(0, 10 + static_cast<int>(iteration));
    EXPECT_EQ(Count("graph"), iteration);
    EXPECT_EQ(Count("launch"), 200u);  // one by one, and for the graph
  }
  // Other buffers have another, and the first keep theirs.
  ReplayOnce(1, 20);
  EXPECT_EQ(Count("graph"), 3u);
  EXPECT_EQ(Count("launch"), 300u);
  ReplayOnce(1, 21);
  ReplayOnce(0, 22);
  EXPECT_EQ(Count("graph"), 5u);
  EXPECT_EQ(Count("launch"), 400u);
  EXPECT_EQ(device().stats().launches, 700u);
}

TEST_P(GpuSequenceTest, ARunThatMayStopHasAGraphOfEveryPiece) {
  Record(200);
  std::atomic<bool> cancelled = false;
  const runtime::hal::LaunchControl cancel = {&cancelled}, late = {nullptr, absl::Now() + absl::Hours(1)};
  for (int iteration = 0; iteration < 4; ++iteration) {
    const size_t finishes = Count("finish");
    ReplayOnce(0, iteration, iteration % 2 == 0 ? cancel : late);
    // Three between the pieces, and one each at the ends of the write, the replay and the read.
    EXPECT_EQ(Count("finish") - finishes, 6u);
    EXPECT_EQ(Count("graph"), 4u * iteration);
    EXPECT_EQ(Count("launch"), iteration == 0 ? 200u : 400u);
  }
}

TEST_P(GpuSequenceTest, AStopTakesEffectWithin64Launches) {
  Record(1000);
  // Cancelled, or too late, from the moment that the run begins to launch.
  struct Stopper final : runtime::RuntimeObserver {
    void OnRun(const runtime::RunRecord& record) override { launches = record.launches; }
    bool WantsLaunches(uint64_t) const override {
      cancelled = true;
      return false;
    }
    mutable std::atomic<bool> cancelled = false;
    uint32_t launches = 0;
  } stopper;
  for (int iteration = 0; iteration < 3; ++iteration) {  // also as a graph
    stopper.cancelled = false;
    const absl::Status status = Replay(sequence_, sets_[0], {&stopper.cancelled}, &stopper);
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_THAT(std::string(status.message()), HasSubstr("step 64"));
    EXPECT_EQ(stopper.launches, 64u);
  }
  EXPECT_EQ(Count("graph"), 2u);
  std::vector<void*> operands(sequence_->operands().size());
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = sets_[0][1 - i % 2].device_data();
  uint32_t launched = 0;
  const absl::Status late = sequence_->parts()[0].list->Run(operands.data(), {nullptr, absl::Now()}, launched);
  EXPECT_EQ(DetailOf(late)->code(), v1::DEADLINE_PASSED);
  EXPECT_EQ(launched, 64u);
  EXPECT_EQ(device().FinishLaunches(), absl::OkStatus());
  ReplayOnce(0, 3);
}

TEST_P(GpuSequenceTest, AFailureIsOfItsStep) {
  Record(5);
  fake_("fail " + machine_->Entry("launch") + " 3 1");
  const absl::Status third = Replay(sequence_, sets_[0]);
  EXPECT_EQ(DetailOf(third)->field(), "steps[2]") << third;
  EXPECT_THAT(std::string(third.message()), HasSubstr("kernel k"));
  ReplayOnce(0, 1);
  EXPECT_EQ(Count("graph"), 1u);
  fake_("fail " + machine_->Entry("graph") + " 1 1");
  const absl::Status graph = Replay(sequence_, sets_[0]);
  EXPECT_EQ(DetailOf(graph)->code(), v1::INTERNAL_FAULT) << graph;
  EXPECT_THAT(std::string(graph.message()), HasSubstr(machine_->Entry("graph")));
  ReplayOnce(0, 2);
}

TEST_P(GpuSequenceTest, ALostDeviceIsTold) {
  Record(5);
  for (int seed = 0; seed < 2; ++seed) ReplayOnce(0, seed);
  fake_("fail " + machine_->Entry("graph") + " 1 719");
  for (int iteration = 0; iteration < 2; ++iteration) {
    const absl::Status lost = Replay(sequence_, sets_[0]);
    EXPECT_EQ(DetailOf(lost)->code(), v1::PARTICIPANT_MISSING) << lost;
    EXPECT_EQ(DetailOf(lost)->field(), device().name());
  }
  // The process has it back when it is started again.
  fake_("forget 0");
}

// A recording, and replays of it until they are graphs.
absl::Status RecordAndReplay(GpuMachine& machine, uint32_t steps) {
  runtime::gpu::Found found = machine.Find();
  if (found.devices.empty()) return absl::UnavailableError(found.absent.at(0));
  Device& device = *found.devices[0];
  KILN_ASSIGN_OR_RETURN(const auto sequence, Chain(machine, device, steps));
  KILN_ASSIGN_OR_RETURN(auto to, device.allocator().Allocate(128, MemoryUse::kClient));
  KILN_ASSIGN_OR_RETURN(auto from, device.allocator().Allocate(128 * steps, MemoryUse::kClient));
  const std::vector<BufferSlice> buffers = {BufferSlice::Whole(to), BufferSlice::Whole(from)};
  std::atomic<bool> cancelled = false;
  for (int iteration = 0; iteration < 3; ++iteration) {
    KILN_RETURN_IF_ERROR(Write(device, Pattern(128, iteration), {from, 0, 128}));
    KILN_RETURN_IF_ERROR(Replay(sequence, buffers, {&cancelled}));
    KILN_ASSIGN_OR_RETURN(const std::string read, Read(device, buffers[0]));
    EXPECT_TRUE(read == Pattern(128, iteration)) << iteration;
  }
  return absl::OkStatus();
}

TEST_P(GpuSequenceTest, EveryCallMayFail) {
  // Of a sequence in two pieces, in which most calls are alike, some.
  for (const auto& [steps, stride] : {std::pair(4u, 1), {68u, 17}}) {
    fake_("reset");
    ASSERT_EQ(RecordAndReplay(*machine_, steps), absl::OkStatus());
    const int calls = std::stoi(fake_("count"));
    for (const int code : {1, 2, 719}) {
      for (int call = 1; call <= calls; call += stride) {
        fake_("reset");
        fake_(absl::StrCat("fail any ", call, " ", code));
        const absl::Status status = RecordAndReplay(*machine_, steps);
        if (!status.ok()) {
          EXPECT_TRUE(absl::IsUnavailable(status) || DetailOf(status).has_value()) << status;
        }
        // What a lost device held is lost with it.
        if (code == 719 || absl::IsUnavailable(status)) fake_("forget 0");
        ASSERT_EQ(fake_("live"), kNothingLive) << "after call " << call << " failed with " << code << ": " << status;
      }
    }
  }
  fake_("reset");
  EXPECT_EQ(RecordAndReplay(*machine_, 4), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuSequenceTest, ::testing::Values(&MakeCudaMachine));
INSTANTIATE_TEST_SUITE_P(Hip, GpuSequenceTest, ::testing::Values(&MakeHipMachine));

}  // namespace
}  // namespace kiln::testing
