// Collectives over devices of several processes, against the same over devices of one:
// bit for bit, for every kind, many dtypes and odd sizes. (The latter numpy checks:
// tests/python/collectives_test.py.)
#include "runtime/collective/across.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "runtime/collective/copy_between.h"
#include "runtime/drivers/null/device.h"
#include "runtime/testing/loopback_job.h"

namespace kiln::runtime::collective {
namespace {

class AcrossTest : public ::testing::Test {
 protected:
  ~AcrossTest() override {
    hal::DrainAll(devices_);
    hal::DrainAll(local_);
  }

  // Eight devices: two here, and two in each of three other processes.
  void Start(absl::Duration silence = absl::Seconds(60)) {
    job_.emplace(
        4, 2,
        [](cluster::Transport& transport, absl::string_view task, const cluster::Ranges& memory) -> absl::Status {
          KILN_ASSIGN_OR_RETURN(const Script script, UnpackScript(task, transport.rank(), transport.size(), memory));
          return collective::Run(script, transport);
        },
        silence);
    for (int i = 0; i < 2; ++i) devices_.push_back(*null::CreateDevice({.name = absl::StrCat("CPU:", i)}));
    for (auto& device : job_->TakeDevices()) devices_.push_back(std::move(device));
    for (int i = 0; i < 8; ++i) local_.push_back(*null::CreateDevice({.name = absl::StrCat("NULL:", i)}));
  }

  // Of these numbers.
  static std::vector<hal::Device*> Pick(const std::vector<std::unique_ptr<hal::Device>>& devices,
                                        const std::vector<int>& numbers) {
    std::vector<hal::Device*> picked;
    for (int number : numbers) picked.push_back(devices[number].get());
    return picked;
  }

  static hal::BufferSlice Take(hal::Device* device, uint64_t bytes) {
    return hal::BufferSlice::Whole(*device->allocator().Allocate(bytes, hal::MemoryUse::kClient));
  }
  template <typename Start>
  static absl::Status Wait(const Start& start) {
    absl::Status outcome;
    absl::Notification done;
    start([&](absl::Status status) {
      outcome = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return outcome;
  }
  static hal::Queue& QueueOf(const hal::BufferSlice& slice) {
    return const_cast<hal::Device*>(slice.buffer->device())->queue();
  }
  static void Write(const hal::BufferSlice& slice, const std::string& bytes) {
    ASSERT_EQ(Wait([&](auto done) { QueueOf(slice).Write(bytes.data(), slice, std::move(done)); }), absl::OkStatus());
  }
  static std::string Read(const hal::BufferSlice& slice) {
    std::string bytes(slice.bytes, '?');
    EXPECT_EQ(Wait([&](auto done) { QueueOf(slice).Read(slice, bytes.data(), std::move(done)); }), absl::OkStatus());
    return bytes;
  }

  struct Case {
    Kind kind;
    v1::DType dtype = v1::FLOAT32;
    ReduceOp op = ReduceOp::kSum;
    uint64_t count = 0;
    uint32_t root = 0;
    bool in_place = false;
  };

  // Buffers on `devices`, with the same bytes for the same seed.
  static Request Make(const Case& asked, const std::vector<hal::Device*>& devices) {
    Request request;
    request.kind = asked.kind;
    request.dtype = asked.dtype;
    request.op = asked.op;
    request.count = asked.count;
    request.root = HasRoot(asked.kind) ? asked.root : 0;
    request.devices = devices;
    request.deterministic_order = true;
    const auto ranks = static_cast<uint32_t>(devices.size());
    const uint32_t item = ItemBytes(asked.dtype);
    std::mt19937 random(7);
    const auto take = [&](bool one, bool parts, std::vector<hal::BufferSlice>& slices) {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        if (one && rank != request.root) continue;
        const uint64_t bytes = item * (parts ? PartOf(asked.count, ranks, rank).elements : asked.count);
        // Somewhere within a buffer.
        slices.push_back({Take(devices[rank], bytes + 64).buffer, 32, bytes});
      }
    };
    take(OneInput(asked.kind), InputsAreParts(asked.kind), request.inputs);
    take(OneOutput(asked.kind), OutputsAreParts(asked.kind), request.outputs);
    if (asked.in_place) request.outputs = request.inputs;
    for (const hal::BufferSlice& input : request.inputs) {
      std::string bytes(input.bytes, '\0');
      for (char& byte : bytes) byte = static_cast<char>(asked.dtype == v1::BOOL ? random() % 2 : random());
      // No number is NaN or infinite: any two of those are as good as each other.
      for (size_t i = item - 1; i < bytes.size() && IsFloat(asked.dtype); i += item) bytes[i] &= 0xbb;
      Write(input, bytes);
    }
    return request;
  }
  static bool IsFloat(v1::DType dtype) {
    return dtype == v1::FLOAT16 || dtype == v1::BFLOAT16 || dtype == v1::FLOAT32 || dtype == v1::FLOAT64;
  }

  absl::StatusOr<Report> Run(const Request& request) {
    absl::StatusOr<Report> outcome;
    absl::Notification done;
    collectives_.Run(request, {}, [&](absl::StatusOr<Report> report) {
      outcome = std::move(report);
      done.Notify();
    });
    done.WaitForNotification();
    return outcome;
  }

  void CheckAgainstOneProcess(const Case& asked, const std::vector<int>& numbers) {
    const std::string what = absl::StrCat(std::string(KindName(asked.kind)), " of ", asked.count, " ",
                                          v1::DType_Name(asked.dtype), " over ", numbers.size());
    const Request across = Make(asked, Pick(devices_, numbers));
    std::vector<int> firsts(numbers.size());
    for (size_t i = 0; i < firsts.size(); ++i) firsts[i] = static_cast<int>(i);
    const Request within = Make(asked, Pick(local_, firsts));
    const auto report = Run(across);
    ASSERT_TRUE(report.ok()) << what << ": " << report.status();
    ASSERT_TRUE(Run(within).ok());
    for (size_t i = 0; i < across.outputs.size(); ++i) {
      EXPECT_EQ(Read(across.outputs[i]), Read(within.outputs[i]))
          << what << ", output " << i << ", " << report->algorithm;
    }
  }

  std::optional<testing::LoopbackJob> job_;
  Meetings meetings_;
  Thresholds thresholds_{"", ""};
  Collectives collectives_{&meetings_, &thresholds_, absl::Seconds(60)};
  std::vector<std::unique_ptr<hal::Device>> devices_;
  std::vector<std::unique_ptr<hal::Device>> local_;
};

constexpr Kind kAllKinds[] = {Kind::kBroadcast, Kind::kScatter,       Kind::kGather,   Kind::kReduce,
                              Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce};

TEST_F(AcrossTest, EveryKindSizeAndNumberAsInOneProcess) {
  Start();
  const std::vector<int> all = {0, 2, 4, 6, 1, 3, 5, 7};
  for (const Kind kind : kAllKinds) {
    for (const size_t ranks : {1, 2, 3, 5, 8}) {
      // From the end, so that the first are not all of this process.
      const std::vector<int> numbers(all.end() - static_cast<std::ptrdiff_t>(ranks), all.end());
      for (const uint64_t count : {0, 3, 1001, 70'001}) {
        CheckAgainstOneProcess({.kind = kind, .count = count, .root = static_cast<uint32_t>(ranks / 2)}, numbers);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(AcrossTest, EveryDTypeAndOperationAsInOneProcess) {
  Start();
  for (const v1::DType dtype :
       {v1::BOOL, v1::INT8, v1::UINT16, v1::INT32, v1::UINT64, v1::FLOAT16, v1::BFLOAT16, v1::FLOAT32, v1::FLOAT64}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax}) {
      for (const Kind kind : {Kind::kReduce, Kind::kReduceScatter, Kind::kAllReduce}) {
        for (const uint64_t count : {33, 10'007}) {
          CheckAgainstOneProcess({.kind = kind, .dtype = dtype, .op = op, .count = count, .root = 1}, {3, 0, 5, 4});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_F(AcrossTest, InPlace) {
  Start();
  for (const uint64_t count : {100, 100'003}) {
    CheckAgainstOneProcess({.kind = Kind::kAllReduce, .count = count, .in_place = true}, {0, 2, 4, 6});
  }
}

// Nothing is mixed up when many are under way.
TEST_F(AcrossTest, ManyAtOnce) {
  Start();
  std::vector<Request> across, within;
  for (uint64_t i = 0; i < 40; ++i) {
    const Case asked = {.kind = kAllKinds[i % 7], .count = 1 + i * 97, .root = static_cast<uint32_t>(i % 3)};
    const int first = static_cast<int>(i % 4);
    across.push_back(Make(asked, Pick(devices_, {first + 4, first, first + 2})));
    within.push_back(Make(asked, Pick(local_, {0, 1, 2})));
  }
  absl::Notification all;
  std::atomic<int> left{40};
  for (const Request& request : across) {
    collectives_.Run(request, {}, [&](const absl::StatusOr<Report>& report) {
      EXPECT_TRUE(report.ok()) << report.status();
      if (--left == 0) all.Notify();
    });
  }
  all.WaitForNotification();
  for (size_t i = 0; i < across.size(); ++i) {
    ASSERT_TRUE(Run(within[i]).ok());
    for (size_t k = 0; k < across[i].outputs.size(); ++k) {
      EXPECT_EQ(Read(across[i].outputs[k]), Read(within[i].outputs[k])) << i;
    }
  }
}

TEST_F(AcrossTest, CopiesBetweenAnyTwo) {
  Start();
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{5}, uint64_t{3} << 20}) {
    for (const auto& [from, to] : {std::pair(0, 2), {2, 1}, {2, 3}, {3, 6}}) {
      std::string text(bytes, '\0');
      for (uint64_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
      const hal::BufferSlice source = Take(devices_[from].get(), bytes), target = Take(devices_[to].get(), bytes);
      Write(source, text);
      EXPECT_EQ(Wait([&, from = from, to = to](auto done) {
                  CopyBetween(meetings_, devices_[from].get(), source, devices_[to].get(), target, absl::Seconds(60),
                              {}, std::move(done));
                }),
                absl::OkStatus());
      EXPECT_EQ(Read(target), text) << from << " to " << to;
    }
  }
}

// A process dies before, and one while, a collective is under way.
TEST_F(AcrossTest, TheDeadAreNamed) {
  Start(absl::Seconds(2));
  const Request request = Make({.kind = Kind::kAllReduce, .count = 5000}, Pick(devices_, {0, 2, 4, 6}));
  job_->Silence(2);
  for (int iteration = 0; iteration < 2; ++iteration) {
    const auto report = Run(request);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(DetailOf(report.status())->code(), v1::PARTICIPANT_MISSING) << report.status();
    EXPECT_EQ(DetailOf(report.status())->field(), "CPU:4") << report.status();
    EXPECT_NE(report.status().message().find("rank 2 on host2 is dead"), absl::string_view::npos) << report.status();
  }
  // The others go on together.
  const auto rest = Run(Make({.kind = Kind::kAllReduce, .count = 5000}, Pick(devices_, {0, 2, 6})));
  EXPECT_TRUE(rest.ok()) << rest.status();
}

TEST(ScriptTest, WhatIsNoScriptForThisRankIsRefused) {
  using Step = ScriptStep;
  const cluster::Ranges memory = {{4096, 4096}, {65536, 64}};
  Script good;
  good.number = 3;
  good.self = 1;
  good.places = {0, 2};
  good.dtype = v1::FLOAT32;
  good.steps = {{Step::Kind::kSend, 0, 4096, 0, 64, {}},
                {Step::Kind::kReceive, 0, 0, 8128, 64, {}},
                {Step::Kind::kWait, 0, 0, 0, 0, {}},
                {Step::Kind::kCopy, 0, 4096, 65536, 64, {}},
                {Step::Kind::kReduce, 0, 0, 4096, 64, {4096, 65536}}};
  const auto fault = [&](const Script& script) {
    return std::string(UnpackScript(Pack(script), /*rank=*/2, /*ranks=*/3, memory).status().message());
  };
  EXPECT_EQ(fault(good), "");
  const struct {
    void (*change)(Script&);
    const char* part;
  } rows[] = {
      {[](Script& s) { s.number = kScripts; }, "a script of another"},
      {[](Script& s) { s.self = 2; }, "a script of another"},
      {[](Script& s) { s.self = 0; }, "a script of another"},
      {[](Script& s) { s.places.resize(65); }, "a script of another"},
      {[](Script& s) { s.places[0] = 3; }, "a rank that there is not"},
      {[](Script& s) { s.steps[0].peer = 2; }, "sends to nobody"},
      {[](Script& s) { s.steps[0].from = 4095; }, "memory that this rank has not given"},
      {[](Script& s) { s.steps[1].peer = 9; }, "receives from nobody"},
      {[](Script& s) { s.steps[1].to = 8129; }, "memory that this rank has not given"},
      {[](Script& s) { s.steps[3].bytes = 65; }, "memory that this rank has not given"},
      {[](Script& s) { s.steps[3].from = 0; }, "memory that this rank has not given"},
      {[](Script& s) { s.steps[4].inputs[1] = 8192; }, "memory that this rank has not given"},
      {[](Script& s) { s.steps[4].inputs.clear(); }, "adds up nothing"},
      {[](Script& s) { s.op = static_cast<ReduceOp>(3); }, "adds up nothing"},
      {[](Script& s) { s.dtype = v1::DTYPE_UNSPECIFIED; }, "adds up nothing"},
      {[](Script& s) { s.steps[2].kind = static_cast<Step::Kind>(9); }, "does not know"},
  };
  for (const auto& row : rows) {
    Script script = good;
    row.change(script);
    EXPECT_NE(fault(script).find(row.part), std::string::npos) << fault(script) << ", not " << row.part;
  }
  const std::string whole = Pack(good);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(UnpackScript(whole.substr(0, size), 2, 3, memory).ok()) << size;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0xff);
    UnpackScript(damaged, 2, 3, memory).IgnoreError();
  }
}

}  // namespace
}  // namespace kiln::runtime::collective
