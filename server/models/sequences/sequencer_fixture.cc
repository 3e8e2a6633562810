// For tests: sequencer_test.cc and those beside it.
#include "server/models/sequences/sequencer_fixture.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/drivers/null/device.h"

namespace kiln::server {
namespace {

template <typename T>
const T& Of(const ExecuteRequest& request, uint32_t slot) {
  for (const Argument& argument : request.arguments) {
    if (argument.slot == slot) return std::get<T>(argument.value);
  }
  ADD_FAILURE() << "no slot " << slot;
  std::abort();
}

std::vector<int32_t> ListOf(const ExecuteRequest& request, uint32_t slot) {
  const absl::string_view data = Of<TensorView>(request, slot).data;
  std::vector<int32_t> list(data.size() / sizeof(int32_t));
  std::memcpy(list.data(), data.data(), data.size());
  return list;
}

}  // namespace

SequencerFixture::SequencerFixture() : device_(*runtime::null::CreateDevice({})) {}

SequencerFixture::~SequencerFixture() = default;

std::string SequencerFixture::Asked::text() const {
  if (!result.ok())
    return DetailOf(result.status()).has_value() ? v1::ErrorCode_Name(DetailOf(result.status())->code())
                                                 : std::string(result.status().message());
  int32_t y = 0;
  std::memcpy(&y, result->results[0].data.data(), sizeof(y));
  return absl::StrCat(y);
}

void SequencerFixture::Open(size_t sequences, size_t rows, absl::Duration idle, absl::Duration queue_delay) {
  Sequencer::Options options;
  options.run = [this](ExecuteRequest request, const Control& control, ExecuteCallback done) {
    {
      absl::MutexLock lock(&mutex_);
      ran_on_.push_back(std::this_thread::get_id());
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
  options.threads = &threads_;
  sequencer_ = std::make_shared<Sequencer>(std::move(options));
  pool_.assign(sequences + rows, -100);
}

SequencerFixture::Asked& SequencerFixture::Ask(const std::string& id, int32_t x, bool start, bool end,
                                               const Control& control, int64_t tokens) {
  Asked& asked = *asked_.emplace_back(std::make_unique<Asked>());
  asked.x.assign(reinterpret_cast<const char*>(&x), sizeof(x));
  ExecuteRequest request;
  request.arguments.push_back({kTokens, tokens});
  request.arguments.push_back({kX, TensorView{v1::INT32, asked.shape, asked.x}});
  request.arguments.push_back({kBatch, int64_t{1}});
  sequencer_->Run(std::move(request), {id, start, end}, control, [this, &asked](absl::StatusOr<ExecuteResult> result) {
    asked.result = std::move(result);
    if (then_ != nullptr) std::exchange(then_, nullptr)();
    asked.told.Notify();
  });
  return asked;
}

size_t SequencerFixture::runs() {
  absl::MutexLock lock(&mutex_);
  return running_.size();
}

Control SequencerFixture::FirstControl() {
  absl::MutexLock lock(&mutex_);
  return running_.at(0).control;
}

size_t SequencerFixture::End(bool well, Charge paid) {
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

void SequencerFixture::WaitForRun() {
  for (int i = 0; i < 60000 && runs() == 0; ++i) bell_.Wait(absl::Milliseconds(1));
}

uint64_t SequencerFixture::InMemory() { return device_->allocator().stats().in_use_bytes; }

}  // namespace kiln::server
