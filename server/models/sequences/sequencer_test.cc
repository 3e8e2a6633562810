// Steps of sequences, with a program that is played here: state and x are an int32 each, y is their sum, and the next
// state. Runs end when they are told to.
#include "server/models/sequences/sequencer.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/null/device.h"

namespace kiln::server {
namespace {

constexpr uint32_t kX = 0, kPool = 1, kFrom = 2, kRowOf = 3, kBatch = 4, kTokens = 5;
constexpr uint64_t kPoolBytes = 64;  // of three slots and three, an int32 each, as the allocator rounds it

class SequencerTest : public testing::Test {
 protected:
  struct Asked {
    std::string x;
    absl::StatusOr<ExecuteResult> result = absl::UnknownError("not yet");
    absl::Notification told;
    std::vector<int64_t> shape = {1};

    // "7", or what was wrong.
    std::string text() const {
      if (!result.ok())
        return DetailOf(result.status()).has_value() ? v1::ErrorCode_Name(DetailOf(result.status())->code())
                                                     : std::string(result.status().message());
      int32_t y = 0;
      std::memcpy(&y, result->results[0].data.data(), sizeof(y));
      return absl::StrCat(y);
    }
  };
  struct Running {
    ExecuteRequest request;
    ExecuteCallback done;
  };

  void Open(size_t sequences = 3, size_t rows = 3, absl::Duration idle = absl::Hours(1),
            absl::Duration queue_delay = absl::ZeroDuration()) {
    Sequencer::Options options;
    options.run = [this](ExecuteRequest request, const Control&, ExecuteCallback done) {
      absl::MutexLock lock(&mutex_);
      running_.push_back({std::move(request), std::move(done)});
    };
    options.metrics = &metrics_;
    options.device = device_.get();
    options.pools = {{kPool, v1::INT32, {}, 4}};
    options.from_slot = kFrom;
    options.row_of_slot = kRowOf;
    options.batch_slot = kBatch;
    options.max_sequences = sequences;
    options.max_rows = rows;
    options.idle = idle;
    options.queue_delay = queue_delay;
    options.wake_ups = &wake_ups_;
    sequencer_ = std::make_shared<Sequencer>(std::move(options));
    pool_.assign(sequences + rows, -100);
  }

  Asked& Ask(const std::string& id, int32_t x, bool start = false, bool end = false, const Control& control = {},
             int64_t tokens = 1) {
    Asked& asked = *asked_.emplace_back(std::make_unique<Asked>());
    asked.x.assign(reinterpret_cast<const char*>(&x), sizeof(x));
    ExecuteRequest request;
    request.arguments.push_back({kTokens, tokens});
    request.arguments.push_back({kX, TensorView{v1::INT32, asked.shape, asked.x}});
    request.arguments.push_back({kBatch, int64_t{1}});
    sequencer_->Run(std::move(request), {id, start, end}, control, [&asked](absl::StatusOr<ExecuteResult> result) {
      asked.result = std::move(result);
      asked.told.Notify();
    });
    return asked;
  }

  template <typename T>
  static const T& Of(const ExecuteRequest& request, uint32_t slot) {
    for (const Argument& argument : request.arguments) {
      if (argument.slot == slot) return std::get<T>(argument.value);
    }
    ADD_FAILURE() << "no slot " << slot;
    std::abort();
  }
  static std::vector<int32_t> ListOf(const ExecuteRequest& request, uint32_t slot) {
    const absl::string_view data = Of<TensorView>(request, slot).data;
    std::vector<int32_t> list(data.size() / sizeof(int32_t));
    std::memcpy(list.data(), data.data(), data.size());
    return list;
  }

  size_t runs() {
    absl::MutexLock lock(&mutex_);
    return running_.size();
  }
  // Ends the first run: with how many rows.
  size_t End(bool well = true) {
    Running run;
    {
      absl::MutexLock lock(&mutex_);
      if (running_.empty()) return 0;
      run = std::move(running_.front());
      running_.erase(running_.begin());
    }
    const std::vector<int32_t> x = ListOf(run.request, kX), from = ListOf(run.request, kFrom);
    EXPECT_EQ(Of<int64_t>(run.request, kBatch), static_cast<int64_t>(x.size()));
    EXPECT_EQ(Of<TensorView>(run.request, kX).shape[0], static_cast<int64_t>(x.size()));
    EXPECT_EQ(Of<BufferTable::Record>(run.request, kPool)->slice.bytes, pool_.size() * 4);
    std::vector<int32_t> y;
    for (size_t row = 0; row < x.size(); ++row)
      y.push_back(x[row] + (from[row] < 0 ? 0 : pool_[static_cast<size_t>(from[row])]));
    const std::vector<int32_t> row_of = ListOf(run.request, kRowOf);
    // A run that fails may have written all the same.
    for (size_t slot = 0; slot < row_of.size(); ++slot) {
      if (row_of[slot] >= 0) pool_[slot] = y[static_cast<size_t>(row_of[slot])];
    }
    if (!well) {
      run.done(MakeError(v1::INTERNAL_FAULT, "it failed"));
      return x.size();
    }
    ExecuteResult result;
    ResultValue& value = result.results.emplace_back();
    value.shape = {static_cast<int64_t>(y.size())};
    value.data.assign(reinterpret_cast<const char*>(y.data()), y.size() * sizeof(int32_t));
    run.done(std::move(result));
    return x.size();
  }
  void WaitForRun() {
    for (int i = 0; i < 60000 && runs() == 0; ++i) bell_.Wait(absl::Milliseconds(1));
  }
  uint64_t InMemory() { return device_->allocator().stats().in_use_bytes; }

  const std::unique_ptr<runtime::null::Device> device_ = *runtime::null::CreateDevice({});
  Metrics metrics_;
  std::array<Account, 2> accounts_;  // outlive what they pay for
  Bell bell_;
  absl::Mutex mutex_;
  std::vector<Running> running_ ABSL_GUARDED_BY(mutex_);
  std::vector<int32_t> pool_;
  std::vector<std::unique_ptr<Asked>> asked_;
  WakeUps wake_ups_;
  std::shared_ptr<Sequencer> sequencer_;
};

TEST_F(SequencerTest, EachSequenceGoesOnFromItsOwnState) {
  Open();
  const auto step = [&](const std::string& id, int32_t x, bool start = false) {
    Asked& asked = Ask(id, x, start);
    EXPECT_EQ(End(), 1u);
    return asked.text();
  };
  EXPECT_EQ(step("1", 1, true), "1");
  EXPECT_EQ(step("2", 10, true), "10");
  EXPECT_EQ(step("1", 2), "3");
  EXPECT_EQ(step("2", 20), "30");
  EXPECT_EQ(step("1", 3), "6");
  EXPECT_EQ(step("1", 5, true), "5");  // anew
  EXPECT_EQ(step("2", 1), "31");
  EXPECT_EQ(step("1", 1), "6");
}

TEST_F(SequencerTest, StepsThatComeMeanwhileAreOneRun) {
  Open();
  Asked& a = Ask("1", 1, true);
  Asked& b = Ask("2", 10, true);
  Asked& c = Ask("3", 100, true, true);
  EXPECT_EQ(runs(), 1u);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(a.text(), "1");
  Asked& d = Ask("1", 2);
  EXPECT_EQ(End(), 2u);  // b and c, which came while a ran
  EXPECT_EQ(b.text(), "10");
  EXPECT_EQ(c.text(), "100");
  EXPECT_EQ(b.result->batch, 2);
  EXPECT_EQ(c.result->batch, 0);
  Asked& e = Ask("2", 20);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(d.text(), "3");
  EXPECT_EQ(e.text(), "30");
  EXPECT_EQ(sequencer_->sequences(), 2u);
  EXPECT_EQ(metrics_.batched_requests.Sum(0), 2u);
}

TEST_F(SequencerTest, ARunHasNoMoreRowsThanItMay) {
  Open(/*sequences=*/5, /*rows=*/2);
  std::vector<Asked*> all;
  for (int i = 1; i <= 5; ++i) all.push_back(&Ask(absl::StrCat(i), i, true));
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(End(), 2u);
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(all[static_cast<size_t>(i - 1)]->text(), absl::StrCat(i));
}

TEST_F(SequencerTest, StepsOfOtherSizesAreOtherRuns) {
  Open();
  Ask("1", 1, true);
  Asked& b = Ask("2", 2, true, false, {}, /*tokens=*/8);
  Asked& c = Ask("3", 3, true);
  EXPECT_EQ(End(), 1u);
  Asked& d = Ask("1", 10);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(b.text(), "2");
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(c.text(), "3");
  EXPECT_EQ(d.text(), "11");
}

TEST_F(SequencerTest, ARequestThatFailsChangesNothing) {
  Open();
  Ask("1", 1, true);
  End();
  Asked& failed = Ask("1", 2);
  EXPECT_EQ(End(false), 1u);
  EXPECT_EQ(failed.text(), "INTERNAL_FAULT");
  Asked& anew = Ask("1", 50, true, true);  // neither a start nor an end that fails has been
  End(false);
  EXPECT_EQ(anew.text(), "INTERNAL_FAULT");
  Asked& again = Ask("1", 2);
  End();
  EXPECT_EQ(again.text(), "3");
  Ask("2", 7, true);
  End(false);
  EXPECT_EQ(Ask("2", 7).text(), "UNKNOWN_HANDLE");  // it never began
}

TEST_F(SequencerTest, OneThatFailsAmongSeveralIsNoOthersFault) {
  Open();
  Ask("1", 1, true);
  Asked& b = Ask("2", 2, true);
  Asked& c = Ask("3", 3, true);
  End();
  EXPECT_EQ(End(false), 2u);
  EXPECT_EQ(End(false), 1u);  // each alone
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(b.text(), "INTERNAL_FAULT");
  EXPECT_EQ(c.text(), "3");
  EXPECT_EQ(sequencer_->sequences(), 2u);
}

TEST_F(SequencerTest, WhoIsCalledOffHasTheStateThatItHad) {
  Open();
  std::atomic<bool> off{false};
  Control control;
  control.cancelled = &off;
  Ask("1", 1, true);
  Ask("2", 2, true);
  End();
  End();
  Ask("1", 10);
  Asked& waits = Ask("2", 20, false, false, control);
  off = true;
  End();
  EXPECT_EQ(waits.text(), "CALL_CANCELLED");
  EXPECT_EQ(runs(), 0u);
  off = false;
  Ask("1", 100);
  Asked& runs_with_another = Ask("2", 200, false, false, control);
  Ask("3", 3, true);
  End();
  off = true;
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(runs_with_another.text(), "CALL_CANCELLED");
  Asked& again = Ask("2", 5);
  End();
  EXPECT_EQ(again.text(), "7");
}

TEST_F(SequencerTest, WhatIsNotThereIsRefused) {
  Open(/*sequences=*/2, /*rows=*/2);
  EXPECT_EQ(Ask("1", 1).text(), "UNKNOWN_HANDLE");
  Ask("1", 1, true);
  EXPECT_EQ(Ask("1", 1).text(), "BAD_ARGUMENT");  // under way
  Ask("2", 1, true);
  Asked& many = Ask("3", 1, true);
  const auto detail = DetailOf(many.result.status());
  EXPECT_EQ(detail->code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(detail->limit(), "sequences");
  EXPECT_EQ(detail->limit_value(), 2u);
  EXPECT_EQ(detail->field(), "parameters.sequence_start");
  EXPECT_GT(detail->retry_after_ms(), 0u);
  End();
  End();
  Ask("1", 1, false, true);
  End();
  EXPECT_EQ(Ask("1", 1).text(), "UNKNOWN_HANDLE");  // it has ended
  Ask("3", 1, true);
  EXPECT_EQ(End(), 1u);
}

TEST_F(SequencerTest, TenantsShareNothing) {
  Open(/*sequences=*/1, /*rows=*/1);
  Account &a = accounts_[0], &b = accounts_[1];
  Control of_a, of_b;
  of_a.account = &a;
  of_b.account = &b;
  Ask("1", 1, true, false, of_a);
  EXPECT_EQ(Ask("1", 1, false, false, of_b).text(), "UNKNOWN_HANDLE");
  Ask("1", 1, true, false, of_b);
  EXPECT_EQ(runs(), 2u);  // not together, and neither waits
  End();
  End();
  EXPECT_EQ(a.used(Quota::kDeviceBytes), 8u);
  EXPECT_EQ(b.used(Quota::kDeviceBytes), 8u);
  Ask("1", 1, false, true, of_a);
  End();
  EXPECT_EQ(a.used(Quota::kDeviceBytes), 0u);
  EXPECT_EQ(b.used(Quota::kDeviceBytes), 8u);
  QuotaLimits limits = {};
  limits[static_cast<size_t>(Quota::kDeviceBytes)] = 7;
  a.SetLimits(limits);
  EXPECT_EQ(Ask("2", 1, true, false, of_a).text(), "QUOTA_EXCEEDED");
  EXPECT_EQ(runs(), 0u);
}

TEST_F(SequencerTest, TheLastOneGivesTheMemoryBack) {
  Open();
  Ask("1", 1, true);
  EXPECT_EQ(InMemory(), kPoolBytes);
  Ask("2", 1, true);
  End();
  End();
  Ask("1", 1, false, true);
  End();
  EXPECT_EQ(InMemory(), kPoolBytes);
  Ask("2", 1, false, true);
  End();
  EXPECT_EQ(InMemory(), 0u);
  Ask("1", 1, true);
  End(false);
  EXPECT_EQ(InMemory(), 0u);
}

TEST_F(SequencerTest, AModelThatGoesGivesAllBack) {
  Open();
  Ask("1", 1, true);
  End();
  EXPECT_EQ(InMemory(), kPoolBytes);
  sequencer_.reset();
  EXPECT_EQ(InMemory(), 0u);
}

TEST_F(SequencerTest, IdleOnesEnd) {
  Open(3, 3, /*idle=*/absl::Milliseconds(20));
  Ask("1", 1, true);
  Ask("2", 1, true);
  End();
  EXPECT_EQ(InMemory(), kPoolBytes);
  for (int i = 0; i < 60000 && sequencer_->sequences() > 1; ++i) bell_.Wait(absl::Milliseconds(1));
  EXPECT_EQ(sequencer_->sequences(), 1u);  // a run is under way for the other
  EXPECT_EQ(Ask("1", 1).text(), "UNKNOWN_HANDLE");
  End();
  for (int i = 0; i < 60000 && InMemory() > 0; ++i) bell_.Wait(absl::Milliseconds(1));
  EXPECT_EQ(sequencer_->sequences(), 0u);
  EXPECT_EQ(InMemory(), 0u);
}

TEST_F(SequencerTest, ARunWaitsForThoseOfTheRunBefore) {
  Open(3, 3, absl::Hours(1), /*queue_delay=*/absl::Hours(1));
  Ask("1", 1, true);
  Ask("2", 2, true);
  End();
  EXPECT_EQ(runs(), 0u);  // "2" waits for "1", which has just been answered
  Asked& b = Ask("1", 10);
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(b.text(), "11");
  Ask("2", 20, false, true);
  EXPECT_EQ(runs(), 0u);
  Ask("1", 100);
  EXPECT_EQ(End(), 2u);
  Ask("1", 1000);  // the other has ended, and who is alone waits for nothing
  EXPECT_EQ(End(), 1u);
}

TEST_F(SequencerTest, ARunWaitsNoLongerThanItMay) {
  Open(3, 3, absl::Hours(1), /*queue_delay=*/absl::Milliseconds(5));
  Ask("1", 1, true);
  Asked& b = Ask("2", 2, true);
  End();
  WaitForRun();
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(b.text(), "2");
}

}  // namespace
}  // namespace kiln::server
