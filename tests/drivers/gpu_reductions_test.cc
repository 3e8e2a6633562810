// Collectives that combine values, by GPUs that reach each other's memory and kernels that the
// compiler makes for that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "compiler/compile.h"
#include "runtime/collective/algorithms/arithmetic.h"
#include "server/engine/programs/compiled_combiner.h"
#include "tests/drivers/compiled_for.h"
#include "tests/drivers/gpu_together.h"

namespace kiln::testing {
namespace {

using collective::Kind;
using collective::ReduceOp;

constexpr v1::DType kDTypes[] = {v1::BOOL,
                                 v1::INT8,
                                 v1::INT16,
                                 v1::INT32,
                                 v1::INT64,
                                 v1::UINT8,
                                 v1::UINT16,
                                 v1::UINT32,
                                 v1::UINT64,
                                 v1::FLOAT32,
                                 v1::FLOAT64,
                                 v1::FLOAT16,
                                 v1::BFLOAT16,
                                 v1::FLOAT8_E4M3,
                                 v1::FLOAT8_E5M2,
                                 v1::FLOAT8_E4M3_FNUZ,
                                 v1::FLOAT8_E5M2_FNUZ};
constexpr Kind kReductions[] = {Kind::kReduce, Kind::kReduceScatter, Kind::kAllReduce};

// A pass of few items, so that a test's sizes take several.
constexpr uint32_t kGroups = 2;

// One compilation for all tests.
absl::StatusOr<v1::Executable> CompileOnce(const GpuMachine& machine, const v1::Graph& graph, const v1::Target& target,
                                           const compiler::Options& options) {
  static auto& made = *new std::map<std::string, absl::StatusOr<v1::Executable>>();
  static auto& mutex = *new absl::Mutex();
  absl::MutexLock lock(&mutex);
  const std::string name = absl::StrCat("combine", made.size());
  const auto [found, is_new] = made.try_emplace(target.arch() + graph.SerializeAsString(), v1::Executable());
  if (is_new) found->second = CompiledFor(machine, target, graph, options, name);
  return found->second;
}

// What the fixture is made with; kernels go before their devices.
class Indirect final : public collective::Combiner {
 public:
  Indirect() { Renew(); }
  void Renew() {
    made_ = std::make_unique<server::CompiledCombiner>(
        [this](const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
               compiler::CompileObserver*, const server::CompileFor&) -> absl::StatusOr<v1::Executable> {
          ++compiled_;
          if (refuses_) return absl::UnimplementedError("no");
          return CompileOnce(*machine_, graph, target, options);
        },
        kGroups);
  }
  void Drop() { made_.reset(); }
  absl::StatusOr<collective::CombineKernel*> For(Device& device, const collective::Combination& what) override {
    return made_->For(device, what);
  }
  const GpuMachine* machine_ = nullptr;  // for whose cards
  int compiled_ = 0;
  bool refuses_ = false;

 private:
  std::unique_ptr<server::CompiledCombiner> made_;
};

struct HasCombiner {
  Indirect combiner_;
};

class GpuReductionsTest : public HasCombiner, public GpuTogetherTest {
 protected:
  GpuReductionsTest() : GpuTogetherTest(4, &combiner_) { combiner_.machine_ = machine_.get(); }
  ~GpuReductionsTest() override { Close(); }

  // What was lost is lost with all it held.
  void Close() {
    runtime::hal::DrainAll(devices_);
    combiner_.Drop();
    std::vector<std::string> lost;
    for (size_t i = 0; i < gpus_; ++i) {
      if (i < devices_.size() && !devices_[i]->health().ok()) lost.push_back(absl::StrCat("forget ", i));
    }
    devices_.clear();
    for (const std::string& command : lost) fake_(command);
    combiner_.Renew();
  }
  // All patterns of bits, NaNs among them.
  void Randomize(const collective::Request& request) {
    uint64_t state = 88172645463325252u + request.count;
    for (const BufferSlice& input : request.inputs) {
      std::string bytes(input.bytes, '\0');
      for (char& byte : bytes) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        byte = static_cast<char>(state >> 32);
      }
      ASSERT_EQ(Write(*Owner(input), bytes, input), absl::OkStatus());
    }
  }
  // What the same bytes come to where the host sees all.
  std::vector<std::string> OnHost(const collective::Request& request) {
    collective::Request same = request;
    for (size_t i = 0; i < request.devices.size(); ++i) same.devices[i] = hosts_[i].get();
    const auto moved = [&](std::vector<BufferSlice>& slices, bool one, bool filled) {
      for (size_t i = 0; i < slices.size(); ++i) {
        Device& host = *same.devices[one ? request.root : i];
        auto there = BufferSlice::Whole(*host.allocator().Allocate(slices[i].bytes, MemoryUse::kClient));
        if (filled) {
          EXPECT_EQ(Write(host, *Read(*Owner(slices[i]), slices[i]), there), absl::OkStatus());
        }
        slices[i] = there;
      }
    };
    moved(same.inputs, collective::OneInput(same.kind), true);
    moved(same.outputs, collective::OneOutput(same.kind), false);
    same.algorithm = collective::kNaive;
    EXPECT_EQ(Run(same).status(), absl::OkStatus());
    return Outputs(same);
  }
  void ExpectByPeers(const collective::Request& request, const std::vector<std::string>& expected) {
    const auto report = Run(request);
    ASSERT_EQ(report.status(), absl::OkStatus());
    EXPECT_STREQ(report->algorithm, "by_peers");
    EXPECT_TRUE(Same(request.dtype, Outputs(request), expected));
  }
  // Byte for byte, but that all NaNs are one.
  static bool Same(v1::DType dtype, const std::vector<std::string>& a, const std::vector<std::string>& b) {
    if (a == b) return true;
    const collective::Arithmetic& arithmetic = *collective::ArithmeticOf(dtype, ReduceOp::kSum);
    const bool is_double = dtype == v1::FLOAT64;
    if (!is_double && dtype != v1::FLOAT32 && arithmetic.acc_bytes == arithmetic.item_bytes) return false;
    const auto value = [&](const char* item) -> double {
      double wide = 0;
      float single = 0;
      arithmetic.widen(item, is_double ? static_cast<void*>(&wide) : &single, 1);
      return is_double ? wide : single;
    };
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i].size() != b[i].size()) return false;
      for (size_t at = 0; at < a[i].size(); at += arithmetic.item_bytes) {
        if (std::memcmp(&a[i][at], &b[i][at], arithmetic.item_bytes) == 0) continue;
        if (!std::isnan(value(&a[i][at])) || !std::isnan(value(&b[i][at]))) return false;
      }
    }
    return true;
  }
};

TEST_P(GpuReductionsTest, EveryOpOfEveryDType) {
  for (const v1::DType dtype : kDTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax}) {
      SCOPED_TRACE(absl::StrCat(v1::DType_Name(dtype), " ", static_cast<int>(op)));
      collective::Request request = Make(Kind::kAllReduce, dtype, 1003, First(3));
      request.op = op;
      Randomize(request);
      ExpectByPeers(request, OnHost(request));
    }
  }
}

// An element, a vector, an iteration of all items, and what is left of each; none at all for some.
TEST_P(GpuReductionsTest, EverySizeAndNumber) {
  for (const size_t ranks : {1, 2, 3, 4}) {
    for (const Kind kind : kReductions) {
      for (const uint64_t count : {0, 1, 3, 129, 9001}) {
        SCOPED_TRACE(absl::StrCat(collective::KindName(kind), " ", ranks, " ", count));
        const collective::Request request = Make(kind, v1::FLOAT16, count, First(ranks));
        ExpectByPeers(request, OnHost(request));
      }
    }
  }
}

TEST_P(GpuReductionsTest, AtAnyPlaceAndInPlace) {
  for (const Kind kind : kReductions) {
    SCOPED_TRACE(collective::KindName(kind));
    collective::Request request = Make(kind, v1::FLOAT16, 3003, First(3));
    // Two bytes beside where vectors may be.
    for (size_t i = 0; i < 3; ++i) {
      request.inputs[i] = {New(i, 6016).buffer, 2, 6006};
      ASSERT_EQ(Write(*devices_[i], Pattern(6006, static_cast<int>(i)), request.inputs[i]), absl::OkStatus());
    }
    ExpectByPeers(request, OnHost(request));
    const std::vector<std::string> expected = OnHost(request);
    for (size_t i = 0; i < request.outputs.size(); ++i) {
      const auto part = collective::PartOf(3003, 3, static_cast<uint32_t>(i));
      BufferSlice& output = request.outputs[i];
      output = request.inputs[collective::OneOutput(kind) ? request.root : i];
      if (collective::OutputsAreParts(kind)) output = {output.buffer, 2 + 2 * part.begin, 2 * part.elements};
    }
    ExpectByPeers(request, expected);
  }
}

TEST_P(GpuReductionsTest, NoMemoryIsTakenAndAKernelIsMadeOnce) {
  const collective::Request request = Make(Kind::kAllReduce, v1::FLOAT32, 100'000, Gpus());
  const std::vector<std::string> expected = OnHost(request);
  ExpectByPeers(request, expected);
  const int compiled = combiner_.compiled_;
  const auto in_use = [this] {
    uint64_t bytes = 0;
    for (const auto& device : devices_) bytes += device->stats().memory.in_use_bytes;
    return bytes;
  };
  const uint64_t before = in_use();
  const size_t loads = fake_.Calls(machine_->Entry("load")).size(), copies = PeerCopies();
  for (int i = 0; i < 3; ++i) ExpectByPeers(request, expected);
  EXPECT_EQ(combiner_.compiled_, compiled);
  EXPECT_EQ(fake_.Calls(machine_->Entry("load")).size(), loads);
  EXPECT_EQ(PeerCopies(), copies);
  EXPECT_EQ(in_use(), before);
  for (const auto& device : devices_) EXPECT_LE(device->stats().memory.peak_bytes, 2u << 20);
}

TEST_P(GpuReductionsTest, WhatDoesNotCompileOrLoadIsTheHosts) {
  const auto run = [&] {
    const collective::Request request = Make(Kind::kAllReduce, v1::FLOAT32, 1001, Gpus());
    const auto report = Run(request);
    EXPECT_EQ(report.status(), absl::OkStatus());
    EXPECT_TRUE(Outputs(request) == Expected(request));
    return report.ok() ? report->algorithm : "";
  };
  fake_(absl::StrCat("fail ", machine_->Entry("load"), " 2 2"));
  EXPECT_STREQ(run(), "by_host");
  EXPECT_STREQ(run(), "by_peers");
  Close();
  Open();
  combiner_.refuses_ = true;
  combiner_.compiled_ = 0;
  for (int i = 0; i < 2; ++i) EXPECT_STREQ(run(), "by_host");
  EXPECT_EQ(combiner_.compiled_, 1);
}

TEST_P(GpuReductionsTest, DevicesThatAreNotConnectedAskTheHost) {
  Close();
  fake_("set no_peers 1");
  Open();
  const auto report = Run(Make(Kind::kAllReduce, v1::FLOAT32, 1001, Gpus()));
  ASSERT_EQ(report.status(), absl::OkStatus());
  EXPECT_STREQ(report->algorithm, "by_host");
  EXPECT_EQ(combiner_.compiled_, 0);
}

// Each call of a collective whose kernels are not there yet.
TEST_P(GpuReductionsTest, EveryCallMayFail) {
  const auto restart = [this] {
    fake_("reset");
    fake_("set devices 4");
  };
  int by_host = 0, by_peers = 0, told = 0;
  for (const int code : {1, 719}) {
    // A loss is told alike wherever it happens.
    for (int call = 1, left = 1; left != 0; call += code == 719 ? 3 : 1) {
      Close();
      ASSERT_EQ(fake_("live"), kNothingLive) << call << " with " << code;
      restart();
      Open();
      const collective::Request request = Make(Kind::kAllReduce, v1::INT32, 101, First(2));
      const int before = std::stoi(fake_("count"));
      fake_(absl::StrCat("fail any ", call, " ", code));
      const absl::StatusOr<collective::Report> report = Run(request);
      left = call <= std::stoi(fake_("count")) - before ? 1 : 0;
      restart();
      if (report.ok()) {
        ++(std::string(report->algorithm) == "by_host" ? by_host : by_peers);
        EXPECT_TRUE(Outputs(request) == Expected(request)) << call;
        continue;
      }
      ++told;
      ASSERT_TRUE(DetailOf(report.status()).has_value()) << report.status();
      const v1::ErrorCode error = DetailOf(report.status())->code();
      EXPECT_TRUE(error == v1::PARTICIPANT_MISSING || (code == 1 && error == v1::INTERNAL_FAULT)) << report.status();
    }
  }
  EXPECT_GT(by_host, 5);
  EXPECT_GT(told, 10);
  EXPECT_GE(by_peers, 2);
}

TEST_P(GpuReductionsTest, ALostDeviceIsNamed) {
  const collective::Request request = Make(Kind::kAllReduce, v1::FLOAT32, 1001, Gpus());
  ASSERT_EQ(Run(request).status(), absl::OkStatus());
  fake_("lose 1 719");
  const absl::Status status = Run(request).status();
  ASSERT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING) << status;
  EXPECT_EQ(DetailOf(status)->field(), devices_[1]->name());
  for (const size_t other : {0, 2, 3}) EXPECT_EQ(devices_[other]->health(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuReductionsTest, ::testing::Values(&MakeCudaMachine));
INSTANTIATE_TEST_SUITE_P(Hip, GpuReductionsTest, ::testing::Values(&MakeHipMachine));

}  // namespace
}  // namespace kiln::testing
