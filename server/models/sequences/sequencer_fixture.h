// A sequencer, and steps for it, with a program that is played here: state and x are an int32 each, y is their sum, and
// the next state. Runs end when they are told to.
#ifndef KILN_SERVER_MODELS_SEQUENCES_SEQUENCER_FIXTURE_H_
#define KILN_SERVER_MODELS_SEQUENCES_SEQUENCER_FIXTURE_H_

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/account.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/drivers/null/device.h"
#include "server/metrics/metrics.h"
#include "server/models/sequences/sequencer.h"

namespace kiln::server {

inline constexpr uint32_t kX = 0, kPool = 1, kFrom = 2, kRowOf = 3, kBatch = 4, kTokens = 5;
inline constexpr uint64_t kPoolBytes = 64;  // of three slots and three, an int32 each, as the allocator rounds it

// What a test of it has, and asks. One tenant's unless its control names an account.
class SequencerFixture {
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
    Control control;
    ExecuteCallback done;
  };

  void Open(size_t sequences = 3, size_t rows = 3, absl::Duration idle = absl::Hours(1),
            absl::Duration queue_delay = absl::ZeroDuration()) {
    Sequencer::Options options;
    options.run = [this](ExecuteRequest request, const Control& control, ExecuteCallback done) {
      {
        absl::MutexLock lock(&mutex_);
        running_.push_back({std::move(request), control, std::move(done)});
      }
      if (at_once_) End();
    };
    options.result_bytes = [this](const ExecuteRequest&) { return result_bytes_; };
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
    sequencer_->Run(std::move(request), {id, start, end}, control,
                    [this, &asked](absl::StatusOr<ExecuteResult> result) {
                      asked.result = std::move(result);
                      if (then_ != nullptr) std::exchange(then_, nullptr)();
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
  // What the first run was asked with.
  Control FirstControl() {
    absl::MutexLock lock(&mutex_);
    return running_.at(0).control;
  }
  // Ends the first run, of which the answer is paid for so: with how many rows.
  size_t End(bool well = true, Charge paid = {}) {
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
    run.request.arguments.clear();  // as an execution does before it answers
    if (!well) {
      run.done(MakeError(v1::INTERNAL_FAULT, "it failed"));
      return x.size();
    }
    ExecuteResult result;
    ResultValue& value = result.results.emplace_back();
    value.shape = {static_cast<int64_t>(y.size())};
    value.data.assign(reinterpret_cast<const char*>(y.data()), y.size() * sizeof(int32_t));
    result.charge = std::move(paid);
    result.timing.device = micros_ + micros_of_row_ * static_cast<double>(x.size());
    run.done(std::move(result));
    return x.size();
  }
  void WaitForRun() {
    for (int i = 0; i < 60000 && runs() == 0; ++i) bell_.Wait(absl::Milliseconds(1));
  }
  uint64_t InMemory() { return device_->allocator().stats().in_use_bytes; }

  const std::unique_ptr<runtime::null::Device> device_ = *runtime::null::CreateDevice({});
  Metrics metrics_;
  std::array<Account, 2> accounts_ = {Account("a"), Account("b")};  // outlive what they pay for
  Bell bell_;
  absl::Mutex mutex_;
  std::vector<Running> running_ ABSL_GUARDED_BY(mutex_);
  std::vector<int32_t> pool_;
  double micros_ = 0, micros_of_row_ = 0;  // that a run takes
  uint64_t result_bytes_ = 0;              // that a step's results are said to have
  std::function<void()> then_;             // called with the next answer
  std::atomic<bool> at_once_{false};       // runs end as they are asked for
  std::vector<std::unique_ptr<Asked>> asked_;
  WakeUps wake_ups_;
  std::shared_ptr<Sequencer> sequencer_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SEQUENCES_SEQUENCER_FIXTURE_H_
