// GPUs with each other and with the CPU: copies from device to device, and collectives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
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
#include "tests/drivers/gpu_machine.h"

namespace kiln::testing {
namespace {

namespace collective = runtime::collective;
using runtime::hal::BufferSlice;
using runtime::hal::Device;

class GpuTogetherTest : public ::testing::TestWithParam<std::unique_ptr<GpuMachine> (*)()> {
 protected:
  GpuTogetherTest() {
    machine_->fake()("set devices 2");
    devices_ = machine_->Find().devices;
    devices_.push_back(*runtime::cpu::CreateDevice({.threads = 1}));
  }
  ~GpuTogetherTest() override { runtime::hal::DrainAll(devices_); }

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
  absl::Status Run(const collective::Request& request) {
    absl::Status outcome;
    absl::Notification done;
    collectives_.Run(request, {}, [&](const absl::StatusOr<collective::Report>& report) {
      outcome = report.status();
      done.Notify();
    });
    done.WaitForNotification();
    return outcome;
  }

  std::unique_ptr<GpuMachine> machine_ = GetParam()();
  std::vector<std::unique_ptr<Device>> devices_;  // two GPUs and a CPU
  collective::Meetings meetings_;
  collective::Thresholds thresholds_{"", ""};
  collective::Collectives collectives_{&meetings_, &thresholds_, absl::Seconds(30)};
};

std::string Floats(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

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

TEST_P(GpuTogetherTest, EveryAlgorithmAddsUp) {
  for (int algorithm = 0; algorithm < collective::kAlgorithmCount; ++algorithm) {
    collective::Request request;
    request.kind = collective::Kind::kAllReduce;
    request.dtype = v1::FLOAT32;
    request.algorithm = static_cast<collective::AlgorithmId>(algorithm);
    request.count = 1001;
    std::vector<float> sum(request.count);
    for (size_t i = 0; i < devices_.size(); ++i) {
      request.devices.push_back(devices_[i].get());
      request.inputs.push_back(New(i, request.count * sizeof(float)));
      request.outputs.push_back(New(i, request.count * sizeof(float)));
      std::vector<float> values(request.count);
      for (size_t j = 0; j < values.size(); ++j) sum[j] += values[j] = static_cast<float>(j % 17 + 100 * i);
      ASSERT_EQ(Write(*devices_[i], Floats(values), request.inputs[i]), absl::OkStatus());
    }
    ASSERT_EQ(Run(request), absl::OkStatus());
    for (size_t i = 0; i < devices_.size(); ++i) {
      EXPECT_TRUE(*Read(*devices_[i], request.outputs[i]) == Floats(sum)) << algorithm << " at " << i;
    }
  }
}

TEST_P(GpuTogetherTest, BroadcastsFromOneAndScattersItsParts) {
  for (const collective::Kind kind : {collective::Kind::kBroadcast, collective::Kind::kScatter}) {
    collective::Request request;
    request.kind = kind;
    request.dtype = v1::INT32;
    request.count = 10;
    request.root = 1;
    const bool parts = kind == collective::Kind::kScatter;
    std::string text(40, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i);
    request.inputs.push_back(New(1, 40));
    ASSERT_EQ(Write(*devices_[1], text, request.inputs[0]), absl::OkStatus());
    for (uint32_t i = 0; i < 3; ++i) {
      request.devices.push_back(devices_[i].get());
      request.outputs.push_back(New(i, parts ? 4 * collective::PartOf(10, 3, i).elements : 40));
    }
    ASSERT_EQ(Run(request), absl::OkStatus());
    for (uint32_t i = 0; i < 3; ++i) {
      const auto part = collective::PartOf(10, 3, i);
      EXPECT_EQ(*Read(*devices_[i], request.outputs[i]), parts ? text.substr(4 * part.begin, 4 * part.elements) : text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuTogetherTest, ::testing::Values(&MakeCudaMachine));
INSTANTIATE_TEST_SUITE_P(Hip, GpuTogetherTest, ::testing::Values(&MakeHipMachine));

}  // namespace
}  // namespace kiln::testing
