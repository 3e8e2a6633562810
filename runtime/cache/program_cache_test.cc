#include "runtime/cache/program_cache.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "gtest/gtest.h"

namespace kiln::runtime {
namespace {

using Cache = ProgramCache<std::string>;

Digest Key(int n) {
  Digest key;
  key.bytes[0] = static_cast<uint8_t>(n);
  key.bytes[31] = static_cast<uint8_t>(n >> 8);
  return key;
}

Cache::Entry Of(const std::string& text, uint64_t bytes = 10) { return {std::make_shared<std::string>(text), bytes}; }

TEST(ProgramCache, ComputesOnceAndHits) {
  Cache cache(1000);
  CacheOutcome how;
  EXPECT_EQ(cache.Find(Key(1)), nullptr);
  auto first = cache.GetOrCompute(Key(1), [] { return Of("one"); }, &how);
  EXPECT_EQ(**first, "one");
  EXPECT_EQ(how, CacheOutcome::kComputed);
  auto second = cache.GetOrCompute(
      Key(1),
      []() -> absl::StatusOr<Cache::Entry> {
        ADD_FAILURE();
        return Of("");
      },
      &how);
  EXPECT_EQ(*second, *first);
  EXPECT_EQ(how, CacheOutcome::kHit);
  EXPECT_EQ(cache.Find(Key(1)), *first);
  const CacheStats stats = cache.stats();
  EXPECT_EQ(stats.hits, 2);
  EXPECT_EQ(stats.misses, 2);
  EXPECT_EQ(stats.computations, 1);
  EXPECT_EQ(stats.entries, 1);
  EXPECT_EQ(stats.bytes, 10);
}

TEST(ProgramCache, SixtyFourFirstCallersComputeOnce) {
  Cache cache(1000);
  constexpr int kThreads = 64;
  std::atomic<int> computations{0}, computed{0}, joined{0};
  absl::Notification all_asked;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      CacheOutcome how;
      auto value = cache.GetOrCompute(
          Key(7),
          [&] {
            ++computations;
            all_asked.WaitForNotification();  // until every other one waits for this
            return Of("seven");
          },
          &how);
      EXPECT_EQ(**value, "seven");
      (how == CacheOutcome::kComputed ? computed : joined)++;
    });
  }
  while (cache.stats().misses < kThreads) std::this_thread::yield();
  all_asked.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(computations, 1);
  EXPECT_EQ(computed, 1);
  EXPECT_EQ(joined, kThreads - 1);
  EXPECT_EQ(cache.stats().computations, 1);
}

TEST(ProgramCache, AsyncCallersNeverWait) {
  Cache cache(1000);
  std::optional<Cache::Finish> finish;
  std::vector<std::string> seen;
  int starts = 0;
  for (int i = 0; i < 3; ++i) {
    cache.GetOrStart(
        Key(1),
        [&](Cache::Finish f) {
          ++starts;
          finish = std::move(f);
        },
        [&seen, i](Cache::Result result, CacheOutcome how) {
          seen.push_back(**result + std::to_string(i) + (how == CacheOutcome::kComputed ? "c" : "j"));
        });
  }
  EXPECT_EQ(starts, 1);
  EXPECT_TRUE(seen.empty());
  (*finish)(Of("v"));
  EXPECT_EQ(seen, std::vector<std::string>({"v0c", "v1j", "v2j"}));
  cache.GetOrStart(
      Key(1), [&](Cache::Finish f) { ADD_FAILURE(); },
      [&](Cache::Result result, CacheOutcome how) { EXPECT_EQ(how, CacheOutcome::kHit); });
}

TEST(ProgramCache, FailureGoesToAllAndIsForgotten) {
  Cache cache(1000);
  std::optional<Cache::Finish> finish;
  int failures = 0;
  for (int i = 0; i < 2; ++i) {
    cache.GetOrStart(
        Key(1), [&](Cache::Finish f) { finish = std::move(f); },
        [&](Cache::Result result, CacheOutcome) { failures += result.status() == absl::AbortedError("no"); });
  }
  (*finish)(absl::AbortedError("no"));
  EXPECT_EQ(failures, 2);
  EXPECT_EQ(cache.stats().failures, 1);
  EXPECT_EQ(cache.stats().entries, 0);
  EXPECT_EQ(**cache.GetOrCompute(Key(1), [] { return Of("now"); }), "now");
}

TEST(ProgramCache, ComputationGivenUpFailsTheWaiters) {
  Cache cache(1000);
  absl::Status seen;
  cache.GetOrStart(
      Key(1), [](Cache::Finish dropped) {}, [&](Cache::Result result, CacheOutcome) { seen = result.status(); });
  EXPECT_EQ(DetailOf(seen)->code(), v1::INTERNAL_FAULT);
}

TEST(ProgramCache, DropsTheLeastRecentlyUsed) {
  Cache cache(100);
  // Keys in many shards: the order of use is over all of them.
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(cache.GetOrCompute(Key(i), [] { return Of("v"); }).ok());
  EXPECT_NE(cache.Find(Key(0)), nullptr);
  ASSERT_TRUE(cache.GetOrCompute(Key(10), [] { return Of("v", 15); }).ok());
  EXPECT_EQ(cache.Find(Key(1)), nullptr);
  EXPECT_EQ(cache.Find(Key(2)), nullptr);
  EXPECT_NE(cache.Find(Key(0)), nullptr);
  EXPECT_NE(cache.Find(Key(3)), nullptr);
  EXPECT_NE(cache.Find(Key(10)), nullptr);
  EXPECT_EQ(cache.stats().evictions, 2);
  EXPECT_EQ(cache.stats().bytes, 95);
  EXPECT_EQ(cache.stats().entries, 9);
}

TEST(ProgramCache, ValueLargerThanTheLimitIsReturnedAndNotKept) {
  Cache cache(100);
  EXPECT_EQ(**cache.GetOrCompute(Key(1), [] { return Of("big", 101); }), "big");
  EXPECT_EQ(cache.Find(Key(1)), nullptr);
  EXPECT_EQ(cache.stats().bytes, 0);
}

TEST(ProgramCache, EvictedValueLivesWhileHeld) {
  Cache cache(10);
  auto held = *cache.GetOrCompute(Key(1), [] { return Of("held"); });
  ASSERT_TRUE(cache.GetOrCompute(Key(2), [] { return Of("other"); }).ok());
  EXPECT_EQ(cache.Find(Key(1)), nullptr);
  EXPECT_EQ(*held, "held");
}

TEST(ProgramCache, ErasesAndLists) {
  Cache cache(1000);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cache.GetOrCompute(Key(i), [i] { return Of(std::to_string(i)); }).ok());
  cache.Find(Key(0));
  std::string order;
  for (const auto& [key, value] : cache.List()) order += *value;
  EXPECT_EQ(order, "021");
  EXPECT_TRUE(cache.Erase(Key(2)));
  EXPECT_FALSE(cache.Erase(Key(2)));
  EXPECT_EQ(cache.stats().entries, 2);
}

TEST(ProgramCache, ErasesWhatNobodyHoldsTheOldestFirst) {
  Cache cache(1000);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(cache.GetOrCompute(Key(i), [i] { return Of(std::to_string(i)); }).ok());
  const auto held = cache.Find(Key(1));
  cache.Find(Key(0));
  const auto not_three = [](const std::string& text) { return text != "3"; };
  int asked = 0;
  cache.EraseIdle(not_three, [&asked] { return ++asked == 1; });
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(cache.Find(Key(2)), nullptr);
  EXPECT_EQ(cache.stats().entries, 4);
  cache.EraseIdle(not_three, [&asked] { return ++asked == 100; });
  std::string left;
  for (const auto& [key, value] : cache.List()) left += *value;
  EXPECT_EQ(left, "13");
  EXPECT_EQ(cache.stats().evictions, 3);
  EXPECT_EQ(cache.stats().bytes, 20);
}

TEST(ProgramCache, ComputationMayOutliveTheCache) {
  std::optional<Cache::Finish> finish;
  std::string seen;
  {
    Cache cache(1000);
    cache.GetOrStart(
        Key(1), [&](Cache::Finish f) { finish = std::move(f); },
        [&](Cache::Result result, CacheOutcome) { seen = **result; });
  }
  (*finish)(Of("late"));
  EXPECT_EQ(seen, "late");
}

TEST(ProgramCache, ManyThreadsOverMoreKeysThanFit) {
  Cache cache(200);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int n = (i * 7 + t * 13) % 50;
        auto value = cache.GetOrCompute(Key(n), [n] { return Of(std::to_string(n)); });
        ASSERT_EQ(**value, std::to_string(n));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.stats().bytes, 200);
  EXPECT_EQ(cache.stats().hits + cache.stats().misses, 8 * 2000);
  EXPECT_EQ(cache.stats().entries * 10, cache.stats().bytes);
}

TEST(Digest, FromBytes) {
  const std::string bytes(32, 'x');
  EXPECT_EQ(Digest::FromBytes(bytes).view(), bytes);
}

}  // namespace
}  // namespace kiln::runtime
