// How long a request would wait, as a FairQueue says beforehand.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "server/fair/fair_queue.h"

namespace kiln::server {
namespace {

TEST(Prediction, NobodysWaitIsToldFromAGuess) {
  FairQueue queue({.budget_ns = 0});
  const FairOwner one{.tenant = 1, .session = 1}, two{.tenant = 2, .session = 1};
  FairQueue::Entry guess, known;
  queue.Push(guess, one, 1'000'000, /*joint=*/false, {.guessed = true});
  queue.Push(known, one, 10);
  EXPECT_EQ(queue.PredictedWait(one), 10u);
  const FairQueue::Served served = queue.Pop();
  EXPECT_EQ(served.entry, &guess);
  queue.Open(served.session);
  EXPECT_EQ(queue.PredictedWait(two), 0u);
  queue.End(guess, 5);
  queue.Open(queue.Remove(known));
  EXPECT_EQ(queue.PredictedWait(one), 0u);
}

TEST(Prediction, ComesFromWhatIsThere) {
  FairQueue queue({.budget_ns = 1000});
  const FairOwner a{.tenant = 1, .session = 1, .weight = 1}, b{.tenant = 2, .session = 1, .weight = 3};
  EXPECT_EQ(queue.PredictedWait(a), 0u);
  FairQueue::Entry one, two, three;
  queue.Push(one, a, 1000);
  const FairQueue::Served served = queue.Pop();
  queue.Open(served.session);
  queue.Push(two, a, 500);
  queue.Push(three, b, 9000);
  EXPECT_EQ(queue.PredictedWait(a), 1000u + 500 + 9000) << "its own is behind the other's, which had nothing yet";
  EXPECT_EQ(queue.PredictedWait(b), 1000u + 9500);  // no more than all there is
  EXPECT_EQ(queue.PredictedWait({.tenant = 3, .session = 1}), 1000u + 9000) << "as much in its right, and later";
  // What is with the device has been worked on for a while, and perhaps for longer than was thought.
  EXPECT_EQ(queue.PredictedWait(b, 400), 600u + 9500);
  EXPECT_EQ(queue.PredictedWait(b, 5000), 9500u);
  queue.Open(queue.Remove(two));
  queue.Open(queue.Remove(three));
  queue.End(one, 1000);
}

TEST(Prediction, OthersThatHadLessAreBeforeItWithOneEach) {
  FairQueue queue({.budget_ns = 0});
  FairQueue::Entry first, others[4];
  const FairOwner one{.tenant = 1};
  queue.Push(first, one, 100);
  const FairQueue::Served served = queue.Pop();
  queue.Open(served.session);
  for (uint64_t i = 0; i < 4; ++i) queue.Push(others[i], {.tenant = 2 + i}, 100);
  EXPECT_EQ(queue.PredictedWait(one), 100u + 400u) << "it has had its part";
  EXPECT_EQ(queue.PredictedWait(one, /*worked_ns=*/60), 40u + 400u);
  EXPECT_EQ(queue.PredictedWait({.tenant = 1, .interactive = true}), 100u) << "its credit is before their tags";
  queue.End(first, 100);
  for (FairQueue::Entry& other : others) queue.Open(queue.Remove(other));
}

TEST(Prediction, SessionsOfATenantAreBeforeOneAnotherInTheSameWay) {
  FairQueue queue({.budget_ns = 0});
  FairQueue::Entry running, a, b;
  queue.Push(running, {.tenant = 1, .session = 1}, 100);
  const FairQueue::Served served = queue.Pop();
  queue.Open(served.session);
  queue.Push(a, {.tenant = 1, .session = 2}, 30);
  queue.Push(b, {.tenant = 1, .session = 3}, 20);
  EXPECT_EQ(queue.PredictedWait({.tenant = 1, .session = 1}), 100u + 50u);
  queue.End(running, 100);
  queue.Open(queue.Remove(a));
  queue.Open(queue.Remove(b));
}

// If nobody comes after it, and all takes what was thought, what is told beforehand is what it waits: on average
// exactly, and otherwise by one of each who is as much in its right.
TEST(Prediction, IsWhatOneWaits) {
  std::mt19937 random(7);
  double told = 0, waited = 0, apart = 0;
  for (int round = 0; round < 2000; ++round) {
    FairQueue queue({.budget_ns = 0});
    const uint64_t tenants = 1 + random() % 6;
    std::vector<std::unique_ptr<FairQueue::Entry>> entries;
    const auto owner = [](uint64_t tenant) {
      return FairOwner{.tenant = tenant, .session = 0, .weight = static_cast<uint32_t>(1 + tenant % 3)};
    };
    // Each has a size of its own. Some has been done before, so that they differ in what they had.
    std::vector<uint64_t> sizes;
    for (uint64_t i = 0; i < tenants; ++i) sizes.push_back(100 + random() % 900);
    const auto push = [&](uint64_t tenant) {
      entries.push_back(std::make_unique<FairQueue::Entry>());
      queue.Push(*entries.back(), owner(tenant), sizes[tenant]);
      return entries.back().get();
    };
    const auto serve = [&]() -> FairQueue::Entry* {
      const FairQueue::Served served = queue.Pop();
      if (served.entry != nullptr) queue.Open(served.session);
      return served.entry;
    };
    const auto size_of = [&](FairQueue::Entry* entry) {
      for (size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].get() == entry) return i;
      }
      return entries.size();
    };
    std::vector<uint64_t> pushed;
    const auto push_noted = [&](uint64_t tenant) {
      pushed.push_back(tenant);
      return push(tenant);
    };
    for (uint64_t i = 0, count = 1 + random() % 20; i < count; ++i) push_noted(random() % tenants);
    for (uint64_t i = 0, count = random() % 8; i < count; ++i) {
      FairQueue::Entry* const entry = serve();
      if (entry != nullptr) queue.End(*entry, sizes[pushed[size_of(entry)]]);
    }
    const uint64_t asks = random() % tenants;
    const uint64_t predicted = queue.PredictedWait(owner(asks));
    FairQueue::Entry* const mine = push_noted(asks);
    uint64_t waits = 0;
    for (FairQueue::Entry* entry = serve(); entry != mine; entry = serve()) {
      ASSERT_NE(entry, nullptr);
      const uint64_t size = sizes[pushed[size_of(entry)]];
      waits += size;
      queue.End(*entry, size);
    }
    queue.End(*mine, sizes[asks]);
    while (FairQueue::Entry* const entry = serve()) queue.End(*entry, 1);
    told += static_cast<double>(predicted);
    waited += static_cast<double>(waits);
    apart += std::abs(static_cast<double>(predicted) - static_cast<double>(waits));
  }
  std::printf("told %.0f, waited %.0f, apart %.0f on average\n", told / 2000, waited / 2000, apart / 2000);
  EXPECT_NEAR(told / waited, 1, 0.02);
  EXPECT_LE(apart / waited, 0.03);
}

}  // namespace
}  // namespace kiln::server
