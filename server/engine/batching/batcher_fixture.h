// A batcher, and requests for it. Runs here end when they are told to.
#ifndef KILN_SERVER_ENGINE_BATCHING_BATCHER_FIXTURE_H_
#define KILN_SERVER_ENGINE_BATCHING_BATCHER_FIXTURE_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "runtime/drivers/null/device.h"
#include "server/engine/batching/batcher.h"
#include "server/metrics/metrics.h"

namespace kiln::server {

inline constexpr uint32_t kX = 0, kRows = 1, kTokens = 2, kWeights = 3;

// What a test of the batcher has, and asks. Its program takes x of int8 [n, t] and w, and gives y of [2 * n, t], which
// is each row twice, and z, which is the same for all.
class BatcherFixture {
 protected:
  // A request, and what it was told.
  struct Member final : BatchMember {
    const ProgramStore::Program& program() const override { return *found; }
    ExecuteRequest& request() override { return asked; }
    const Control& control() const override { return controls; }
    void Run(absl::Duration, absl::AnyInvocable<void(const ExecuteTiming*)> ended) override {
      test->Begin(asked, controls, [this, ended = std::move(ended)](absl::StatusOr<ExecuteResult> answer) mutable {
        ended(answer.ok() ? &answer->timing : nullptr);
        Tell(std::move(answer));
      });
    }
    void Answer(ExecuteResult answer, absl::Duration) override { Tell(std::move(answer)); }
    void Fail(absl::Status status) override { Tell(std::move(status)); }
    void Tell(absl::StatusOr<ExecuteResult> answer) {
      result = std::move(answer);
      told.Notify();
    }
    // Of y, and of z.
    std::string text() const {
      return result.ok() ? absl::StrCat(result->results[0].data, " ", result->results[1].data)
                         : std::string(result.status().message());
    }
    int batch() const { return result.ok() ? result->batch : -1; }

    BatcherFixture* test = nullptr;
    const ProgramStore::Program* found = nullptr;
    ExecuteRequest asked;
    Control controls;
    std::vector<int64_t> shape;
    std::string bytes;
    absl::StatusOr<ExecuteResult> result = absl::UnknownError("not yet");
    absl::Notification told;
    bool taken = false;
  };
  struct Asked {
    ExecuteRequest request;
    ExecuteCallback done;
  };

  BatcherFixture();

  // What the batcher has run.
  void Begin(const ExecuteRequest& request, const Control& control, ExecuteCallback done) {
    ExecuteRequest copy;
    copy.arguments = request.arguments;
    if (at_once_) return Answer({std::move(copy), std::move(done)});
    absl::MutexLock lock(&mutex_);
    deadlines_.push_back(control.deadline);
    cancelled_ = control.cancelled;
    asked_.push_back({std::move(copy), std::move(done)});
  }

  // Rows of one byte for each letter.
  Member& Ask(const std::string& rows, const Control& control = {}, int64_t tokens = 1, Batcher* batcher = nullptr) {
    Member& member = *members_.emplace_back(std::make_unique<Member>());
    member.test = this;
    member.found = &program_;
    member.controls = control;
    member.shape = {static_cast<int64_t>(rows.size()) / tokens, tokens};
    member.bytes = rows;
    // In any order.
    member.asked.arguments.push_back({kTokens, tokens});
    member.asked.arguments.push_back({kX, TensorView{v1::INT8, member.shape, member.bytes}});
    if (handle_ == 0) {
      member.asked.arguments.push_back({kWeights, weights_});
    } else {
      member.asked.arguments.push_back({kWeights, BufferAddress{handle_, 0}});
    }
    member.asked.may_wait = may_wait_;
    member.asked.arguments.push_back({kRows, member.shape[0]});
    member.asked.results_inline = inline_;
    member.taken = (batcher == nullptr ? batcher_ : *batcher).Add(member);
    return member;
  }

  static const Argument& ArgumentOf(const Asked& asked, uint32_t slot);
  static const TensorView& XOf(const Asked& asked) { return std::get<TensorView>(ArgumentOf(asked, kX).value); }

  // Ends the run well.
  void Answer(Asked asked);
  // The run that was asked for first.
  Asked First() {
    absl::MutexLock lock(&mutex_);
    Asked first = std::move(asked_.front());
    asked_.erase(asked_.begin());
    return first;
  }
  // It has these rows, and ends well.
  void End(const std::string& rows);

  const std::unique_ptr<runtime::null::Device> device_ = *runtime::null::CreateDevice({});
  const ProgramStore::Program program_ = std::make_shared<StoredProgram>();
  BufferTable::Record weights_;
  BufferTable buffers_;
  Metrics metrics_;
  absl::Mutex mutex_;  // of what runs on another thread change
  std::vector<Asked> asked_;
  std::vector<absl::Time> deadlines_;
  const std::atomic<bool>* cancelled_ = nullptr;  // of the last
  std::vector<std::unique_ptr<Member>> members_;
  double micros_ = 1;  // that a run takes
  std::atomic<bool> at_once_{false};
  bool inline_ = true;
  // Weights by handle, and whether their client says that they stay.
  uint64_t handle_ = 0;
  bool may_wait_ = false;
  Batcher batcher_{[this](ExecuteRequest request, const Control& control, ExecuteCallback done) {
                     Begin(request, control, std::move(done));
                   },
                   &buffers_, &metrics_, absl::InfiniteDuration()};
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_BATCHING_BATCHER_FIXTURE_H_
