// A batcher, and requests for it. Runs here end when they are told to.
#ifndef KILN_SERVER_ENGINE_BATCHING_BATCHER_FIXTURE_H_
#define KILN_SERVER_ENGINE_BATCHING_BATCHER_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <tuple>
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

template <typename Tensor>
void Add(Tensor* tensor, int64_t rows_each) {
  tensor->set_dtype(v1::INT8);
  tensor->add_shape(rows_each == 0 ? 1 : 4 * rows_each);
  if (rows_each == 0) return tensor->set_bytes(1);
  tensor->add_shape(1 << 20);
  tensor->set_bytes(static_cast<uint64_t>(4 * rows_each) << 20);
  for (uint32_t axis : {0u, 1u}) {
    auto* symbolic = tensor->add_symbolic();
    symbolic->set_axis(axis);
    const auto add = [&](v1::SizeExpr::Op op, int64_t value) {
      auto* token = symbolic->mutable_size()->add_token();
      token->set_op(op);
      token->set_value(value);
    };
    add(v1::SizeExpr::VARIABLE, axis);
    if (axis == 1) continue;
    add(v1::SizeExpr::CONST, rows_each);
    add(v1::SizeExpr::MUL, 0);
  }
}

// x of int8 [n, t] and w give y of [2 * n, t], which is each row twice, and z, which is the same for all.
inline v1::Executable TheExecutable(const v1::Target& target) {
  v1::Executable executable;
  *executable.mutable_target() = target;
  v1::Kernel* kernel = executable.add_kernels();
  kernel->set_symbol("k");
  kernel->set_iterations(1);
  v1::Step* step = executable.add_steps();
  const auto operand = [step](v1::Operand::Space space, uint32_t index, bool written) {
    v1::Operand* made = step->add_operands();
    made->set_space(space);
    made->set_index(index);
    made->set_written(written);
  };
  operand(v1::Operand::PARAMETER, 0, false);
  operand(v1::Operand::PARAMETER, 1, false);
  operand(v1::Operand::RESULT, 0, true);
  operand(v1::Operand::RESULT, 1, true);
  v1::Signature& signature = *executable.mutable_signature();
  signature.add_parameters()->set_slot(kX);
  Add(signature.mutable_parameters(0), 1);
  signature.add_parameters()->set_slot(kWeights);
  Add(signature.mutable_parameters(1), 0);
  Add(signature.add_results(), 2);
  Add(signature.add_results(), 0);
  for (const auto& [slot, name, most] : {std::tuple(kRows, "n", 4), std::tuple(kTokens, "t", 1 << 20)}) {
    v1::Signature::Variable* variable = signature.add_variables();
    variable->set_slot(slot);
    variable->set_name(name);
    variable->set_min_value(0);
    variable->set_max_value(most);
    variable->set_row_wise(slot == kRows);
  }
  return executable;
}

class BatcherTest : public ::testing::Test {
 protected:
  // A request, and what it was told.
  struct Member final : BatchMember {
    const ProgramStore::Program& program() const override { return *found; }
    ExecuteRequest& request() override { return asked; }
    const Control& control() const override { return controls; }
    void Run(absl::Duration, absl::AnyInvocable<void(const ExecuteTiming*)> ended) override {
      test->Run(asked, controls, [this, ended = std::move(ended)](absl::StatusOr<ExecuteResult> answer) mutable {
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

    BatcherTest* test = nullptr;
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

  BatcherTest() {
    auto program = runtime::Program::Load(TheExecutable(device_->target()), *device_);
    EXPECT_TRUE(program.ok()) << program.status();
    program_->program = *std::move(program);
    program_->rows = RowsOf(program_->signature());
    weights_ = std::make_shared<BufferRecord>();
  }

  void Run(const ExecuteRequest& request, const Control& control, ExecuteCallback done) {
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

  static const Argument& ArgumentOf(const Asked& asked, uint32_t slot) {
    for (const Argument& argument : asked.request.arguments) {
      if (argument.slot == slot) return argument;
    }
    ADD_FAILURE() << "no slot " << slot;
    return asked.request.arguments[0];
  }
  static const TensorView& XOf(const Asked& asked) { return std::get<TensorView>(ArgumentOf(asked, kX).value); }

  void Answer(Asked asked) {
    const TensorView& x = XOf(asked);
    EXPECT_EQ(std::get<int64_t>(ArgumentOf(asked, kRows).value), x.shape[0]);
    EXPECT_EQ(std::get<BufferTable::Record>(ArgumentOf(asked, kWeights).value), weights_);
    ExecuteResult result;
    result.timing.device = micros_;
    result.results.resize(2);
    const auto row = static_cast<size_t>(x.shape[1]);
    for (size_t i = 0; i < x.data.size(); i += row)
      absl::StrAppend(&result.results[0].data, x.data.substr(i, row), x.data.substr(i, row));
    result.results[0].shape = {2 * x.shape[0], x.shape[1]};
    result.results[1].data = "z";
    result.results[1].shape = {1};
    result.results[1].index = 1;
    asked.done(std::move(result));
  }

  // The run that was asked for first.
  Asked First() {
    absl::MutexLock lock(&mutex_);
    Asked first = std::move(asked_.front());
    asked_.erase(asked_.begin());
    return first;
  }
  // It has these rows, and ends well.
  void End(const std::string& rows) {
    ASSERT_FALSE(asked_.empty());
    Asked first = First();
    EXPECT_EQ(XOf(first).data, rows);
    Answer(std::move(first));
  }

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
                     Run(request, control, std::move(done));
                   },
                   &buffers_, &metrics_, absl::InfiniteDuration()};
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_BATCHING_BATCHER_FIXTURE_H_
