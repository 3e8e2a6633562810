// GPUs with each other and with the CPU.
#ifndef KILN_TESTS_DRIVERS_GPU_TOGETHER_H_
#define KILN_TESTS_DRIVERS_GPU_TOGETHER_H_

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
#include "tests/drivers/gpu_fixture.h"

namespace kiln::testing {

namespace collective = runtime::collective;

inline constexpr collective::Kind kAllKinds[] = {collective::Kind::kBroadcast, collective::Kind::kScatter,
                                                 collective::Kind::kGather,    collective::Kind::kReduce,
                                                 collective::Kind::kAllGather, collective::Kind::kReduceScatter,
                                                 collective::Kind::kAllReduce};

class GpuTogetherTest : public ::testing::TestWithParam<std::unique_ptr<GpuMachine> (*)()> {
 protected:
  // `combiner`: what combines values on devices.
  explicit GpuTogetherTest(size_t gpus = 3, collective::Combiner* combiner = nullptr)
      : gpus_(gpus), collectives_(&meetings_, &thresholds_, absl::Seconds(30), nullptr, combiner) {
    fake_("set devices " + std::to_string(gpus));
    Open();
    for (int i = 0; i < 4; ++i) hosts_.push_back(*runtime::cpu::CreateDevice({.threads = 1}));
  }
  ~GpuTogetherTest() override {
    runtime::hal::DrainAll(devices_);
    runtime::hal::DrainAll(hosts_);
  }

  // With the vendor's library for collectives, or without.
  void Open(bool collectives = false) {
    runtime::gpu::Found found = machine_->Find(collectives);
    EXPECT_EQ(found.no_collectives.empty(), collectives);
    devices_ = std::move(found.devices);
    ASSERT_EQ(devices_.size(), gpus_);
    devices_.push_back(*runtime::cpu::CreateDevice({.threads = 1}));
  }
  size_t PeerCopies() const { return fake_.Calls(machine_->Entry("peer copy")).size(); }

  BufferSlice New(size_t number, uint64_t bytes) {
    return BufferSlice::Whole(*devices_[number]->allocator().Allocate(bytes, runtime::hal::MemoryUse::kClient));
  }
  absl::Status CopyBetween(size_t from, const BufferSlice& source, size_t to, const BufferSlice& target) {
    absl::Status outcome;
    absl::Notification done;
    collective::CopyBetween(meetings_, devices_[from].get(), source, devices_[to].get(), target, absl::Seconds(30), {},
                            [&](absl::Status status) {
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
    request.root = collective::HasRoot(kind) && ranks > 1 ? 1 : 0;
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
      // Of floats: no infinities among them. Booleans are 0 and 1.
      for (char& byte : bytes) byte = static_cast<char>(byte & (dtype == v1::BOOL ? 1 : 0x3f));
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
  std::vector<Device*> First(size_t count) {
    std::vector<Device*> first;
    for (size_t i = 0; i < count; ++i) first.push_back(devices_[i].get());
    return first;
  }
  std::vector<Device*> Gpus() { return First(gpus_); }
  std::vector<Device*> All() { return First(gpus_ + 1); }

  const size_t gpus_;

  std::unique_ptr<GpuMachine> machine_ = GetParam()();
  Fake& fake_ = machine_->fake();
  std::vector<std::unique_ptr<Device>> devices_;  // the GPUs and a CPU
  std::vector<std::unique_ptr<Device>> hosts_;    // to compare with
  collective::Meetings meetings_;
  collective::Thresholds thresholds_{"", ""};
  collective::Collectives collectives_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_DRIVERS_GPU_TOGETHER_H_
