// The algorithms against each other, on host memory. That what they agree on is right,
// tests/python/collectives_test.py asks numpy.
#include "runtime/collective/collective.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "runtime/collective/measure.h"
#include "runtime/drivers/null/device.h"

namespace kiln::runtime::collective {
namespace {

constexpr v1::DType kDTypes[] = {v1::BOOL,
                                 v1::INT8,
                                 v1::INT16,
                                 v1::INT32,
                                 v1::INT64,
                                 v1::UINT8,
                                 v1::UINT16,
                                 v1::UINT32,
                                 v1::UINT64,
                                 v1::FLOAT16,
                                 v1::FLOAT32,
                                 v1::FLOAT64,
                                 v1::BFLOAT16,
                                 v1::FLOAT8_E4M3,
                                 v1::FLOAT8_E5M2,
                                 v1::FLOAT8_E4M3_FNUZ,
                                 v1::FLOAT8_E5M2_FNUZ};

class CollectiveTest : public ::testing::Test {
 protected:
  ~CollectiveTest() override { hal::DrainAll(owned_); }

  CollectiveTest() {
    for (int i = 0; i < 8; ++i) owned_.push_back(*null::CreateDevice({.name = absl::StrCat("NULL:", i)}));
  }

  std::vector<hal::Device*> Devices(uint32_t ranks) const {
    std::vector<hal::Device*> devices;
    for (uint32_t i = 0; i < ranks; ++i) devices.push_back(owned_[i].get());
    return devices;
  }

  hal::BufferSlice Take(hal::Device* device, uint64_t bytes) {
    return hal::BufferSlice::Whole(*device->allocator().Allocate(bytes, hal::MemoryUse::kClient));
  }

  // A request with buffers; what is given counts up from small numbers, so that sums are
  // exact in every dtype whatever their order, or is random.
  Request Make(Kind kind, v1::DType dtype, uint64_t count, uint32_t ranks, uint32_t root = 0) {
    Request request;
    request.kind = kind;
    request.dtype = dtype;
    request.count = count;
    request.devices = Devices(ranks);
    request.root = HasRoot(kind) ? root : 0;
    const uint32_t item = ItemBytes(dtype);
    const auto take = [&](bool one, bool parts, std::vector<hal::BufferSlice>& slices) {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        if (one && rank != root) continue;
        slices.push_back(Take(request.devices[rank], item * (parts ? PartOf(count, ranks, rank).elements : count)));
      }
    };
    take(OneInput(kind), InputsAreParts(kind), request.inputs);
    take(OneOutput(kind), OutputsAreParts(kind), request.outputs);
    for (hal::BufferSlice& input : request.inputs) {
      auto* bytes = static_cast<uint8_t*>(input.host_data());
      for (uint64_t i = 0; i < input.bytes / item; ++i) {
        const uint64_t value = random_() % 4;
        const uint64_t bits = IsFloatDType(dtype) ? FloatToBits(dtype, static_cast<double>(value)) : value;
        std::memcpy(bytes + i * item, &bits, item);
      }
    }
    return request;
  }

  absl::StatusOr<Report> Run(Request request, absl::Duration timeout = absl::Seconds(60)) {
    Collectives collectives(&meetings_, &thresholds_, timeout);
    absl::StatusOr<Report> outcome;
    absl::Notification done;
    collectives.Run(std::move(request), {}, [&](absl::StatusOr<Report> report) {
      outcome = std::move(report);
      done.Notify();
    });
    done.WaitForNotification();
    return outcome;
  }

  static std::string Bytes(const std::vector<hal::BufferSlice>& slices) {
    std::string bytes;
    for (const hal::BufferSlice& slice : slices) bytes.append(static_cast<const char*>(slice.host_data()), slice.bytes);
    return bytes;
  }

  v1::ErrorCode CodeOf(const Request& request) {
    const auto report = Run(request);
    EXPECT_FALSE(report.ok());
    const auto detail = DetailOf(report.status());
    field_ = detail.has_value() ? detail->field() : "";
    return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
  }

  std::mt19937 random_{7};
  std::vector<std::unique_ptr<hal::Device>> owned_;
  Meetings meetings_;
  Thresholds thresholds_{"", ""};
  std::string field_;
};

TEST_F(CollectiveTest, AllAlgorithmsAgree) {
  for (int k = 0; k < kKinds; ++k) {
    const Kind kind = static_cast<Kind>(k);
    for (const v1::DType dtype : kDTypes) {
      // Of what only moves, the dtype is a size; and the kinds that reduce share their
      // arithmetic.
      if (kind != Kind::kAllReduce && dtype != v1::UINT8 && dtype != v1::FLOAT16) continue;
      for (const uint32_t ranks : {1, 3, 8}) {
        const uint64_t count = std::vector<uint64_t>{0, 1, 7, 100, 4099}[random_() % 5];
        Request request = Make(kind, dtype, count, ranks, random_() % ranks);
        request.op = static_cast<ReduceOp>(random_() % 3);
        request.algorithm = kNaive;
        const auto naive = Run(request);
        ASSERT_TRUE(naive.ok()) << naive.status();
        EXPECT_STREQ(naive->algorithm, "naive");
        const std::string want = Bytes(request.outputs);
        for (const AlgorithmId id : {kRing, kTree, kAllToAll}) {
          for (const auto& output : request.outputs) std::memset(output.host_data(), 0xee, output.bytes);
          request.algorithm = id;
          const auto report = Run(request);
          ASSERT_TRUE(report.ok()) << report.status();
          const bool offered = AlgorithmOf(id).run[k] != nullptr;
          EXPECT_STREQ(report->algorithm, offered ? AlgorithmOf(id).name : "all_to_all");
          ASSERT_EQ(Bytes(request.outputs), want) << KindName(kind) << " " << v1::DType_Name(dtype) << " x " << count
                                                  << ", " << ranks << " ranks, " << report->algorithm;
        }
      }
    }
  }
}

TEST_F(CollectiveTest, InPlaceIsTheSameForEveryAlgorithm) {
  constexpr uint64_t kCount = 1001;
  for (int k = 0; k < kKinds; ++k) {
    const Kind kind = static_cast<Kind>(k);
    for (const AlgorithmId id : {kNaive, kRing, kTree, kAllToAll}) {
      for (const v1::DType dtype : {v1::INT32, v1::FLOAT16}) {
        Request apart = Make(kind, dtype, kCount, 3, 2);
        apart.algorithm = id;
        Request shared = apart;
        const uint32_t item = ItemBytes(dtype);
        // The smaller of a rank's two slices goes where the larger has its part.
        for (uint32_t rank = 0; rank < 3; ++rank) {
          if ((OneInput(kind) || OneOutput(kind)) && rank != 2) continue;
          hal::BufferSlice& input = shared.inputs[OneInput(kind) ? 0 : rank];
          hal::BufferSlice& output = shared.outputs[OneOutput(kind) ? 0 : rank];
          const Part part = PartOf(kCount, 3, rank);
          if (InputsAreParts(kind)) {
            const hal::BufferSlice place = {output.buffer, part.begin * item, part.elements * item};
            std::memcpy(place.host_data(), input.host_data(), input.bytes);
            input = place;
          } else {
            hal::BufferSlice copy = Take(shared.devices[rank], input.bytes);
            std::memcpy(copy.host_data(), input.host_data(), input.bytes);
            input = copy;
            output =
                OutputsAreParts(kind) ? hal::BufferSlice{copy.buffer, part.begin * item, part.elements * item} : copy;
          }
        }
        // Shared outputs of a gather are `apart`'s as well: run that first.
        ASSERT_TRUE(Run(apart).ok());
        const std::string want = Bytes(apart.outputs);
        const auto report = Run(shared);
        ASSERT_TRUE(report.ok()) << report.status();
        EXPECT_EQ(Bytes(shared.outputs), want) << KindName(kind) << " " << report->algorithm;
      }
    }
  }
}

TEST_F(CollectiveTest, DeterministicOrderIsThatOfTheRanks) {
  for (const v1::DType dtype : {v1::FLOAT32, v1::FLOAT64, v1::BFLOAT16}) {
    Request request = Make(Kind::kAllReduce, dtype, 100'003, 7);
    const uint32_t item = ItemBytes(dtype);
    std::normal_distribution<double> normal(0, 100);
    for (hal::BufferSlice& input : request.inputs) {
      for (uint64_t i = 0; i < request.count; ++i) {
        const uint64_t bits = FloatToBits(dtype, normal(random_));
        std::memcpy(static_cast<char*>(input.host_data()) + i * item, &bits, item);
      }
    }
    request.algorithm = kNaive;
    ASSERT_TRUE(Run(request).ok());
    const std::string want = Bytes(request.outputs);
    request.deterministic_order = true;
    for (const Choice& choice :
         {Choice{kRing, kRing, kRing}, Choice{kTree, kTree, kTree}, Choice{kNaive, kNaive, kNaive}}) {
      thresholds_.Learn(Kind::kAllReduce, 7, choice);
      request.algorithm.reset();
      ASSERT_TRUE(Run(request).ok());
      EXPECT_EQ(Bytes(request.outputs), want);
    }
  }
}

TEST_F(CollectiveTest, ManyAtOnceOverTheSameDevices) {
  constexpr int kThreads = 4, kEach = 30;
  Collectives collectives(&meetings_, &thresholds_, absl::Seconds(60));
  std::vector<std::vector<Request>> requests(kThreads);
  for (auto& some : requests) {
    for (int i = 0; i < kEach; ++i)
      some.push_back(Make(static_cast<Kind>(i % kKinds), v1::FLOAT32, 1 + i * 137, 1 + i % 8));
  }
  absl::BlockingCounter left(kThreads * kEach);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        Request request = requests[t][i];
        request.algorithm = static_cast<AlgorithmId>((t + i) % kAlgorithmCount);
        if ((t + i) % 2 == 0)
          std::reverse(request.devices.begin(), request.devices.end()),
              std::reverse(request.inputs.begin(), request.inputs.end()),
              std::reverse(request.outputs.begin(), request.outputs.end());
        if (HasRoot(request.kind) && (t + i) % 2 == 0) request.root = static_cast<uint32_t>(request.devices.size()) - 1;
        // Parts of other lengths do not fit the ranks turned round.
        if ((t + i) % 2 == 0 && (InputsAreParts(request.kind) || OutputsAreParts(request.kind))) {
          left.DecrementCount();
          continue;
        }
        collectives.Run(std::move(request), {}, [&](const absl::StatusOr<Report>& report) {
          if (!report.ok()) ++failures;
          left.DecrementCount();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  left.Wait();
  EXPECT_EQ(failures, 0);
  for (const auto& some : requests) {
    for (const Request& request : some) {
      if (request.kind != Kind::kAllReduce) continue;
      for (uint64_t i = 0; i < request.count; ++i) {
        float sum = 0;
        for (const auto& input : request.inputs) sum += static_cast<const float*>(input.host_data())[i];
        for (const auto& output : request.outputs) ASSERT_EQ(static_cast<const float*>(output.host_data())[i], sum);
      }
    }
  }
}

TEST_F(CollectiveTest, AStuckParticipantIsNamedAndNothingIsWritten) {
  absl::Notification release;
  owned_[1]->queue().Submit([&release] { release.WaitForNotification(); }, ~uint64_t{0});
  Request request = Make(Kind::kAllReduce, v1::FLOAT32, 1000, 3);
  const std::string before = Bytes(request.outputs);
  const auto report = Run(request, absl::Milliseconds(20));
  EXPECT_EQ(DetailOf(report.status())->code(), v1::PARTICIPANT_MISSING);
  EXPECT_EQ(DetailOf(report.status())->field(), "NULL:1");
  release.Notify();
  EXPECT_TRUE(owned_[1]->queue().Drain(absl::InfiniteFuture()).ok());
  EXPECT_EQ(Bytes(request.outputs), before);
}

TEST_F(CollectiveTest, WithoutMemoryForItAnAlgorithmGivesWay) {
  std::vector<std::unique_ptr<hal::Device>> small;
  for (int i = 0; i < 2; ++i) {
    small.push_back(*null::CreateDevice({.name = absl::StrCat("SMALL:", i), .memory_limit_bytes = 10'000}));
  }
  Request request;
  request.kind = Kind::kReduceScatter;
  request.dtype = v1::FLOAT32;
  request.count = 1600;
  for (int i = 0; i < 2; ++i) {
    request.devices.push_back(small[i].get());
    request.inputs.push_back(Take(small[i].get(), 6400));
    request.outputs.push_back(Take(small[i].get(), 3200));
  }
  request.algorithm = kRing;
  const auto report = Run(request);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_STREQ(report->algorithm, "all_to_all");
  hal::DrainAll(small);
}

TEST_F(CollectiveTest, BadRequests) {
  const Request good = Make(Kind::kAllReduce, v1::FLOAT32, 10, 3);
  Request bad = good;
  bad.devices[2] = bad.devices[0];
  EXPECT_EQ(CodeOf(bad), v1::DUPLICATE_DEVICE);
  EXPECT_EQ(field_, "rank 2");
  bad = good;
  bad.devices.clear(), bad.inputs.clear(), bad.outputs.clear();
  EXPECT_EQ(CodeOf(bad), v1::BAD_ARGUMENT);
  EXPECT_EQ(field_, "participants");
  bad = good;
  bad.root = 1;
  EXPECT_EQ(CodeOf(bad), v1::BAD_ARGUMENT);
  EXPECT_EQ(field_, "root");
  bad = good;
  bad.kind = Kind::kReduce;
  bad.outputs.resize(1);
  bad.root = 3;
  EXPECT_EQ(CodeOf(bad), v1::BAD_ARGUMENT);
  bad.root = 1;  // whose device the one output is not on
  EXPECT_EQ(CodeOf(bad), v1::BUFFER_DEVICE_MISMATCH);
  EXPECT_EQ(field_, "output 0");
  bad = good;
  bad.dtype = v1::WEAKINT;
  EXPECT_EQ(CodeOf(bad), v1::BAD_ARGUMENT);
  EXPECT_EQ(field_, "dtype");
  bad = good;
  bad.count = ~uint64_t{0} / 2;
  EXPECT_EQ(CodeOf(bad), v1::SIZE_OVERFLOW);
  bad = good;
  bad.outputs.pop_back();
  EXPECT_EQ(CodeOf(bad), v1::BAD_ARGUMENT);
  EXPECT_EQ(field_, "output");
  bad = good;
  std::swap(bad.inputs[0], bad.inputs[1]);
  EXPECT_EQ(CodeOf(bad), v1::BUFFER_DEVICE_MISMATCH);
  bad = good;
  bad.outputs[1].bytes = 36;
  EXPECT_EQ(CodeOf(bad), v1::BUFFER_SIZE_MISMATCH);
  EXPECT_EQ(field_, "output 1");
  bad = good;
  bad.inputs[1].offset = 4;
  EXPECT_EQ(CodeOf(bad), v1::OUT_OF_BOUNDS);
  bad = good;
  bad.inputs[1] = {Take(bad.devices[1], 100).buffer, 2, 40};
  EXPECT_EQ(CodeOf(bad), v1::BUFFER_DTYPE_MISMATCH);
  bad = good;
  const auto both = Take(bad.devices[1], 100).buffer;
  bad.inputs[1] = {both, 0, 40};
  bad.outputs[1] = {both, 36, 40};
  EXPECT_EQ(CodeOf(bad), v1::BAD_ARGUMENT);
  EXPECT_EQ(field_, "output 1");
  bad.outputs[1] = {both, 40, 40};
  EXPECT_TRUE(Run(bad).ok());
}

TEST_F(CollectiveTest, MeasuresAndKeepsWhatItMeasured) {
  const std::string file = absl::StrCat(::testing::TempDir(), "/collectives-", getpid());
  const auto choice = MeasureChoice(meetings_, Devices(3), Kind::kAllGather);
  ASSERT_TRUE(choice.has_value());
  {
    Thresholds thresholds("here", file);
    EXPECT_TRUE(thresholds.ShouldMeasure(Kind::kAllGather, 3));
    EXPECT_FALSE(thresholds.ShouldMeasure(Kind::kAllGather, 3));  // someone was told to
    thresholds.Learn(Kind::kAllGather, 3, {kRing, kNaive, kAllToAll});
  }
  Thresholds again("here", file);
  EXPECT_FALSE(again.ShouldMeasure(Kind::kAllGather, 3));
  EXPECT_EQ(again.Choose(Kind::kAllGather, 3, 100, false), kRing);
  EXPECT_EQ(again.Choose(Kind::kAllGather, 3, 100, true), kAllToAll);
  EXPECT_EQ(again.Choose(Kind::kAllGather, 3, 64 << 10, false), kNaive);
  // Another topology's figures are not ours, and nonsense is nobody's.
  EXPECT_TRUE(Thresholds("there", file).ShouldMeasure(Kind::kAllGather, 3));
  std::ofstream(file) << "kiln collectives 1 here\nall_gather 3 ring tree magic\nall_gather x\n\n";
  EXPECT_TRUE(Thresholds("here", file).ShouldMeasure(Kind::kAllGather, 3));
  std::remove(file.c_str());
}

TEST(BusBandwidth, IsNcclsFormula) {
  EXPECT_DOUBLE_EQ(BusBandwidth(Kind::kAllReduce, 4, 1'000'000'000, 1), 1.5);
  EXPECT_DOUBLE_EQ(BusBandwidth(Kind::kAllGather, 4, 1'000'000'000, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(BusBandwidth(Kind::kBroadcast, 4, 1'000'000'000, 1), 1);
  EXPECT_EQ(BusBandwidth(Kind::kAllReduce, 1, 1'000'000'000, 1), 0);
}

}  // namespace
}  // namespace kiln::runtime::collective
