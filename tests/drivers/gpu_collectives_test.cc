// Collectives of GPUs, among themselves and with the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/drivers/gpu_together.h"

// What collectives take of the host's memory is asked for in this form, and by nobody else here.
static std::atomic<uint64_t> taken_bytes = 0, fail_at = ~uint64_t{0};
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  if (taken_bytes.fetch_add(bytes) + bytes > fail_at) return nullptr;
  return ::operator new[](bytes);
}

namespace kiln::testing {
namespace {

constexpr v1::DType kSomeDTypes[] = {v1::FLOAT32, v1::FLOAT16, v1::INT64, v1::UINT8, v1::BOOL};

// Memory is cleared by the device when it comes to it, and nobody waits for that.
// What programs on several devices do between their steps.
TEST_P(GpuTogetherTest, EveryCollectiveWithTheHost) {
  for (const collective::Kind kind : kAllKinds) {
    for (const v1::DType dtype : kSomeDTypes) {
      for (const uint64_t count : {0, 1, 1001}) {
        const collective::Request request = Make(kind, dtype, count, All());
        const auto report = Run(request);
        ASSERT_EQ(report.status(), absl::OkStatus());
        EXPECT_STREQ(report->algorithm, "by_host");
        EXPECT_TRUE(Outputs(request) == Expected(request))
            << collective::KindName(kind) << " of " << dtype << " " << count;
      }
    }
  }
}

TEST_P(GpuTogetherTest, WhatOnlyMovesIsCopiedFromPeerToPeer) {
  for (const collective::Kind kind : kAllKinds) {
    for (const size_t ranks : {1, 2, 3}) {
      for (const uint64_t count : {0, 1, 1001}) {
        const size_t copies = PeerCopies();
        const collective::Request request = Make(kind, v1::INT16, count, First(ranks));
        const auto report = Run(request);
        ASSERT_EQ(report.status(), absl::OkStatus());
        EXPECT_STREQ(report->algorithm, collective::Reduces(kind) ? "by_host" : "by_peers");
        EXPECT_TRUE(Outputs(request) == Expected(request))
            << collective::KindName(kind) << " " << ranks << " " << count;
        if (collective::Reduces(kind) || ranks == 1 || count < 1001) continue;
        // Each rank that gets something, from each of the others.
        const bool one_way = collective::OneOutput(kind) || kind == collective::Kind::kScatter;
        const bool broadcast = kind == collective::Kind::kBroadcast;
        const size_t expected = broadcast ? (ranks - 1) * ranks : one_way ? ranks - 1 : ranks * (ranks - 1);
        EXPECT_EQ(PeerCopies() - copies, expected) << collective::KindName(kind);
      }
    }
  }
}

TEST_P(GpuTogetherTest, MovesMayBeInPlace) {
  collective::Request gather = Make(collective::Kind::kAllGather, v1::INT32, 1001, Gpus());
  const std::vector<std::string> gathered = Expected(gather);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto part = collective::PartOf(1001, 3, rank);
    const std::string input = *Read(*devices_[rank], gather.inputs[rank]);
    gather.inputs[rank] = {gather.outputs[rank].buffer, 4 * part.begin, 4 * part.elements};
    ASSERT_EQ(Write(*devices_[rank], input, gather.inputs[rank]), absl::OkStatus());
  }
  ASSERT_EQ(Run(gather).status(), absl::OkStatus());
  EXPECT_TRUE(Outputs(gather) == gathered);
  collective::Request broadcast = Make(collective::Kind::kBroadcast, v1::INT32, 1001, Gpus());
  const std::vector<std::string> sent = Expected(broadcast);
  broadcast.outputs[broadcast.root] = broadcast.inputs[0];
  ASSERT_EQ(Run(broadcast).status(), absl::OkStatus());
  EXPECT_TRUE(Outputs(broadcast) == sent);
}

TEST_P(GpuTogetherTest, AReductionMayBeInPlace) {
  collective::Request request = Make(collective::Kind::kAllReduce, v1::FLOAT32, 1001, All());
  request.outputs = request.inputs;
  const std::vector<std::string> expected = Expected(request);
  ASSERT_EQ(Run(request).status(), absl::OkStatus());
  EXPECT_TRUE(Outputs(request) == expected);
}

TEST_P(GpuTogetherTest, WhatACollectiveTakesOfTheHostsMemoryIsBounded) {
  // In several pieces each, and to be widened.
  const collective::Request request = Make(collective::Kind::kAllReduce, v1::FLOAT16, (9 << 20) / 2, All());
  taken_bytes = 0;
  ASSERT_EQ(Run(request).status(), absl::OkStatus());
  EXPECT_GT(taken_bytes, 1u << 20);
  EXPECT_LE(taken_bytes, 48u << 20);  // a window of three parts of 4 MiB for each participant
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
  const std::vector<collective::Request> requests = {Make(collective::Kind::kAllReduce, v1::FLOAT32, 1001, All()),
                                                     Make(collective::Kind::kAllGather, v1::FLOAT32, 1001, Gpus()),
                                                     Make(collective::Kind::kBroadcast, v1::FLOAT32, 1001, Gpus())};
  fake_("lose 1 719");
  for (const collective::Request& request : requests) {
    const absl::Status status = Run(request).status();
    ASSERT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING) << status;
    EXPECT_EQ(DetailOf(status)->field(), devices_[1]->name());
    EXPECT_EQ(devices_[0]->health(), absl::OkStatus());
    EXPECT_EQ(devices_[2]->health(), absl::OkStatus());
  }
  fake_("forget 1");
}

// Every call of copies and collectives, from where devices are connected on: what opens one is
// gpu_device_test's.
TEST_P(GpuTogetherTest, EveryCallMayFail) {
  constexpr int kCallsThatConnect = 3 * 6;  // of six pairs
  int first = 0;
  const auto everything = [&]() -> absl::Status {
    runtime::gpu::Found found = machine_->Find();
    if (first == 0) first = std::stoi(fake_("count")) - kCallsThatConnect;
    if (found.devices.size() != 3) return absl::UnavailableError(found.absent.at(0));
    devices_ = std::move(found.devices);
    absl::Status status;
    {
      std::vector<BufferSlice> slices;
      for (const auto& device : devices_) {
        auto buffer = device->allocator().Allocate(64, MemoryUse::kClient);
        if (!buffer.ok()) return buffer.status();
        slices.push_back(BufferSlice::Whole(*buffer));
      }
      status = CopyBetween(0, slices[0], 1, slices[1]);
      collective::Request request;
      request.kind = collective::Kind::kBroadcast;
      request.dtype = v1::UINT8;
      request.count = 64;
      request.devices = Gpus();
      request.inputs = {slices[0]};
      request.outputs = slices;
      if (status.ok()) status = Run(request).status();
      request.kind = collective::Kind::kAllReduce;
      request.inputs = slices;
      if (status.ok()) status = Run(request).status();
    }
    return status;
  };
  // What is lost is lost with all it held; the others have everything back.
  const auto close = [this] {
    std::vector<std::string> lost;
    runtime::hal::DrainAll(devices_);
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (!devices_[i]->health().ok()) lost.push_back(absl::StrCat("forget ", i));
    }
    devices_.clear();
    for (const std::string& command : lost) fake_(command);
  };
  const auto reset = [this] {
    fake_("reset");
    fake_("set devices 3");
  };
  close();
  reset();
  ASSERT_EQ(everything(), absl::OkStatus());
  const int calls = std::stoi(fake_("count"));
  ASSERT_GT(first, 0);
  ASSERT_GT(calls, first + 50);
  for (const int code : {1, 2, 719}) {
    // Running out of memory is told like any other failure.
    for (int call = first; call <= calls; call += code == 2 ? 5 : 1) {
      close();
      reset();
      fake_(absl::StrCat("fail any ", call, " ", code));
      const absl::Status status = everything();
      if (!status.ok()) {
        EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("(")) << call;
        EXPECT_TRUE(absl::IsUnavailable(status) || DetailOf(status).has_value()) << status;
      }
      close();
      // A card that was lost while it was opened is no device.
      if (absl::IsUnavailable(status)) {
        for (int i = 0; i < 3; ++i) fake_(absl::StrCat("forget ", i));
      }
      ASSERT_EQ(fake_("live"), kNothingLive) << call << " with " << code << ": " << status;
    }
  }
  reset();
  Open();
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuTogetherTest, ::testing::Values(&MakeCudaMachine));
INSTANTIATE_TEST_SUITE_P(Hip, GpuTogetherTest, ::testing::Values(&MakeHipMachine));

}  // namespace
}  // namespace kiln::testing
