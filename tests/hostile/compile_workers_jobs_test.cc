// What workers do beside compiling, and what all of them have of memory together.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "tests/hostile/compile_workers_fixture.h"

namespace kiln::server {
namespace {

TEST_F(CompileWorkersTest, AGradientIsAJobToo) {
  Start();
  v1::GradientRequest request;
  const auto gradient = [&](const std::string& tag, absl::Duration patience = absl::InfiniteDuration()) {
    *request.mutable_graph() = GraphOf(tag);
    compiler::Limits limits;
    limits.max_nodes = 17;
    CompileFor whom{DomainNumber(0), {}};
    whom.control.deadline = absl::Now() + patience;
    return workers_->Gradient(request, limits, whom);
  };
  const auto good = gradient("good");
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->graph().nodes(0).tag(), absl::StrCat(*Compile("good"), " nodes 17"));
  for (const std::string tag : {"abort", "memory", "garbage", "zeros"})
    EXPECT_EQ(CodeOf(gradient(tag).status()), v1::COMPILER_FAULT) << tag;
  EXPECT_EQ(CodeOf(gradient("open").status()), v1::BAD_ARGUMENT);
  EXPECT_EQ(CodeOf(gradient("hang", absl::Milliseconds(50)).status()), v1::DEADLINE_PASSED);
  EXPECT_EQ(workers_->stats().crashed, 4u);
  EXPECT_EQ(workers_->stats().killed, 1u);
}

TEST_F(CompileWorkersTest, AStepOfASearchIsAJobToo) {
  Start();
  const auto choose = [&](const std::string& tag, absl::Duration patience = absl::InfiniteDuration()) {
    CompileFor whom{DomainNumber(0), {}};
    whom.control.deadline = absl::Now() + patience;
    return workers_->Choose(GraphOf(tag), {}, {}, "FUSE(0)", 2, whom);
  };
  const auto good = choose("good");
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_TRUE(good->may_thread);
  EXPECT_EQ(good->next, std::vector<std::string>{"FUSE(0); SWAP(0, 1)"});
  for (const std::string tag : {"abort", "memory", "garbage", "zeros", "talk"})
    EXPECT_EQ(CodeOf(choose(tag).status()), v1::COMPILER_FAULT) << tag;
  EXPECT_EQ(CodeOf(choose("open").status()), v1::BAD_ARGUMENT);
  EXPECT_EQ(CodeOf(choose("hang", absl::Milliseconds(50)).status()), v1::DEADLINE_PASSED);
  EXPECT_EQ(workers_->stats().crashed, 5u);
  EXPECT_EQ(workers_->stats().killed, 1u);
}

// Each takes less than it may, together they take more: the larger of the tenant that has most ends.
TEST_F(CompileWorkersTest, WhatAllHaveOfMemoryIsBounded) {
  CompileWorkersOptions options;
  options.all_memory_bytes = uint64_t{300} << 20;
  Start(options);
  const absl::Time late = absl::Now() + absl::Seconds(60);
  std::atomic<bool> enough{false};
  std::atomic<bool>* const stop = &enough;
  const auto small = [&](int domain) {
    CompileFor whom{DomainNumber(domain), {}};
    whom.control.deadline = late;
    whom.control.cancelled = stop;
    return CodeOf(workers_->Compile(GraphOf("fill", 100), {}, {}, nullptr, whom).status());
  };
  v1::ErrorCode first = v1::ERROR_CODE_UNSPECIFIED;
  std::thread one([&] { first = small(1); });
  // Jobs that end before anybody looks.
  std::thread quick([&] {
    while (!enough) EXPECT_TRUE(Compile("good", 3).ok());
  });
  const absl::Status largest = Compile("fill", 2, late, 250).status();
  EXPECT_EQ(CodeOf(largest), v1::OUT_OF_MEMORY) << largest;
  const v1::ErrorDetail detail = DetailOf(largest).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.limit(), "bytes of all compilations");
  EXPECT_EQ(detail.limit_value(), uint64_t{300} << 20);
  EXPECT_GT(detail.used(), uint64_t{150} << 20) << "its own";
  EXPECT_GT(detail.retry_after_ms(), 0u);
  EXPECT_TRUE(Compile("good", 2).ok()) << "nobody else notices";
  enough = true;
  one.join();
  quick.join();
  EXPECT_EQ(first, v1::CALL_CANCELLED);
  // It is no fault of the graph's: tried again, it is not refused.
  EXPECT_EQ(CodeOf(Compile("fill", 2, late, 350).status()), v1::OUT_OF_MEMORY);
  EXPECT_EQ(CodeOf(Compile("fill", 2, late, 350).status()), v1::OUT_OF_MEMORY);
  EXPECT_EQ(CodeOf(Compile("fill", 2, late, 350).status()), v1::OUT_OF_MEMORY);
  EXPECT_EQ(workers_->stats().crashed, 0u);
}

}  // namespace
}  // namespace kiln::server
