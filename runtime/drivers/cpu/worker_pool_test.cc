#include "runtime/drivers/cpu/worker_pool.h"

#include <sched.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/drivers/cpu/machine.h"
#include "runtime/hal/core_time.h"

namespace kiln::runtime::cpu {
namespace {

// How often each iteration ran.
std::vector<int> Count(WorkerPool& pool, int64_t iterations, int64_t grain) {
  auto counts = std::make_unique<std::atomic<int>[]>(iterations);
  for (int64_t i = 0; i < iterations; ++i) counts[i] = 0;
  pool.ParallelFor(iterations, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++counts[i];
  });
  return std::vector<int>(counts.get(), counts.get() + iterations);
}

class WorkerPoolTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  WorkerPool pool_{{.threads = GetParam(), .spins = 100}};
};

TEST_P(WorkerPoolTest, EveryIterationRunsOnce) {
  EXPECT_EQ(pool_.threads(), GetParam());
  for (const int64_t iterations : {0, 1, 2, 3, 7, 64, 1000, 4097}) {
    for (const int64_t grain : {0, 1, 3, 64, 5000}) {
      EXPECT_EQ(Count(pool_, iterations, grain), std::vector<int>(iterations, 1)) << iterations << " by " << grain;
    }
  }
}

TEST_P(WorkerPoolTest, ManyLoopsInARowSeeOnlyTheirOwn) {
  // Each loop's sum depends on the loop, so an iteration that ran under the
  // wrong loop, or after its loop ended, shows.
  for (int64_t loop = 0; loop < 5000; ++loop) {
    std::atomic<int64_t> sum{0};
    const int64_t iterations = 2 + loop % 37;
    pool_.ParallelFor(iterations, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum += i * (loop + 1);
    });
    ASSERT_EQ(sum.load(), iterations * (iterations - 1) / 2 * (loop + 1)) << loop;
  }
}

// The submitter has lost its core in the middle of a chunk: a helper that sees that it is time does not go on.
TEST_P(WorkerPoolTest, HelpersLeaveALoopThatIsToBeLeft) {
  if (pool_.threads() == 1) return;  // nobody helps
  constexpr int64_t kIterations = 4096;
  const auto submitter = std::this_thread::get_id();
  std::atomic<bool> helped{false};  // one has asked, or there is nothing left to do
  const int64_t rest = pool_.ParallelForUntil(
      {0, kIterations, 1},
      [&](int64_t, int64_t end) {
        if (std::this_thread::get_id() == submitter) return helped.wait(false);
        if (end < kIterations) return;
        helped = true;
        helped.notify_all();
      },
      [&] {
        helped = true;
        helped.notify_all();
        return true;
      });
  EXPECT_LT(rest, kIterations / 2);
}

// For which the submitter has waited, having nothing left to do.
TEST_P(WorkerPoolTest, WhatAHelperHadLongerIsTold) {
  constexpr int64_t kMoreNs = 5'000'000;
  const auto submitter = std::this_thread::get_id();
  bool until = false;
  const auto helped = [&](bool helpers_work) {
    std::atomic<bool> helping{pool_.threads() == 1};
    int64_t more_ns = -1;
    const auto body = [&](int64_t, int64_t) {
      if (std::this_thread::get_id() == submitter) return helping.wait(false);
      const bool first = !helping.exchange(true);
      helping.notify_all();
      if (!first || !helpers_work) return;
      for (const int64_t begin = hal::CoreTime::ThreadNs(); hal::CoreTime::ThreadNs() - begin < 2 * kMoreNs;) {
      }
    };
    if (until) {
      pool_.ParallelForUntil({0, 64, 1}, body, [] { return false; }, &more_ns);
    } else {
      pool_.ParallelFor(64, 1, body, &more_ns);
    }
    return more_ns;
  };
  for (const bool how : {false, true}) {
    until = how;
    if (pool_.threads() == 1) {
      EXPECT_EQ(helped(true), 0) << "nobody helps";
    } else {
      EXPECT_GE(helped(true), kMoreNs);
      EXPECT_GE(helped(false), 0);
      EXPECT_LT(helped(false), kMoreNs);
    }
  }
}

TEST_P(WorkerPoolTest, ALoopThatIsLeftGoesOnWhereItWas) {
  for (const int64_t chunk : {1, 3, 64, 5000}) {
    constexpr int64_t kIterations = 4097;
    auto counts = std::make_unique<std::atomic<int>[]>(kIterations);
    for (int64_t i = 0; i < kIterations; ++i) counts[i] = 0;
    int64_t begin = 5, parts = 0;
    while (begin < kIterations) {
      const int64_t from = begin;
      std::atomic<int> asked{0};
      begin = pool_.ParallelForUntil(
          {from, kIterations, chunk},
          [&](int64_t b, int64_t e) {
            EXPECT_LE(e - b, chunk);
            for (int64_t i = b; i < e; ++i) ++counts[i];
          },
          [&] { return ++asked >= 3; });
      EXPECT_LE(asked, 3 + static_cast<int>(pool_.threads()) - 1) << "what they had as it was left";
      EXPECT_GT(begin, from);
      // All before it has been done, and nothing after it.
      for (int64_t i = 5; i < kIterations; ++i) ASSERT_EQ(counts[i], i < begin ? 1 : 0) << i << " of " << begin;
      ++parts;
    }
    if (chunk == 5000) {
      EXPECT_EQ(parts, 1);
    }
    EXPECT_EQ(counts[4], 0);
  }
}

TEST_P(WorkerPoolTest, ChunksKeepTheGrain) {
  std::atomic<int> small{0};
  pool_.ParallelFor(1000, 64, [&](int64_t begin, int64_t end) {
    if (end - begin < 64 && end != 1000) ++small;
  });
  EXPECT_EQ(small, 0);
}

TEST_P(WorkerPoolTest, ALoopInsideALoopRunsOnItsOwnThread) {
  std::atomic<int64_t> sum{0};
  pool_.ParallelFor(16, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::thread::id outer = std::this_thread::get_id();
      pool_.ParallelFor(8, 1, [&](int64_t b, int64_t e) {
        // A pool without workers runs it here too.
        EXPECT_EQ(std::this_thread::get_id(), outer);
        sum += e - b;
      });
    }
  });
  EXPECT_EQ(sum, 16 * 8);
}

TEST_P(WorkerPoolTest, SeveralThreadsMaySubmit) {
  std::atomic<int64_t> total{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int loop = 0; loop < 500; ++loop) {
        std::atomic<int64_t> sum{0};
        pool_.ParallelFor(20, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
        ASSERT_EQ(sum, 20);
        total += sum;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, 4 * 500 * 20);
}

INSTANTIATE_TEST_SUITE_P(Threads, WorkerPoolTest, ::testing::Values(1, 2, 4, 9));

TEST(WorkerPool, SmallLoopIsOneCallOnThisThread) {
  WorkerPool pool({.threads = 4});
  int calls = 0;  // not atomic: this thread alone touches it
  pool.ParallelFor(10, 10, [&](int64_t begin, int64_t end) {
    ++calls;
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 10);
  });
  EXPECT_EQ(calls, 1);
}

TEST(WorkerPool, WorkersTakePart) {
  WorkerPool pool({.threads = 2});
  // Two iterations that can only end together: were both on one thread, it
  // would wait for itself.
  std::atomic<int> arrived{0};
  pool.ParallelFor(2, 1, [&](int64_t begin, int64_t end) {
    ASSERT_EQ(end - begin, 1);
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

// Wherever the submitter goes: systems wake a thread on the core of the one that wakes it.
TEST(WorkerPool, WorkersAreKeptOffTheSubmittersCore) {
  const std::vector<uint32_t> cores = UsableCores();
  if (cores.size() < 2) GTEST_SKIP() << "there is one core";
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  WorkerPool pool({.threads = 2});
  for (int iteration = 0; iteration < 4; ++iteration) {
    const uint32_t core = cores[iteration % 2];
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    const std::thread::id self = std::this_thread::get_id();
    std::atomic<int> arrived{0};
    int of_worker = -1;
    pool.ParallelFor(2, 1, [&](int64_t begin, int64_t end) {
      if (std::this_thread::get_id() != self) of_worker = sched_getcpu();
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_NE(of_worker, static_cast<int>(core));
    EXPECT_GE(of_worker, 0);
  }
  sched_setaffinity(0, sizeof(all), &all);
}

// Two iterations that can only end together, as above, on each of two threads.
TEST(WorkerPool, TwoLoopsAtOnceShareTheWorkers) {
  WorkerPool pool({.threads = 4, .loops = 2});
  std::atomic<int> ended{0};
  const auto submit = [&] {
    for (int loop = 0; loop < 50; ++loop) {
      std::atomic<int> arrived{0};
      pool.ParallelFor(2, 1, [&](int64_t begin, int64_t end) {
        ASSERT_EQ(end - begin, 1);
        ++arrived;
        while (arrived < 2) std::this_thread::yield();
      });
      ended += arrived;
    }
  };
  std::thread other(submit);
  submit();
  other.join();
  EXPECT_EQ(ended, 200);
}

TEST(WorkerPool, AWorkerLeavesALoopWhenAnotherNeedsItsCore) {
  WorkerPool pool({.threads = 2, .loops = 2});
  std::atomic<bool> other_runs{false};
  std::atomic<bool> ended{false};
  std::thread other([&] {
    while (!other_runs) std::this_thread::yield();
    pool.ParallelFor(2, 1, [&](int64_t begin, int64_t end) {
      other_runs = false;
      while (!ended) std::this_thread::yield();
    });
  });
  const std::thread::id self = std::this_thread::get_id();
  int by_worker = 0;  // of one worker, hence not atomic
  pool.ParallelFor(320, 1, [&](int64_t begin, int64_t end) {
    if (std::this_thread::get_id() != self) {
      // The first chunk of the worker's, if it comes at all, lets the other loop
      // begin and sees that it has.
      if (by_worker++ == 0) other_runs = true;
      while (other_runs) std::this_thread::yield();
    } else {
      std::this_thread::yield();
    }
  });
  ended = true;
  if (by_worker == 0) other_runs = true;  // else it would wait for ever
  other.join();
  EXPECT_LE(by_worker, 1);
}

TEST(WorkerPool, ManyLoopsFromManyThreads) {
  WorkerPool pool({.threads = 3, .spins = 50, .loops = 3});
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 5; ++t) {
    threads.emplace_back([&pool, t] {
      for (int64_t loop = 0; loop < 2000; ++loop) {
        std::atomic<int64_t> sum{0};
        const int64_t iterations = 2 + loop % 41;
        pool.ParallelFor(iterations, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i * (loop + t);
        });
        ASSERT_EQ(sum.load(), iterations * (iterations - 1) / 2 * (loop + t)) << t << " " << loop;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(WorkerPool, UnusedPoolEnds) {
  for (int i = 0; i < 50; ++i) WorkerPool pool({.threads = 3, .spins = 0});
}

// Each of two threads has about as many chunks as the other, whatever bound they are under.
TEST(WorkerPool, ChunksAreEven) {
  const WorkerPool pool({.threads = 2});
  EXPECT_EQ(pool.EvenChunk(1600, 1), 100);
  EXPECT_EQ(pool.EvenChunk(1600, 1, 1000), 100);
  EXPECT_EQ(pool.EvenChunk(1600, 1, 99), 800 / 9);
  EXPECT_EQ(pool.EvenChunk(1600, 1, 41), 40);
  EXPECT_EQ(pool.EvenChunk(1600, 1, 40), 40);
  EXPECT_EQ(pool.EvenChunk(1600, 1, 1), 1);
  EXPECT_EQ(pool.EvenChunk(1600, 50, 40), 50);
  EXPECT_EQ(pool.EvenChunk(1, 1, 1), 1);
}

}  // namespace
}  // namespace kiln::runtime::cpu
