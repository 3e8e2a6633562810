// The drivers of GPUs on fakes of the vendors' libraries: both, by the same tests. tests/hal tests
// what all devices do.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/drivers/gpu_fixture.h"

namespace kiln::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST_P(GpuDeviceTest, SaysWhatItIs) {
  fake_("set devices 2");
  Open();
  ASSERT_EQ(devices_.size(), 2u);
  EXPECT_EQ(device(1).name(), absl::StrCat(machine_->kind(), ":1"));
  EXPECT_THAT(std::string(device().description()), HasSubstr("Fake"));
  EXPECT_EQ(device().target().arch(), machine_->Program().target().arch());
  EXPECT_EQ(device().target().triple(), machine_->Program().target().triple());
  EXPECT_GE(device().target().tuning().shared_bytes(), 64u << 10);
  EXPECT_EQ(device().stats().memory.limit_bytes, (64u << 20) / 100 * 90);
}

TEST_P(GpuDeviceTest, MemoryThatCannotBeClearedIsNotGivenToAClient) {
  Open();
  New(5000);
  fake_("fail " + machine_->Entry("fill") + " 1 1");
  const absl::Status status = device().allocator().Allocate(5000, MemoryUse::kClient).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("invalid argument"));
  EXPECT_TRUE(*Read(device(), New(5000, MemoryUse::kClient)) == std::string(5000, '\0'));
}

TEST_P(GpuDeviceTest, MemoryIsShort) {
  Open();
  const uint64_t limit = device().stats().memory.limit_bytes;
  const BufferSlice half = New(limit / 2);
  const absl::Status over = device().allocator().Allocate(limit / 2 + 64, MemoryUse::kProgram).status();
  EXPECT_THAT(std::string(over.message()), HasSubstr("--gpu_memory_percent"));
  // Somebody else has the card's memory: the vendor says so, and what is kept idle goes first.
  New(limit / 4);
  EXPECT_GT(device().stats().memory.cached_bytes, 0u);
  fake_("fail " + machine_->Entry("allocate") + " 1 2");
  fake_("fail " + machine_->Entry("allocate") + " 2 2");
  const absl::Status full = device().allocator().Allocate(limit / 3, MemoryUse::kProgram).status();
  EXPECT_EQ(DetailOf(full)->code(), v1::OUT_OF_MEMORY);
  EXPECT_THAT(std::string(full.message()), HasSubstr("(out of memory)"));
  EXPECT_EQ(device().stats().memory.cached_bytes, 0u);
  EXPECT_EQ(device().stats().memory.buffers, 1u);
  EXPECT_EQ(device().health(), absl::OkStatus());
  New(limit / 3);
}

TEST_P(GpuDeviceTest, ARunIsOneLaunch) {
  Open();
  const BufferSlice input = New(128);
  ASSERT_EQ(Write(device(), Pattern(128), input), absl::OkStatus());
  const auto result = Run(device(), input);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(*Read(device(), *result) == Pattern(128));
  EXPECT_THAT(fake_.Calls(machine_->Entry("launch")), ElementsAre(EndsWith(" k")));
}

TEST_P(GpuDeviceTest, RefusesWhatTheCardHasNotEnoughOf) {
  Open();
  const struct {
    void (*change)(v1::Launch& launch);
    const char* limit;
    uint64_t most;
  } kCases[] = {
      {[](v1::Launch& launch) { launch.set_items(0, 2048); }, "items along x", 1024},
      {[](v1::Launch& launch) { launch.set_items(1, 64); }, "items of a group", 1024},
      {[](v1::Launch& launch) { launch.set_groups(1, 70000); }, "groups along y", 65535},
      {[](v1::Launch& launch) { launch.set_dynamic_shared_bytes(1 << 20); }, "shared bytes of a group",
       device().target().tuning().shared_bytes()},
  };
  for (const auto& test : kCases) {
    v1::Executable executable = machine_->Program();
    test.change(*executable.mutable_kernels(0)->mutable_launch());
    const absl::Status status = device().LoadModule(executable).status();
    ASSERT_EQ(DetailOf(status)->code(), v1::GRAPH_TOO_LARGE) << status;
    EXPECT_EQ(DetailOf(status)->limit(), test.limit);
    EXPECT_EQ(DetailOf(status)->limit_value(), test.most);
    EXPECT_THAT(std::string(status.message()), HasSubstr("kernel k (copy 32)"));
  }
  v1::Executable executable = machine_->Program();
  executable.mutable_kernels(0)->clear_launch();
  EXPECT_EQ(DetailOf(device().LoadModule(executable).status())->field(), "launch");
  executable = machine_->Program();
  executable.mutable_target()->set_arch("sm_80");
  EXPECT_EQ(DetailOf(device().LoadModule(executable).status())->field(), "target.arch");
  executable = machine_->Program();
  executable.mutable_kernels(0)->set_symbol("nobody");
  const absl::Status missing = device().LoadModule(executable).status();
  EXPECT_EQ(DetailOf(missing)->code(), v1::INTERNAL_FAULT);
  EXPECT_THAT(std::string(missing.message()), AllOf(HasSubstr("kernel nobody"), HasSubstr("named symbol not found")));
  executable = machine_->Program();
  executable.set_object(std::string(100, 'x'));
  const absl::Status bad = device().LoadModule(executable).status();
  EXPECT_EQ(DetailOf(bad)->code(), v1::INTERNAL_FAULT);
  EXPECT_THAT(std::string(bad.message()), HasSubstr(machine_->Entry("load")));
  // Code of a newer driver's, or of another card's.
  for (const char* code : {"222", "209"}) {
    fake_("fail " + machine_->Entry("load") + " 1 " + code);
    const absl::Status foreign = device().LoadModule(machine_->Program()).status();
    EXPECT_EQ(DetailOf(foreign)->code(), v1::NOT_IMPLEMENTED) << foreign;
    EXPECT_THAT(std::string(foreign.message()), AllOf(HasSubstr(machine_->Entry("load")), HasSubstr("update it")));
  }
}

TEST_P(GpuDeviceTest, AKernelThatGoesAstrayLosesTheCard) {
  Open();
  const BufferSlice input = New(128);
  fake_("fail " + machine_->Entry("launch") + " 1 719");
  const absl::Status lost = Run(device(), input).status();
  EXPECT_EQ(DetailOf(lost)->code(), v1::PARTICIPANT_MISSING);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("unspecified launch failure"));
  EXPECT_EQ(DetailOf(device().health())->field(), device().name());
  // The process has it back when it is started again.
  fake_("forget 0");
}

// Everything once: what a server does with a device.
absl::Status DoEverything(GpuMachine& machine,
                          const std::function<absl::StatusOr<BufferSlice>(Device&, const BufferSlice&)>& run) {
  runtime::gpu::Found found = machine.Find();
  if (found.devices.empty()) return absl::UnavailableError(found.absent.at(0));
  Device& device = *found.devices[0];
  KILN_ASSIGN_OR_RETURN(auto buffer, device.allocator().Allocate(128, MemoryUse::kClient));
  const BufferSlice slice = BufferSlice::Whole(buffer);
  KILN_RETURN_IF_ERROR(Write(device, Pattern(128), slice));
  KILN_RETURN_IF_ERROR(Fill(device, {buffer, 0, 9}, "abc"));
  KILN_RETURN_IF_ERROR(Fill(device, {buffer, 16, 8}, "ab"));
  KILN_RETURN_IF_ERROR(Copy(device, {buffer, 0, 64}, {buffer, 3, 64}));
  KILN_RETURN_IF_ERROR(device.Store("abc", 3, slice.device_data()));
  KILN_ASSIGN_OR_RETURN(const BufferSlice result, run(device, slice));
  KILN_RETURN_IF_ERROR(Read(device, slice).status());
  // Thrice: also as a graph.
  KILN_ASSIGN_OR_RETURN(const auto module, device.LoadModule(machine.Program()));
  const std::vector<runtime::hal::LaunchStep> steps(5, {0, 0, 2});
  void* const operands[] = {result.device_data(), slice.device_data()};
  for (int iteration = 0; iteration < 3; ++iteration) {
    uint32_t launched = 0;
    absl::Status status = module->LaunchAll(steps, operands, {}, launched);
    status.Update(device.FinishLaunches());
    KILN_RETURN_IF_ERROR(status);
  }
  return Read(device, result).status();
}

TEST_P(GpuDeviceTest, EveryCallMayFail) {
  const auto run = [this](Device& device, const BufferSlice& input) { return Run(device, input); };
  ASSERT_EQ(DoEverything(*machine_, run), absl::OkStatus());
  const int calls = std::stoi(fake_("count"));
  ASSERT_GT(calls, 80);
  for (const int code : {1, 2, 719}) {
    for (int call = 1; call <= calls; ++call) {
      fake_("reset");
      fake_(absl::StrCat("fail any ", call, " ", code));
      const absl::Status status = DoEverything(*machine_, run);
      // What gives back says nothing.
      if (!status.ok()) {
        EXPECT_THAT(std::string(status.message()), HasSubstr("(")) << call;
        EXPECT_TRUE(absl::IsUnavailable(status) || DetailOf(status).has_value()) << status;
      }
      // What a lost device held is lost with it.
      if (code == 719 || absl::IsUnavailable(status)) fake_("forget 0");
      ASSERT_EQ(fake_("live"), kNothingLive) << "after call " << call << " failed with " << code << ": " << status;
    }
  }
  fake_("reset");
  EXPECT_EQ(DoEverything(*machine_, run), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuDeviceTest, ::testing::Values(&MakeCudaMachine));
INSTANTIATE_TEST_SUITE_P(Hip, GpuDeviceTest, ::testing::Values(&MakeHipMachine));

}  // namespace
}  // namespace kiln::testing
