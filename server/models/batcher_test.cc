// Requests that come while another runs, and what each gets. The engine here runs when it is told to.
#include "server/models/batcher.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "server/models/rows.h"

namespace kiln::server {
namespace {

constexpr uint32_t kX = 0, kRows = 1, kTokens = 2, kWeights = 3;

// x of int8 [n, t] gives y of [2 * n, t], which is each row twice, and z, which is the same for all.
std::shared_ptr<ServedModel> TheModel() {
  auto model = std::make_shared<ServedModel>();
  model->variables = {{kRows, "n", 1, 4, true}, {kTokens, "t", 1, 8, true}};
  model->inputs = {{"x", kX, DatatypeOf(v1::INT8), {{0, 0}, {0, 1}}, true}};
  model->outputs = {{"y", DatatypeOf(v1::INT8), {-1, -1}, true}, {"z", DatatypeOf(v1::INT8), {1}}};
  model->rows = 0;
  return model;
}

class BatcherTest : public ::testing::Test {
 protected:
  struct Asked {
    ExecuteRequest request;
    ExecuteCallback done;
  };
  struct Told {
    absl::StatusOr<ExecuteResult> result = absl::UnknownError("not yet");
    int batch = -1;
    // Of y, and of z.
    std::string text() const {
      return result.ok() ? absl::StrCat(result->results[0].data, " ", result->results[1].data)
                         : std::string(result.status().message());
    }
  };

  BatcherTest() {
    batcher_ = std::make_shared<Batcher>(
        model_.get(),
        [this](ExecuteRequest request, const Control& control, ExecuteCallback done) {
          deadlines_.push_back(control.deadline);
          if (at_once_) return Answer({std::move(request), std::move(done)});
          asked_.push_back({std::move(request), std::move(done)});
        },
        [this] { return expected_ns_; });
  }

  // Rows of one byte for each letter.
  Told& Ask(const std::string& rows, const Control& control = {}, int64_t tokens = 1) {
    Told& told = *told_.emplace_back(std::make_unique<Told>());
    shapes_.push_back(std::make_unique<std::vector<int64_t>>(
        std::vector<int64_t>{static_cast<int64_t>(rows.size()) / tokens, tokens}));
    bytes_.push_back(std::make_unique<std::string>(rows));
    ExecuteRequest request;
    request.arguments.push_back({kX, TensorView{v1::INT8, *shapes_.back(), *bytes_.back()}});
    request.arguments.push_back({kRows, shapes_.back()->at(0)});
    request.arguments.push_back({kTokens, tokens});
    request.arguments.push_back({kWeights, BufferTable::Record()});
    batcher_->Add(std::move(request), control, [&told](absl::StatusOr<ExecuteResult> result, int batch) {
      told.result = std::move(result);
      told.batch = batch;
    });
    return told;
  }

  static std::string XOf(const Asked& asked) {
    return std::string(std::get<TensorView>(asked.request.arguments[0].value).data);
  }

  static void Answer(Asked asked) {
    const auto& x = std::get<TensorView>(asked.request.arguments[0].value);
    EXPECT_EQ(std::get<int64_t>(asked.request.arguments[1].value), x.shape[0]);
    ExecuteResult result;
    result.results.resize(2);
    const size_t row = static_cast<size_t>(x.shape[1]);
    for (size_t i = 0; i < x.data.size(); i += row)
      absl::StrAppend(&result.results[0].data, x.data.substr(i, row), x.data.substr(i, row));
    result.results[0].shape = {2 * x.shape[0], x.shape[1]};
    result.results[1].data = "z";
    result.results[1].shape = {1};
    result.results[1].index = 1;
    asked.done(std::move(result));
  }

  // The run that was asked for first, of these rows.
  void End(const std::string& rows) {
    ASSERT_FALSE(asked_.empty());
    Asked first = std::move(asked_.front());
    asked_.erase(asked_.begin());
    EXPECT_EQ(XOf(first), rows);
    Answer(std::move(first));
  }

  const std::shared_ptr<ServedModel> model_ = TheModel();
  std::shared_ptr<Batcher> batcher_;
  std::vector<Asked> asked_;
  std::vector<absl::Time> deadlines_;
  std::vector<std::unique_ptr<Told>> told_;
  std::vector<std::unique_ptr<std::vector<int64_t>>> shapes_;
  std::vector<std::unique_ptr<std::string>> bytes_;
  bool at_once_ = false;
  uint64_t expected_ns_ = 1000;
};

TEST_F(BatcherTest, WhatComesWhileOneRunsIsRunAsOne) {
  Told& a = Ask("a");
  ASSERT_EQ(asked_.size(), 1u);  // at once
  Told &b = Ask("b"), &cd = Ask("cd");
  EXPECT_EQ(asked_.size(), 1u);
  End("a");
  EXPECT_EQ(a.text(), "aa z");
  EXPECT_EQ(a.batch, 1);
  ASSERT_EQ(asked_.size(), 1u);
  End("bcd");
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(cd.text(), "ccdd z");
  EXPECT_EQ(b.result->results[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(cd.result->results[0].shape, (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(b.batch, 2);
  EXPECT_EQ(cd.batch, 0);
  // Nobody is left, so the next runs at once.
  Told& e = Ask("e");
  End("e");
  EXPECT_EQ(e.text(), "ee z");
}

TEST_F(BatcherTest, NoMoreRowsThanTheModelTakes) {
  Ask("a");
  Told &b = Ask("bcd"), &e = Ask("ef"), &g = Ask("g");
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
  Told &a = Ask("a", mine), &b = Ask("b", theirs), &cd = Ask("cd", mine, 2);
  EXPECT_EQ(asked_.size(), 3u);
  for (const char* rows : {"a", "b", "cd"}) End(rows);
  EXPECT_EQ(a.text(), "aa z");
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(cd.text(), "cdcd z");
}

TEST_F(BatcherTest, WhoHasGoneIsNotRun) {
  std::atomic<bool> cancelled{false};
  Control control;
  control.cancelled = &cancelled;
  Ask("a");
  Told &b = Ask("b", control), &c = Ask("c");
  cancelled = true;
  End("a");
  EXPECT_EQ(b.result.status().code(), absl::StatusCode::kCancelled);
  End("c");
  EXPECT_EQ(c.text(), "cc z");
}

TEST_F(BatcherTest, GoesOnForWhoHasTheMostTime) {
  Control soon, late;
  soon.deadline = absl::Now() + absl::Hours(1);
  late.deadline = absl::Now() + absl::Hours(2);
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
  Told &b = Ask("b"), &c = Ask("c");
  End("a");
  Told& d = Ask("d");
  ASSERT_EQ(XOf(asked_[0]), "bc");
  ExecuteCallback failed = std::move(asked_[0].done);
  asked_.clear();
  failed(MakeError(v1::OUT_OF_MEMORY, "no room"));
  End("b");
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(b.batch, 1);
  ASSERT_EQ(XOf(asked_[0]), "c");
  failed = std::move(asked_[0].done);
  asked_.clear();
  failed(MakeError(v1::OUT_OF_MEMORY, "no room"));
  EXPECT_EQ(c.text(), "no room");
  End("d");
  EXPECT_EQ(d.text(), "dd z");
}

TEST_F(BatcherTest, RunsThatEndAtOnceAreNoRecursion) {
  Ask("a");
  at_once_ = true;
  for (int i = 0; i < 20000; ++i) Ask("bcde");  // four rows: each by itself
  End("a");
  for (const auto& told : told_) ASSERT_TRUE(told->result.ok());
}

TEST_F(BatcherTest, WhatIsLargeOrSlowOrHasNoRowsWaitsForNobody) {
  Ask("a");
  expected_ns_ = 1'000'000'000;
  Ask("b");
  expected_ns_ = 1000;
  Ask(std::string(300 << 10, 'c'), {}, 100 << 10);
  model_->rows.reset();
  Ask("d");
  EXPECT_EQ(asked_.size(), 4u);
  for (Asked& asked : asked_) Answer(std::move(asked));
  for (const auto& told : told_) EXPECT_EQ(told->batch, 1);
}

TEST_F(BatcherTest, WhoPaysForAnAnswerThatIsTooMuchIsRefusedAlone) {
  Account payer;
  Control control;
  control.account = &payer;
  QuotaLimits limits = {};
  Ask("a", control);
  Told &b = Ask("b", control), &c = Ask("c", control);
  End("a");
  Asked run = std::move(asked_[0]);
  asked_.clear();
  ExecuteResult result;
  result.results.resize(2);
  result.results[0].data = "bbcc";
  result.results[0].shape = {4, 1};
  result.results[1].index = 1;
  result.charge = *Hold(&payer, Quota::kHostBytes, 80);
  limits[static_cast<size_t>(Quota::kHostBytes)] = 120;  // 80 are held, and 40 more are no more
  payer.SetLimits(limits);
  run.done(std::move(result));
  EXPECT_TRUE(b.result.ok());
  EXPECT_EQ(c.result.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace kiln::server
