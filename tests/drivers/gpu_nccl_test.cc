// Collectives of GPUs by their vendor's library, on a fake of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/drivers/gpu_together.h"

namespace kiln::testing {
namespace {

using collective::Kind;
using collective::ReduceOp;
using ::testing::HasSubstr;

class GpuNcclTest : public GpuTogetherTest {
 protected:
  GpuNcclTest() {
    devices_.clear();
    Open(/*collectives=*/true);
  }

  const char* name() const { return std::string(machine_->kind()) == "CUDA" ? "nccl" : "rccl"; }
  size_t Calls(const std::string& call) const { return fake_.Calls(call).size(); }
  std::string Communicators() const {
    const std::string live = fake_("live");
    return live.substr(live.rfind(' ') + 1);
  }
  // By the vendor's library, and right.
  void ExpectDone(const collective::Request& request) {
    const auto report = Run(request);
    ASSERT_EQ(report.status(), absl::OkStatus());
    EXPECT_STREQ(report->algorithm, name());
    EXPECT_TRUE(Outputs(request) == Expected(request)) << collective::KindName(request.kind) << " of " << request.dtype;
  }
};

TEST_P(GpuNcclTest, DoesEveryCollective) {
  EXPECT_THAT(std::string(devices_[0]->description()), HasSubstr("CCL 2.28.9"));
  for (const Kind kind : kAllKinds) {
    for (const v1::DType dtype : {v1::FLOAT32, v1::FLOAT64, v1::INT32, v1::UINT64, v1::BOOL}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax}) {
        const bool real = dtype == v1::FLOAT32 || dtype == v1::FLOAT64;
        if (collective::Reduces(kind) ? real && op == ReduceOp::kMax : op != ReduceOp::kSum) continue;
        for (const uint64_t count : {0, 1, 2, 1001}) {
          collective::Request request = Make(kind, dtype, count, First(count == 2 ? 2 : 3));
          request.op = op;
          ExpectDone(request);
        }
      }
    }
  }
  EXPECT_EQ(PeerCopies(), 0u);
}

TEST_P(GpuNcclTest, MayBeInPlace) {
  collective::Request reduce = Make(Kind::kAllReduce, v1::INT32, 1001, Gpus());
  const auto reduced = Expected(reduce);
  reduce.outputs = reduce.inputs;
  ASSERT_EQ(Run(reduce).status(), absl::OkStatus());
  EXPECT_TRUE(Outputs(reduce) == reduced);
  collective::Request scatter = Make(Kind::kReduceScatter, v1::INT32, 1001, Gpus());
  const auto scattered = Expected(scatter);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const auto part = collective::PartOf(1001, 3, rank);
    scatter.outputs[rank] = {scatter.inputs[rank].buffer, 4 * part.begin, 4 * part.elements};
  }
  ASSERT_EQ(Run(scatter).status(), absl::OkStatus());
  EXPECT_TRUE(Outputs(scatter) == scattered);
}

// What it has not, or would do with another result, is done as without it.
TEST_P(GpuNcclTest, IsNotAskedForWhatItDoesOtherwise) {
  std::vector<collective::Request> others = {
      Make(Kind::kAllReduce, v1::FLOAT32, 10, Gpus()), Make(Kind::kAllReduce, v1::FLOAT32, 10, Gpus()),
      Make(Kind::kReduce, v1::INT16, 10, Gpus()), Make(Kind::kAllReduce, v1::INT32, 10, All()),
      Make(Kind::kAllReduce, v1::INT32, 10, First(1))};
  others[0].op = ReduceOp::kMax;  // it drops NaN
  others[1].deterministic_order = true;
  for (const collective::Request& request : others) {
    const auto report = Run(request);
    ASSERT_EQ(report.status(), absl::OkStatus());
    EXPECT_STREQ(report->algorithm, "by_host");
    EXPECT_TRUE(Outputs(request) == Expected(request));
  }
  EXPECT_EQ(Calls("ncclCommInitAll"), 0u);
  collective::Request integers = Make(Kind::kAllReduce, v1::INT32, 10, Gpus());
  integers.deterministic_order = true;  // any order gives the same
  ExpectDone(integers);
  ExpectDone(Make(Kind::kBroadcast, v1::INT16, 10, Gpus()));
}

TEST_P(GpuNcclTest, CommunicatorsAreKeptAndBounded) {
  const auto run = [this](std::vector<size_t> numbers) {
    std::vector<Device*> devices;
    for (const size_t number : numbers) devices.push_back(devices_[number].get());
    ExpectDone(Make(Kind::kAllReduce, v1::INT32, 10, std::move(devices)));
  };
  for (int iteration = 0; iteration < 3; ++iteration) run({0, 1});
  EXPECT_EQ(Calls("ncclCommInitAll"), 1u);
  const std::vector<std::vector<size_t>> others = {{1, 0},    {0, 2},    {2, 0},    {1, 2},    {2, 1},   {0, 1, 2},
                                                   {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& numbers : others) run(numbers);
  EXPECT_EQ(Calls("ncclCommInitAll"), 12u);
  EXPECT_EQ(Communicators(), "22");  // of the last eight
  run({2, 1, 0});
  EXPECT_EQ(Calls("ncclCommInitAll"), 12u);
  run({0, 1});
  EXPECT_EQ(Calls("ncclCommInitAll"), 13u);
}

TEST_P(GpuNcclTest, WithoutCommunicatorsTheDevicesDoItThemselves) {
  fake_("fail ncclCommInitAll 1 2");
  const collective::Request reduce = Make(Kind::kAllReduce, v1::INT32, 1001, Gpus());
  const collective::Request gather = Make(Kind::kAllGather, v1::INT32, 1001, Gpus());
  for (int iteration = 0; iteration < 2; ++iteration) {
    const auto reduced = Run(reduce), gathered = Run(gather);
    ASSERT_EQ(reduced.status(), absl::OkStatus());
    ASSERT_EQ(gathered.status(), absl::OkStatus());
    EXPECT_STREQ(reduced->algorithm, "by_host");
    EXPECT_STREQ(gathered->algorithm, "by_peers");
    EXPECT_TRUE(Outputs(reduce) == Expected(reduce));
    EXPECT_TRUE(Outputs(gather) == Expected(gather));
  }
  // It is not asked again, but for others.
  EXPECT_EQ(Calls("ncclCommInitAll"), 1u);
  ExpectDone(Make(Kind::kAllReduce, v1::INT32, 10, First(2)));
}

TEST_P(GpuNcclTest, AFailureEndsTheCommunicatorsAndTellsTheLibrarysText) {
  for (const std::string call : {"ncclGroupStart", "ncclAllReduce", "ncclGroupEnd"}) {
    const collective::Request request = Make(Kind::kAllReduce, v1::INT32, 1001, Gpus());
    ExpectDone(request);
    fake_(absl::StrCat("fail ", call, " 1 2"));
    const absl::Status status = Run(request).status();
    ASSERT_EQ(DetailOf(status)->code(), v1::INTERNAL_FAULT) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::AllOf(HasSubstr(absl::StrCat(name(), ": ", call)), HasSubstr("unhandled system error"),
                                 HasSubstr("the last that it warned of")));
    EXPECT_EQ(Communicators(), "0");
    ExpectDone(request);
  }
}

TEST_P(GpuNcclTest, AnErrorUnderWayEndsIt) {
  const collective::Request request = Make(Kind::kAllReduce, v1::INT32, 1001, Gpus());
  fake_("set hang 1");
  fake_("set async 6");
  const absl::Status status = Run(request).status();
  ASSERT_EQ(DetailOf(status)->code(), v1::INTERNAL_FAULT) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("remote process exited"));
  EXPECT_EQ(Communicators(), "0");
  EXPECT_EQ(Calls("ncclCommAbort"), 3u);
  fake_("set hang 0");
  fake_("set async 0");
  for (const auto& device : devices_) EXPECT_EQ(device->health(), absl::OkStatus());
  ExpectDone(request);
}

TEST_P(GpuNcclTest, OneThatIsNeverDoneIsNotWaitedForForEver) {
  collective::Collectives hasty(&meetings_, &thresholds_, absl::Milliseconds(50));
  const collective::Request request = Make(Kind::kAllReduce, v1::INT32, 1001, Gpus());
  fake_("set hang 1");
  absl::Status status;
  absl::Notification done;
  hasty.Run(request, {}, [&](const absl::StatusOr<collective::Report>& report) {
    status = report.status();
    done.Notify();
  });
  done.WaitForNotification();
  fake_("set hang 0");
  ASSERT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING) << status;
  EXPECT_EQ(DetailOf(status)->field(), devices_[0]->name());
  EXPECT_EQ(Communicators(), "0");
  ExpectDone(request);
}

TEST_P(GpuNcclTest, ALostDeviceDoesNotTakeOthersDown) {
  const collective::Request request = Make(Kind::kAllReduce, v1::INT32, 1001, Gpus());
  ExpectDone(request);
  fake_("lose 1 719");
  for (int iteration = 0; iteration < 2; ++iteration) {
    const absl::Status status = Run(request).status();
    ASSERT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING) << status;
    EXPECT_EQ(DetailOf(status)->field(), devices_[1]->name());
  }
  EXPECT_EQ(devices_[0]->health(), absl::OkStatus());
  EXPECT_EQ(devices_[2]->health(), absl::OkStatus());
  ExpectDone(Make(Kind::kAllReduce, v1::INT32, 10, {devices_[0].get(), devices_[2].get()}));
  fake_("forget 1");
}

TEST_P(GpuNcclTest, EachOfItsCallsMayFail) {
  bool any_left = true;
  for (int call = 1; any_left; ++call) {
    bool lost = false;
    {
      const std::vector<collective::Request> requests = {Make(Kind::kAllReduce, v1::INT32, 10, First(2)),
                                                         Make(Kind::kGather, v1::INT32, 10, First(2))};
      const int before = std::stoi(fake_("count"));
      fake_(absl::StrCat("fail any ", call, " 1"));
      for (const collective::Request& request : requests) {
        const absl::Status status = Run(request).status();
        if (status.ok()) continue;
        EXPECT_TRUE(DetailOf(status).has_value()) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("(")) << call;
      }
      any_left = before + call <= std::stoi(fake_("count"));
      // Who waits for a card in vain has lost it.
      for (size_t i = 0; i < 3; ++i) lost = lost || !devices_[i]->health().ok();
    }
    runtime::hal::DrainAll(devices_);
    devices_.clear();
    for (int i = 0; lost && i < 3; ++i) fake_(absl::StrCat("forget ", i));
    ASSERT_EQ(fake_("live"), kNothingLive) << call;
    fake_("reset");
    fake_("set devices 3");
    Open(/*collectives=*/true);
  }
}

TEST_P(GpuNcclTest, WhereItIsMissingThatIsSaid) {
  devices_.clear();
  const runtime::gpu::Found found = machine_->Find(/*collectives=*/false);
  EXPECT_THAT(found.no_collectives, HasSubstr(absl::StrCat("/no/lib", name())));
  EXPECT_THAT(found.absent, ::testing::IsEmpty());
  fake_("set devices 1");
  EXPECT_EQ(machine_->Find(/*collectives=*/false).no_collectives, "");
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuNcclTest, ::testing::Values(&MakeCudaMachine));
INSTANTIATE_TEST_SUITE_P(Hip, GpuNcclTest, ::testing::Values(&MakeHipMachine));

}  // namespace
}  // namespace kiln::testing
