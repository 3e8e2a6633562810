// GPUs with each other and with the CPU: copies from device to device, and collectives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "runtime/collective/collective.h"
#include "runtime/collective/copy_between.h"
#include "runtime/collective/meeting.h"
#include "runtime/collective/thresholds.h"
#include "runtime/drivers/cpu/device.h"
#include "tests/drivers/gpu_fixture.h"

// What collectives take of the host's memory is asked for in this form, and by nobody else here.
static std::atomic<uint64_t> taken_bytes = 0, fail_at = ~uint64_t{0};
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  if (taken_bytes.fetch_add(bytes) + bytes > fail_at) return nullptr;
  return ::operator new[](bytes);
}

namespace kiln::testing {
namespace {

namespace collective = runtime::collective;

class GpuTogetherTest : public ::testing::TestWithParam<std::unique_ptr<GpuMachine> (*)()> {
 protected:
  GpuTogetherTest() {
    machine_->fake()("set devices 2");
    devices_ = machine_->Find().devices;
    devices_.push_back(*runtime::cpu::CreateDevice({.threads = 1}));
    for (int i = 0; i < 3; ++i) hosts_.push_back(*runtime::cpu::CreateDevice({.threads = 1}));
  }
  ~GpuTogetherTest() override {
    runtime::hal::DrainAll(devices_);
    runtime::hal::DrainAll(hosts_);
  }

  BufferSlice New(size_t number, uint64_t bytes) {
    return BufferSlice::Whole(*devices_[number]->allocator().Allocate(bytes, runtime::hal::MemoryUse::kClient));
  }
  absl::Status CopyBetween(size_t from, const BufferSlice& source, size_t to, const BufferSlice& target) {
    absl::Status outcome;
    absl::Notification done;
    collective::CopyBetween(meetings_, devices_[from].get(), source, devices_[to].get(), target, absl::Seconds(30),
                            /*keeps_place=*/true, {}, [&](absl::Status status) {
                              outcome = std::move(status);
                              done.Notify();
                            });
    done.WaitForNotification();
    return outcome;
  }
  absl::StatusOr<collective::Report> Run(const collective::Request& request) {
    absl::StatusOr<collective::Report> outcome = absl::UnknownError("not run");
    absl::Notification done;
    collectives_.Run(request, {}, [&](absl::StatusOr<collective::Report> report) {
      outcome = std::move(report);
      done.Notify();
    });
    done.WaitForNotification();
    return outcome;
  }
  // With memory on `devices`.
  collective::Request Make(collective::Kind kind, v1::DType dtype, uint64_t count, std::vector<Device*> devices) {
    collective::Request request;
    request.kind = kind;
    request.dtype = dtype;
    request.count = count;
    request.devices = std::move(devices);
    const auto ranks = static_cast<uint32_t>(request.devices.size());
    request.root = collective::HasRoot(kind) ? 1 : 0;
    const auto slices = [&](bool one, bool parts) {
      std::vector<BufferSlice> made;
      for (uint32_t i = 0; i < (one ? 1 : ranks); ++i) {
        const uint32_t rank = one ? request.root : i;
        const uint64_t elements = parts ? collective::PartOf(count, ranks, rank).elements : count;
        made.push_back(BufferSlice::Whole(*request.devices[rank]->allocator().Allocate(
            elements * collective::ItemBytes(dtype), runtime::hal::MemoryUse::kClient)));
      }
      return made;
    };
    request.inputs = slices(collective::OneInput(kind), collective::InputsAreParts(kind));
    request.outputs = slices(collective::OneOutput(kind), collective::OutputsAreParts(kind));
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      std::string bytes = Pattern(request.inputs[i].bytes, static_cast<int>(17 * i));
      // Of floats: no infinities among them.
      for (char& byte : bytes) byte = static_cast<char>(byte & 0x3f);
      EXPECT_EQ(Write(*Owner(request.inputs[i]), bytes, request.inputs[i]), absl::OkStatus());
    }
    return request;
  }
  static Device* Owner(const BufferSlice& slice) { return const_cast<Device*>(slice.buffer->device()); }
  static std::vector<std::string> Outputs(const collective::Request& request) {
    std::vector<std::string> outputs;
    for (const BufferSlice& slice : request.outputs) outputs.push_back(*Read(*Owner(slice), slice));
    return outputs;
  }
  // What the same comes to where the host sees all.
  std::vector<std::string> Expected(collective::Request request) {
    std::vector<Device*> devices;
    for (size_t i = 0; i < request.devices.size(); ++i) devices.push_back(hosts_[i].get());
    collective::Request same = Make(request.kind, request.dtype, request.count, devices);
    same.op = request.op;
    same.algorithm = collective::kNaive;
    EXPECT_EQ(Run(same).status(), absl::OkStatus());
    return Outputs(same);
  }
  std::vector<Device*> All() {
    std::vector<Device*> all;
    for (const auto& device : devices_) all.push_back(device.get());
    return all;
  }

  std::unique_ptr<GpuMachine> machine_ = GetParam()();
  std::vector<std::unique_ptr<Device>> devices_;  // two GPUs and a CPU
  std::vector<std::unique_ptr<Device>> hosts_;    // to compare with
  collective::Meetings meetings_;
  collective::Thresholds thresholds_{"", ""};
  collective::Collectives collectives_{&meetings_, &thresholds_, absl::Seconds(30)};
};

TEST_P(GpuTogetherTest, CopiesFromAnyToAny) {
  const uint64_t kBytes = (17 << 20) + 1;
  for (const auto& [from, to] : {std::pair<size_t, size_t>{0, 1}, {1, 2}, {2, 0}}) {
    const BufferSlice source = New(from, kBytes), target = New(to, kBytes + 2);
    std::string text(kBytes, '\0');
    for (uint64_t i = 0; i < kBytes; ++i) text[i] = static_cast<char>((i * 13 + from) & 0xff);
    ASSERT_EQ(Write(*devices_[from], text, source), absl::OkStatus());
    EXPECT_EQ(CopyBetween(from, source, to, {target.buffer, 1, kBytes}), absl::OkStatus());
    EXPECT_TRUE(*Read(*devices_[to], target) == std::string(1, '\0') + text + std::string(1, '\0')) << from << to;
  }
}

TEST_P(GpuTogetherTest, ACopyFromALostDeviceSaysWhich) {
  const BufferSlice source = New(0, 8), target = New(1, 8);
  machine_->fake()("lose 0 719");
  const absl::Status status = CopyBetween(0, source, 1, target);
  EXPECT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING) << status;
  EXPECT_EQ(DetailOf(status)->field(), devices_[0]->name());
  EXPECT_EQ(devices_[1]->health(), absl::OkStatus());
  machine_->fake()("forget 0");
}

constexpr collective::Kind kAllKinds[] = {collective::Kind::kBroadcast, collective::Kind::kScatter,
                                          collective::Kind::kGather,    collective::Kind::kReduce,
                                          collective::Kind::kAllGather, collective::Kind::kReduceScatter,
                                          collective::Kind::kAllReduce};

TEST_P(GpuTogetherTest, EveryCollectiveWithTheHost) {
  for (const collective::Kind kind : kAllKinds) {
    for (const v1::DType dtype : {v1::FLOAT32, v1::FLOAT16, v1::INT64, v1::UINT8}) {
      for (const uint64_t count : {0, 1, 1001}) {
        const collective::Request request = Make(kind, dtype, count, All());
        const auto report = Run(request);
        ASSERT_EQ(report.status(), absl::OkStatus());
        EXPECT_STREQ(report->algorithm, "by_host");
        EXPECT_EQ(Outputs(request), Expected(request)) << collective::KindName(kind) << " of " << dtype << " " << count;
      }
    }
  }
}

TEST_P(GpuTogetherTest, AReductionMayBeInPlace) {
  collective::Request request = Make(collective::Kind::kAllReduce, v1::FLOAT32, 1001, All());
  request.outputs = request.inputs;
  const std::vector<std::string> expected = Expected(request);
  ASSERT_EQ(Run(request).status(), absl::OkStatus());
  EXPECT_EQ(Outputs(request), expected);
}

TEST_P(GpuTogetherTest, WhatACollectiveTakesOfTheHostsMemoryIsBounded) {
  // In several pieces each, and to be widened.
  const collective::Request request = Make(collective::Kind::kAllReduce, v1::FLOAT16, (13 << 20) / 2, All());
  taken_bytes = 0;
  ASSERT_EQ(Run(request).status(), absl::OkStatus());
  EXPECT_GT(taken_bytes, 1u << 20);
  EXPECT_LE(taken_bytes, 36u << 20);  // a window of three parts of 4 MiB for each participant
  EXPECT_TRUE(Outputs(request) == Expected(request));
}

TEST_P(GpuTogetherTest, WithoutHostMemoryNothingIsDone) {
  for (const uint64_t room : {0, 10'000, 20'000, 30'000}) {
    const collective::Request request = Make(collective::Kind::kReduceScatter, v1::FLOAT16, 9000, All());
    taken_bytes = 0;
    fail_at = room;
    const absl::Status status = Run(request).status();
    fail_at = ~uint64_t{0};
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    ASSERT_EQ(DetailOf(status)->code(), v1::OUT_OF_MEMORY) << room;
    EXPECT_EQ(DetailOf(status)->limit(), "host memory bytes of a collective");
    for (const std::string& output : Outputs(request)) EXPECT_EQ(output, std::string(output.size(), '\0'));
  }
}

TEST_P(GpuTogetherTest, ACollectiveWithALostDeviceSaysWhich) {
  const collective::Request request = Make(collective::Kind::kAllReduce, v1::FLOAT32, 1001, All());
  machine_->fake()("lose 1 719");
  const absl::Status status = Run(request).status();
  ASSERT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING) << status;
  EXPECT_EQ(DetailOf(status)->field(), devices_[1]->name());
  EXPECT_EQ(devices_[0]->health(), absl::OkStatus());
  machine_->fake()("forget 1");
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuTogetherTest, ::testing::Values(&MakeCudaMachine));
INSTANTIATE_TEST_SUITE_P(Hip, GpuTogetherTest, ::testing::Values(&MakeHipMachine));

}  // namespace
}  // namespace kiln::testing
