// Requests that come while another runs, and what each gets. Runs here end when they are told to.
#include "server/engine/batching/batcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/account.h"
#include "base/error.h"
#include "runtime/drivers/null/device.h"
#include "server/metrics/metrics.h"

namespace kiln::server {
namespace {

constexpr uint32_t kX = 0, kRows = 1, kTokens = 2, kWeights = 3;

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
v1::Executable TheExecutable(const v1::Target& target) {
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
    const ExecuteRequest& request() const override { return asked; }
    const Control& control() const override { return controls; }
    void Run(absl::AnyInvocable<void(const ExecuteTiming*)> ended) override {
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

TEST_F(BatcherTest, WhatComesWhileOneRunsIsRunAsOne) {
  Member& a = Ask("a");
  ASSERT_EQ(asked_.size(), 1u);  // at once
  Member &b = Ask("b"), &cd = Ask("cd");
  EXPECT_EQ(asked_.size(), 1u);
  End("a");
  EXPECT_EQ(a.text(), "aa z");
  EXPECT_EQ(a.batch(), 1);
  ASSERT_EQ(asked_.size(), 1u);
  End("bcd");
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(cd.text(), "ccdd z");
  EXPECT_EQ(b.result->results[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(cd.result->results[0].shape, (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(b.batch(), 2);
  EXPECT_EQ(cd.batch(), 0);
  // Nobody is left, so the next runs at once.
  Member& e = Ask("e");
  End("e");
  EXPECT_EQ(e.text(), "ee z");
}

TEST_F(BatcherTest, NoMoreRowsThanTheProgramTakes) {
  Ask("a");
  Member &b = Ask("bcd"), &e = Ask("ef"), &g = Ask("g");
  End("a");
  End("bcd");  // with "ef" there would be five
  End("efg");
  EXPECT_EQ(b.text(), "bbccdd z");
  EXPECT_EQ(e.text(), "eeff z");
  EXPECT_EQ(g.text(), "gg z");
}

TEST_F(BatcherTest, OfOtherSizesOrPayersAreRunsOfTheirOwn) {
  Account one("one"), other("other");
  Control mine, theirs;
  mine.account = &one;
  theirs.account = &other;
  Member &a = Ask("a", mine), &b = Ask("b", theirs), &cd = Ask("cd", mine, 2);
  EXPECT_EQ(asked_.size(), 3u);
  for (const char* rows : {"a", "b", "cd"}) End(rows);
  EXPECT_EQ(a.text(), "aa z");
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(cd.text(), "cdcd z");
}

TEST_F(BatcherTest, WhoHasGoneIsAnsweredWhileAnotherRuns) {
  std::atomic<bool> cancelled{false};
  Control control, late;
  control.cancelled = &cancelled;
  late.deadline = SteadyNow();
  Ask("a");
  Member &b = Ask("b", control), &c = Ask("c"), &d = Ask("d", late);
  cancelled = true;
  b.told.WaitForNotification();
  d.told.WaitForNotification();
  EXPECT_EQ(b.result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(d.result.status().code(), absl::StatusCode::kDeadlineExceeded);
  End("a");
  End("c");
  EXPECT_EQ(c.text(), "cc z");
}

TEST_F(BatcherTest, ARunOfThoseThatHaveGoneIsStopped) {
  std::atomic<bool> first{false}, second{false};
  Control one, other;
  one.cancelled = &first;
  other.cancelled = &second;
  Ask("a");
  Member &b = Ask("b", one), &c = Ask("c", other);
  End("a");
  ASSERT_NE(cancelled_, nullptr);
  first = true;
  EXPECT_FALSE(*cancelled_);  // one is there still
  second = true;
  while (!*cancelled_) std::this_thread::yield();
  First().done(MakeError(v1::CALL_CANCELLED, "stopped"));
  EXPECT_EQ(b.result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(c.result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(BatcherTest, GoesOnForWhoHasTheMostTime) {
  Control soon, late;
  soon.deadline = SteadyNow() + absl::Hours(1);
  late.deadline = SteadyNow() + absl::Hours(2);
  Ask("a");
  Ask("b", soon);
  Ask("c", late);
  End("a");
  ASSERT_EQ(deadlines_.size(), 2u);
  EXPECT_EQ(deadlines_[1], late.deadline);
  End("bc");
}

TEST_F(BatcherTest, AFailureIsNotTheOthers) {
  Ask("a");
  Member &b = Ask("b"), &c = Ask("c");
  End("a");
  Member& d = Ask("d");
  ASSERT_EQ(XOf(asked_[0]).data, "bc");
  First().done(MakeError(v1::OUT_OF_MEMORY, "no room"));
  End("b");
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(b.batch(), 1);
  ASSERT_EQ(XOf(asked_[0]).data, "c");
  First().done(MakeError(v1::OUT_OF_MEMORY, "no room"));
  EXPECT_EQ(c.text(), "no room");
  End("d");
  EXPECT_EQ(d.text(), "dd z");
}

TEST_F(BatcherTest, RunsThatEndAtOnceAreNoRecursion) {
  Ask("a");
  at_once_ = true;
  for (int i = 0; i < 1000; ++i) Ask("bcde");  // four rows: each by itself
  End("a");
  for (const auto& member : members_) {
    member->told.WaitForNotification();
    ASSERT_TRUE(member->result.ok());
  }
}

TEST_F(BatcherTest, WhatIsLargeWaitsForNobody) {
  Ask("a");
  EXPECT_FALSE(Ask(std::string(300 << 10, 'c'), {}, 100 << 10).taken);
  End("a");
}

TEST_F(BatcherTest, WhatIsSlowWaitsForNobody) {
  micros_ = 15e3;
  EXPECT_TRUE(Ask("a").taken);
  End("a");
  EXPECT_TRUE(Ask("a").taken);
  EXPECT_FALSE(Ask("bc").taken);  // of two rows, 30 ms are expected
  Member &d = Ask("d"), &e = Ask("e");
  End("a");
  End("d");  // with "e" it would be as slow
  End("e");
  EXPECT_EQ(d.batch(), 1);
  EXPECT_EQ(e.batch(), 1);
}

TEST_F(BatcherTest, WhatCannotBeJoinedIsRunAlone) {
  EXPECT_FALSE(Ask("").taken);  // no rows
  inline_ = false;
  EXPECT_FALSE(Ask("a").taken);  // results that stay
  inline_ = true;
  EXPECT_FALSE(Ask("abcde").taken);       // more than the variable may be,
  EXPECT_FALSE(Ask("abc", {}, 2).taken);  // a tensor of the wrong size: both are told so when they are run
  program_->rows.reset();
  EXPECT_FALSE(Ask("a").taken);
}

TEST_F(BatcherTest, MemoryThatIsNotTheSameKeepsThemApart) {
  BufferTable::Record others = std::make_shared<BufferRecord>();
  Ask("a");
  std::swap(weights_, others);
  Ask("b");
  EXPECT_EQ(asked_.size(), 2u);
  std::swap(asked_[0], asked_[1]);
  End("b");
  weights_ = others;
  End("a");
}

TEST_F(BatcherTest, MemoryThatMayChangeIsReadAtOnce) {
  auto record = std::make_shared<BufferRecord>();
  record->poison = std::make_shared<Poison>();
  const auto handle = buffers_.Add(record);
  ASSERT_TRUE(handle.ok()) << handle.status();
  handle_ = *handle;
  EXPECT_FALSE(Ask("a").taken);
  may_wait_ = true;
  EXPECT_TRUE(Ask("a").taken);
  Member &b = Ask("b"), &c = Ask("c");
  ASSERT_TRUE(buffers_.Free({&*handle, 1}, nullptr).ok());
  EXPECT_FALSE(Ask("d").taken);  // it is told so when it is run
  weights_ = record;
  First().done(MakeError(v1::OUT_OF_MEMORY, "no room"));
  End("bc");  // of the memory that they named
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(c.text(), "cc z");
}

TEST_F(BatcherTest, ARunThatDoesNotComeOnHoldsUpNobody) {
  Batcher batcher(
      [this](ExecuteRequest request, const Control& control, ExecuteCallback done) {
        Run(request, control, std::move(done));
      },
      &buffers_, &metrics_, absl::ZeroDuration());
  Member& a = Ask("a", {}, 1, &batcher);
  Ask("b", {}, 1, &batcher);
  const auto runs = [this] {
    absl::MutexLock lock(&mutex_);
    return asked_.size();
  };
  while (runs() < 2) std::this_thread::yield();
  std::swap(asked_[0], asked_[1]);
  End("b");
  EXPECT_FALSE(a.told.HasBeenNotified());
  End("a");
  EXPECT_EQ(a.text(), "aa z");
}

TEST_F(BatcherTest, RunsOfSeveralAreCounted) {
  Ask("a");
  Ask("b");
  Ask("c");
  End("a");
  End("bc");
  EXPECT_EQ(metrics_.batched_runs.Sum(0), 1u);
  EXPECT_EQ(metrics_.batched_requests.Sum(0), 2u);
}

TEST_F(BatcherTest, WhoPaysForAnAnswerThatIsTooMuchIsRefusedAlone) {
  Account payer;
  Control control;
  control.account = &payer;
  QuotaLimits limits = {};
  Ask("a", control);
  Member &b = Ask("b", control), &c = Ask("c", control);
  End("a");
  Asked run = First();
  ExecuteResult result;
  result.results.resize(2);
  result.results[0].data = "bbcc";
  result.results[0].shape = {4, 1};
  result.results[1].index = 1;
  result.charge = *Hold(&payer, Quota::kHostBytes, 80);
  limits[static_cast<size_t>(Quota::kHostBytes)] = 10;  // each takes twice its three bytes
  payer.SetLimits(limits);
  run.done(std::move(result));
  EXPECT_TRUE(b.result.ok());
  EXPECT_EQ(c.result.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace kiln::server
