// A compiler that crashes, hangs, takes all memory, answers nonsense, or is no compiler any more.
//   --faults=N   how many faults at random beside good jobs (200)
#include "server/compile_worker/compile_workers.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/error.h"
#include "kiln/v1/compile_job.pb.h"
#include "server/compile_worker/fault_folder.h"
#include "tests/hostile/compile_workers_fixture.h"

namespace kiln::server {
namespace {

int faults = 200;

TEST_F(CompileWorkersTest, AFaultEndsItsOwnJobAlone) {
  Start();
  for (const std::string tag : {"abort", "exit", "segfault", "recursion", "memory", "garbage", "unsealed", "zeros",
                                "large", "socket", "execute", "trace"}) {
    const absl::Status status = Compile(tag).status();
    EXPECT_EQ(CodeOf(status), v1::COMPILER_FAULT) << tag << ": " << status;
    EXPECT_TRUE(Compile("good").ok()) << "after " << tag;
  }
  EXPECT_EQ(workers_->stats().crashed, 12u);
}

TEST_F(CompileWorkersTest, WhatAWorkerMayNotDoFails) {
  Start();
  for (const std::string tag : {"open", "create", "fork", "code", "protect", "kill", "limits", "owner"}) {
    const absl::Status status = Compile(tag).status();
    EXPECT_EQ(CodeOf(status), v1::BAD_ARGUMENT) << tag;
    EXPECT_EQ(status.message(), absl::StrCat("errno ", EPERM)) << tag;
  }
}

TEST_F(CompileWorkersTest, AWorkerKnowsNoSecretsOfTheEnvironment) {
  ASSERT_EQ(setenv("KILN_SECRET", "x", 1), 0);
  Start();
  EXPECT_EQ(Compile("environment").status().message(), "none");
}

// Of processes that this one started, as /proc/PID/stat has it; -1: none lives.
int NicenessOfChildren() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::string line;
    if (!std::getline(std::ifstream(entry.path() / "stat"), line)) continue;
    // After the name, which may have any characters: state, parent, ..., and niceness as the 17th.
    const std::vector<std::string> fields = absl::StrSplit(line.substr(line.rfind(')') + 2), ' ');
    int parent = 0, nice = 0;
    if (fields.size() < 17 || !absl::SimpleAtoi(fields[1], &parent) || !absl::SimpleAtoi(fields[16], &nice)) continue;
    if (parent == getpid()) return nice;
  }
  return -1;
}

TEST_F(CompileWorkersTest, TheServersThreadsGoFirst) {
  Start();
  ASSERT_TRUE(Compile("good").ok());
  EXPECT_GE(NicenessOfChildren(), 10);
}

TEST_F(CompileWorkersTest, ADeadlineIsAKill) {
  Start();
  for (int i = 0; i < 5; ++i) {
    const absl::Time begin = absl::Now();
    const absl::Status status = Compile("hang", 0, begin + absl::Milliseconds(100), i).status();
    EXPECT_EQ(CodeOf(status), v1::DEADLINE_PASSED) << status;
    EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  }
  EXPECT_EQ(workers_->stats().killed, 5u);
  EXPECT_TRUE(Compile("good").ok());
}

TEST_F(CompileWorkersTest, ACallerThatGoesIsAKill) {
  Start();
  std::atomic<bool> cancelled{false};
  CompileFor whom;
  whom.control.cancelled = &cancelled;
  std::thread caller([&] {
    const auto program = workers_->Compile(GraphOf("hang"), {}, {}, nullptr, whom);
    EXPECT_EQ(program.status().code(), absl::StatusCode::kCancelled);
  });
  while (workers_->stats().born == 0) std::this_thread::yield();
  cancelled = true;
  caller.join();
  EXPECT_EQ(workers_->stats().killed, 1u);
}

TEST_F(CompileWorkersTest, TooLongIsALimitWithItsName) {
  Start({.max_time = absl::Milliseconds(100)});
  const absl::Status status = Compile("hang").status();
  EXPECT_EQ(CodeOf(status), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(DetailOf(status)->limit(), "compile seconds");
}

TEST_F(CompileWorkersTest, WhatFailedTwiceIsNotTriedAgain) {
  Start();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(CodeOf(Compile("abort").status()), v1::COMPILER_FAULT);
  EXPECT_EQ(workers_->stats().crashed, 2u);
  const absl::Status status = Compile("abort").status();
  EXPECT_EQ(CodeOf(status), v1::COMPILER_FAULT);
  EXPECT_GT(DetailOf(status)->retry_after_ms(), 3'500'000u);
  EXPECT_EQ(workers_->stats().crashed, 2u);
  EXPECT_EQ(CodeOf(Compile("abort", 0, absl::InfiniteFuture(), 1).status()), v1::COMPILER_FAULT) << "another graph";
  EXPECT_EQ(workers_->stats().crashed, 3u);
  EXPECT_EQ(DetailOf(Compile("abort", 1).status())->retry_after_ms(), 0u) << "another tenant's is its own affair";
  EXPECT_EQ(workers_->stats().crashed, 4u);
}

TEST_F(CompileWorkersTest, AFaultNamesItsGraphAndItsFileIsKept) {
  const std::string path = absl::StrCat(testing::TempDir(), "/faults");
  std::filesystem::remove_all(path);
  const std::shared_ptr<FaultFolder> folder = *FaultFolder::Open(path);
  std::vector<std::string> heard;
  CompileWorkersOptions options;
  options.on_fault = [&](const v1::Graph& graph, absl::string_view name, absl::string_view what) {
    heard.push_back(absl::StrCat(what));
    EXPECT_EQ(*folder->Keep(name, graph), absl::StrCat(path, "/", name, ".pb"));
  };
  Start(options);
  const std::string name = FaultName(GraphOf("abort"));
  EXPECT_EQ(name.size(), 64u);
  // The third is not tried again, and says of which graph that is.
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Compile("abort").status();
    EXPECT_EQ(CodeOf(status), v1::COMPILER_FAULT);
    EXPECT_EQ(DetailOf(status)->field(), name);
    EXPECT_TRUE(absl::StrContains(status.message(), name)) << status;
  }
  EXPECT_EQ(heard, std::vector<std::string>(2, "ended before it was done"));
  EXPECT_TRUE(Compile("good").ok());
  v1::Graph kept;
  std::ifstream file(absl::StrCat(path, "/", name, ".pb"));
  ASSERT_TRUE(kept.ParseFromIstream(&file));
  EXPECT_EQ(kept.SerializeAsString(), GraphOf("abort").SerializeAsString());
}

TEST_F(CompileWorkersTest, AWorkerIsOfOneDomain) {
  Start({.idle = 2});
  const std::string first = *Compile("good", 0), second = *Compile("good", 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(*Compile("good", 0), first);
  EXPECT_EQ(*Compile("good", 1), second);
  const std::string third = *Compile("good", 2);  // in the place of the one that waits longest
  EXPECT_NE(third, first);
  EXPECT_NE(third, second);
  EXPECT_NE(*Compile("good", 0), first);
}

TEST_F(CompileWorkersTest, AWorkerIsReplacedAfterSoManyJobs) {
  Start({.jobs = 3});
  const std::string first = *Compile("good");
  EXPECT_EQ(*Compile("good"), first);
  EXPECT_EQ(*Compile("good"), first);
  EXPECT_NE(*Compile("good"), first);
  EXPECT_EQ(workers_->stats().born, 2u);
}

// Of "process N", which is what a good job gives.
pid_t ProcessOf(const std::string& answer) {
  int process = 0;
  EXPECT_TRUE(absl::SimpleAtoi(absl::StripPrefix(answer, "process "), &process)) << answer;
  return process;
}

pid_t ParentOf(pid_t process) {
  std::ifstream status(absl::StrCat("/proc/", process, "/status"));
  for (std::string word; status >> word;) {
    if (pid_t parent = 0; word == "PPid:" && status >> parent) return parent;
  }
  return 0;
}

TEST_F(CompileWorkersTest, AWorkerWithNothingToDoEndsAndTheZygoteStays) {
  Start({.max_idle = absl::Hours(1)});
  const std::string first = *Compile("good", 0), second = *Compile("good", 1);
  const pid_t zygote = ParentOf(ProcessOf(first));
  EXPECT_NE(zygote, 0);
  workers_->EndIdle(absl::Now() + absl::Minutes(59));
  EXPECT_EQ(*Compile("good", 0), first);
  EXPECT_EQ(*Compile("good", 1), second);
  workers_->EndIdle(absl::Now() + absl::Hours(1));
  const std::string third = *Compile("good", 0);
  EXPECT_NE(third, first);
  EXPECT_EQ(ParentOf(ProcessOf(third)), zygote);
  EXPECT_NE(*Compile("good", 1), second);
  EXPECT_EQ(workers_->stats().born, 4u);
  EXPECT_EQ(workers_->stats().killed, 0u) << "that is for what was stopped";
}

// Until it is gone, if it is not yet.
void AwaitEnd(pid_t process) {
  const int watched = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (watched < 0) return;
  pollfd ended = {watched, POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 60'000), 1);
  close(watched);
}

TEST_F(CompileWorkersTest, WhoWaitsForASlowZygoteMayGo) {
  Start();
  const pid_t zygote = ParentOf(ProcessOf(*Compile("good")));
  ASSERT_EQ(kill(zygote, SIGSTOP), 0);
  // One waits for the zygote, the other for the one.
  std::vector<std::thread> callers;
  for (int domain = 1; domain <= 2; ++domain) {
    callers.emplace_back([this, domain] {
      const absl::Time begin = SteadyNow();
      EXPECT_EQ(CodeOf(Compile("good", domain, begin + absl::Milliseconds(50)).status()), v1::DEADLINE_PASSED);
      EXPECT_LT(SteadyNow() - begin, absl::Seconds(10));
    });
  }
  for (std::thread& caller : callers) caller.join();
  ASSERT_EQ(kill(zygote, SIGCONT), 0);
  const auto next = Compile("good", 3);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(ParentOf(ProcessOf(*next)), zygote) << "it was slow, not broken";
  EXPECT_EQ(workers_->stats().born, 2u) << "a worker whose caller has gone is nobody's";
}

TEST_F(CompileWorkersTest, AZygoteThatIsKilledIsNobodysFault) {
  Start({.idle = 2});
  // Two workers of one domain: the second is born while the first is busy.
  const pid_t first = ProcessOf(*Compile("good")), zygote = ParentOf(first);
  ASSERT_EQ(kill(first, SIGSTOP), 0);
  std::thread caller([this] { EXPECT_TRUE(Compile("good").ok()); });
  while (workers_->stats().jobs < 2) std::this_thread::yield();
  const pid_t second = ProcessOf(*Compile("good"));
  ASSERT_NE(first, second);
  ASSERT_EQ(kill(first, SIGCONT), 0);
  caller.join();
  ASSERT_EQ(kill(zygote, SIGKILL), 0);
  AwaitEnd(first);
  AwaitEnd(second);
  const auto next = Compile("good");
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_NE(ParentOf(ProcessOf(*next)), zygote);
  EXPECT_EQ(workers_->stats().crashed, 0u);
}

TEST_F(CompileWorkersTest, TheTimerEndsThem) {
  Start({.max_idle = absl::Nanoseconds(1)});
  AwaitEnd(ProcessOf(*Compile("good")));
  EXPECT_TRUE(Compile("good").ok());
}

TEST_F(CompileWorkersTest, NothingIsLeft) {
  const size_t before = Descriptors();
  Start();
  for (int i = 0; i < 20; ++i) (void)Compile(i % 2 == 0 ? "good" : "abort", i % 3, absl::InfiniteFuture(), i).status();
  workers_.reset();
  EXPECT_EQ(Descriptors(), before);
}

TEST_F(CompileWorkersTest, ManyFaultsHarmNoNeighbour) {
  Start({.idle = 4});
  std::atomic<int> left{faults}, good{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> callers;
  for (int t = 0; t < 2; ++t) {
    callers.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      const std::vector<std::string> tags = {"abort",  "exit",    "segfault", "hang",
                                             "memory", "garbage", "unsealed", "zeros"};
      for (int i = left--; i > 0; i = left--) {
        const std::string& tag = tags[random() % tags.size()];
        const auto outcome = Compile(tag, 1 + t, absl::Now() + absl::Milliseconds(tag == "hang" ? 20 : 60'000), i);
        EXPECT_FALSE(outcome.ok()) << tag;
      }
    });
  }
  std::thread neighbour([&] {
    while (!done) {
      const auto outcome = Compile("good", 0);
      EXPECT_TRUE(outcome.ok()) << outcome.status();
      ++good;
    }
  });
  for (std::thread& caller : callers) caller.join();
  done = true;
  neighbour.join();
  EXPECT_GT(good, 0);
  EXPECT_EQ(workers_->stats().crashed + workers_->stats().killed, static_cast<uint64_t>(faults));
}

TEST(CompileWorkersStart, AProgramThatIsNoWorkerIsAnError) {
  for (const std::string path : {"/bin/true", "/bin/cat", "/nonexistent"}) {
    CompileWorkersOptions options;
    options.binary = path;
    EXPECT_EQ(CompileWorkers::Start(options, v1::CompileJob()).status().code(), absl::StatusCode::kInternal) << path;
  }
}

}  // namespace
}  // namespace kiln::server

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (absl::ConsumePrefix(&flag, "--faults=") && absl::SimpleAtoi(flag, &kiln::server::faults)) continue;
    if (absl::ConsumePrefix(&flag, "--compiler=")) {
      *kiln::server::faulty_compiler = std::string(flag);
      continue;
    }
    std::fprintf(stderr, "compile_workers_test takes --faults=N and --compiler=PATH, not %s\n", argv[i]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
