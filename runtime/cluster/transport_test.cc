// Ranks in threads of one process, joined by a loopback.
#include "runtime/cluster/transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "runtime/cluster/loopback.h"

namespace kiln::runtime::cluster {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

std::unique_ptr<Transport> OpenTransport(Loopback& loopback, uint32_t rank, TransportOptions options) {
  return *Transport::Open([&loopback, rank] { return loopback.MakeWire(rank); }, std::move(options));
}

TEST(TransportTest, MessagesComeInOrder) {
  Loopback loopback(2);
  absl::Mutex mutex;
  std::vector<std::string> read;
  const auto zero = OpenTransport(loopback, 0, {.silence = kLong});
  const auto one = OpenTransport(loopback, 1, {.silence = kLong, .reader = [&](Message message) {
                                                 absl::MutexLock lock(&mutex);
                                                 EXPECT_EQ(message.from, 0u);
                                                 read.push_back(message.bytes);
                                                 return absl::OkStatus();
                                               }});
  EXPECT_EQ(zero->rank(), 0u);
  EXPECT_EQ(one->rank(), 1u);
  EXPECT_EQ(one->size(), 2u);
  std::vector<std::string> told;
  for (int i = 0; i < 100; ++i) {
    told.push_back(absl::StrCat("message ", i));
    zero->Tell(1, told.back());
  }
  const auto all = [&] { return read.size() == told.size(); };
  absl::MutexLock lock(&mutex);
  mutex.Await(absl::Condition(&all));
  EXPECT_EQ(read, told);
}

TEST(TransportTest, ParcelsGoToWhereTheyAreAwaited) {
  Loopback loopback(3);
  std::vector<std::unique_ptr<Transport>> transports;
  for (uint32_t rank = 0; rank < 3; ++rank) transports.push_back(OpenTransport(loopback, rank, {.silence = kLong}));
  // More than one piece.
  std::vector<uint32_t> sent(20 << 20), got(20 << 20);
  std::iota(sent.begin(), sent.end(), 7u);
  const uint32_t small_sent[] = {1, 2, 3};
  uint32_t small_got[3] = {};
  const auto receipt = transports[2]->Receive(1, 5, got.data(), 4 * got.size());
  const auto small_receipt = transports[2]->Receive(1, 6, small_got, sizeof(small_got));
  const auto nothing = transports[2]->Receive(2, 9, nullptr, 0);
  const auto small_send = transports[1]->Send(2, 6, small_sent, sizeof(small_sent));
  const auto send = transports[1]->Send(2, 5, sent.data(), 4 * sent.size());
  const auto to_itself = transports[2]->Send(2, 9, nullptr, 0);
  for (const auto& parcel : {small_send, send}) EXPECT_TRUE(transports[1]->Wait(parcel).ok());
  for (const auto& parcel : {receipt, small_receipt, nothing, to_itself}) EXPECT_TRUE(transports[2]->Wait(parcel).ok());
  EXPECT_EQ(got, sent);
  EXPECT_EQ(small_got[2], 3u);
}

// A wire whose calls come back when `released` says so.
class StuckWire final : public Wire {
 public:
  StuckWire(std::unique_ptr<Wire> wire, absl::Notification& released) : wire_(std::move(wire)), released_(released) {}

  uint32_t rank() const override { return wire_->rank(); }
  uint32_t size() const override { return wire_->size(); }
  absl::StatusOr<Request> SendMessage(uint32_t to, absl::string_view bytes) override {
    return wire_->SendMessage(to, bytes);
  }
  absl::StatusOr<Request> Send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) override {
    return wire_->Send(to, tag, from, bytes);
  }
  absl::StatusOr<Request> Receive(uint32_t from, uint32_t tag, void* to, uint64_t bytes) override {
    return wire_->Receive(from, tag, to, bytes);
  }
  absl::StatusOr<bool> Test(Request request) override { return wire_->Test(request); }
  void Cancel(Request request) override { wire_->Cancel(request); }
  void Abandon(Request request) override { wire_->Abandon(request); }
  absl::StatusOr<bool> TakeMessage(Message& message) override {
    released_.WaitForNotification();
    return wire_->TakeMessage(message);
  }
  void Close(bool together) override { wire_->Close(together); }

 private:
  const std::unique_ptr<Wire> wire_;
  absl::Notification& released_;
};

TEST(TransportTest, ARankWhoseWireIsStuckEnds) {
  Loopback loopback(2);
  absl::Notification released, lost;
  const auto zero = OpenTransport(loopback, 0, {.silence = kLong});
  std::string why;
  TransportOptions options;
  options.silence = absl::Milliseconds(20);
  options.lost = [&](const std::string& reason) {
    if (!lost.HasBeenNotified()) {
      why = reason;
      lost.Notify();
    }
  };
  const auto one = *Transport::Open(
      [&]() -> absl::StatusOr<std::unique_ptr<Wire>> {
        return std::make_unique<StuckWire>(loopback.MakeWire(1), released);
      },
      std::move(options));
  lost.WaitForNotification();
  EXPECT_EQ(why, "MPI has not come back from a call");
  released.Notify();
}

// Rank 1 falls silent while others wait for it, one of them for a third's sake.
TEST(TransportTest, TransfersWithADeadRankEnd) {
  Loopback loopback(3);
  absl::Notification buried;
  std::atomic<bool> rank_1_gave_up{false};
  auto zero =
      OpenTransport(loopback, 0, {.silence = absl::Seconds(2), .died = [&](uint32_t rank, const absl::Status& why) {
                                    EXPECT_EQ(rank, 1u);
                                    EXPECT_EQ(DetailOf(why)->code(), v1::PARTICIPANT_MISSING);
                                    buried.Notify();
                                  }});
  zero->SetName(1, "rank 1 on somewhere");
  const auto one = OpenTransport(
      loopback, 1, {.silence = absl::Seconds(2), .lost = [&](const std::string& why) { rank_1_gave_up = true; }});
  const auto two = OpenTransport(loopback, 2, {.silence = absl::Seconds(2)});
  char byte = 0;
  const auto from_1 = zero->Receive(1, 1, &byte, 1);
  const auto from_2 = zero->Receive(2, 1, &byte, 1);
  const auto third = two->Receive(1, 3, &byte, 1);
  EXPECT_TRUE(zero->Life(1).ok());
  loopback.Silence(1);
  const absl::Status status = zero->Wait(from_1);
  EXPECT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING);
  EXPECT_EQ(DetailOf(status)->field(), "rank 1");
  EXPECT_EQ(std::string(status.message()), "rank 1 on somewhere is dead: it has said nothing for 2s");
  const uint32_t watched[] = {1, 2};
  EXPECT_EQ(zero->Wait(from_2, watched), status);
  // Rank 0 tells the others.
  EXPECT_EQ(std::string(two->Wait(third).message()), "rank 1 is dead: so says rank 0");
  buried.WaitForNotification();
  EXPECT_EQ(zero->Life(1), status);
  EXPECT_TRUE(zero->Life(2).ok());
  // What comes later ends at once, and rank 1 itself has ended before it was given up.
  EXPECT_EQ(zero->Wait(zero->Send(1, 1, &byte, 1)), status);
  EXPECT_TRUE(rank_1_gave_up);
  zero.reset();  // or it would hear the others leave
}

TEST(TransportTest, ARankThatLeavesIsKnownAtOnce) {
  Loopback loopback(2);
  absl::Notification buried;
  const auto zero =
      OpenTransport(loopback, 0, {.silence = kLong, .died = [&](uint32_t, const absl::Status&) { buried.Notify(); }});
  OpenTransport(loopback, 1, {.silence = kLong}).reset();
  buried.WaitForNotification();
  EXPECT_EQ(std::string(zero->Life(1).message()), "rank 1 is dead: it has left the job");
}

TEST(TransportTest, RankZeroEndsTheJob) {
  Loopback loopback(2);
  auto zero = OpenTransport(loopback, 0, {.silence = kLong});
  absl::Notification goodbye;
  const auto one = OpenTransport(loopback, 1, {.silence = kLong, .goodbye = [&] { goodbye.Notify(); }});
  zero.reset();
  goodbye.WaitForNotification();
}

TEST(TransportTest, AWireThatCannotBeMadeIsTheAnswer) {
  const auto transport = Transport::Open([] { return absl::UnavailableError("no cable"); }, {});
  EXPECT_EQ(transport.status(), absl::UnavailableError("no cable"));
}

}  // namespace
}  // namespace kiln::runtime::cluster
