#include "server/fair/fair_queue.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

TEST(FairQueue, SessionsOfATenantShareEvenly) {
  FairQueue queue({.budget_ns = 0});
  constexpr uint64_t kCosts[] = {10'000, 1000};
  std::vector<std::unique_ptr<FairQueue::Entry>> entries;
  double got[2] = {};
  const auto push = [&](uint64_t session) {
    entries.push_back(std::make_unique<FairQueue::Entry>());
    queue.Push(*entries.back(), {.tenant = 1, .session = session}, kCosts[session]);
    return entries.back().get();
  };
  std::vector<FairQueue::Entry*> heads = {push(0), push(1)};
  for (int i = 0; i < 1100; ++i) {
    const FairQueue::Served served = queue.Pop();
    ASSERT_NE(served.entry, nullptr);
    const uint64_t session = served.entry == heads[0] ? 0 : 1;
    heads[session] = push(session);
    queue.Open(served.session);
    got[session] += static_cast<double>(kCosts[session]);
    queue.End(*served.entry, kCosts[session]);
  }
  EXPECT_NEAR(got[0] / got[1], 1, 0.02);
  for (FairQueue::Entry* head : heads) queue.Open(queue.Remove(*head));
  EXPECT_LE(queue.flows(), 2 * FairQueue::kKept);
}

TEST(FairQueue, OneAtLeastIsWithTheDeviceAndNoMoreThanTheBudget) {
  FairQueue queue({.budget_ns = 100});
  FairQueue::Entry a, b, c, d;
  queue.Push(a, {.tenant = 1, .session = 1}, 1000);
  queue.Push(b, {.tenant = 1, .session = 1}, 60);
  queue.Push(c, {.tenant = 1, .session = 1}, 40);
  queue.Push(d, {.tenant = 1, .session = 1}, 1);
  FairQueue::Served served = queue.Pop();
  EXPECT_EQ(served.entry, &a);
  EXPECT_EQ(queue.Pop().entry, nullptr);  // its session is closed
  queue.Open(served.session);
  EXPECT_EQ(queue.Pop().entry, nullptr);  // the budget is used up
  queue.End(a, 10);
  served = queue.Pop();
  EXPECT_EQ(served.entry, &b);
  queue.Open(served.session);
  served = queue.Pop();
  EXPECT_EQ(served.entry, &c);
  queue.Open(served.session);
  EXPECT_EQ(queue.Pop().entry, nullptr);
  EXPECT_EQ(queue.in_flight(), 2u);
  queue.Open(queue.Remove(d));
  queue.End(b, 60);
  queue.End(c, 60);
  EXPECT_EQ(queue.waiting(), 0u);
  EXPECT_LE(queue.flows(), 2 * FairQueue::kKept);
}

// Its cheap runs say nothing of the next: many of them at once would be with the device before anybody else.
TEST(FairQueue, WhatMayBeLongIsWithTheDeviceAlone) {
  FairQueue queue({.budget_ns = 100});
  FairQueue::Entry a, b, other;
  const auto pop = [&queue] {
    const FairQueue::Served served = queue.Pop();
    if (served.entry != nullptr) queue.Open(served.session);
    return served.entry;
  };
  queue.Push(a, {.tenant = 1, .session = 1}, 1, /*joint=*/false, {.may_be_long = true});
  queue.Push(b, {.tenant = 1, .session = 1}, 1, /*joint=*/false, {.may_be_long = true});
  queue.Push(other, {.tenant = 2, .session = 1}, 1);
  EXPECT_EQ(pop(), &a);
  EXPECT_EQ(pop(), nullptr);
  queue.End(a, 1'000'000);
  EXPECT_EQ(pop(), &other);
  EXPECT_EQ(pop(), nullptr);
  queue.End(other, 1);
  EXPECT_EQ(pop(), &b);
  queue.End(b, 1);
  EXPECT_EQ(pop(), nullptr);
}

// What is overdue in a process of its own (server/fair/README.md, "Set aside").
class SetAside : public testing::Test {
 protected:
  FairQueue::Entry* Pop() {
    const FairQueue::Served served = queue_.Pop();
    if (served.entry == nullptr) return nullptr;
    queue_.Open(served.session);
    return served.entry;
  }
  void Joint(FairQueue::Entry& entry, const FairOwner& owner) {
    queue_.Push(entry, owner, 10, /*joint=*/true);
    ASSERT_EQ(Pop(), &entry);
    queue_.Begin(entry);
  }

  FairQueue queue_{{.budget_ns = 100}};
  const FairOwner hung_{.tenant = 1, .session = 1}, hung_too_{.tenant = 1, .session = 2}, other_{.tenant = 2};
};

TEST_F(SetAside, TheOthersHaveTheDeviceAndTheBudgetIsGivenBackOnce) {
  FairQueue::Entry hung, a, b, c, d;
  queue_.Push(hung, hung_, 1000, /*joint=*/false, {.may_be_long = true});
  EXPECT_EQ(Pop(), &hung);
  for (FairQueue::Entry* each : {&a, &b, &c, &d}) queue_.Push(*each, other_, 50);
  EXPECT_EQ(Pop(), nullptr);
  queue_.SetAside(hung);
  EXPECT_EQ(queue_.in_flight(), 0u);
  EXPECT_EQ(Pop(), &a);
  EXPECT_EQ(Pop(), &b);
  EXPECT_EQ(Pop(), nullptr) << "the budget is what it was";
  queue_.End(hung, 1'000'000);  // late
  EXPECT_EQ(queue_.in_flight(), 2u);
  EXPECT_EQ(Pop(), nullptr) << "and stays that";
  queue_.End(a, 50);
  EXPECT_EQ(Pop(), &c);
  EXPECT_EQ(Pop(), nullptr);
  queue_.End(b, 50);
  EXPECT_EQ(Pop(), &d);
  queue_.End(c, 50);
  queue_.End(d, 50);
  EXPECT_EQ(queue_.in_flight(), 0u);
  EXPECT_EQ(queue_.PredictedWait(other_), 0u);
}

TEST_F(SetAside, ItsTenantWaitsInAllSessionsUntilAllOfItsHaveEnded) {
  FairQueue::Entry first, second, same, another, other;
  queue_.Push(first, hung_, 10);
  queue_.Push(second, hung_too_, 10);
  EXPECT_EQ(Pop(), &first);
  EXPECT_EQ(Pop(), &second);
  queue_.SetAside(first);
  queue_.SetAside(second);
  queue_.Push(same, hung_, 10);
  queue_.Push(another, {.tenant = 1, .session = 3}, 10);
  EXPECT_EQ(Pop(), nullptr);
  queue_.Push(other, other_, 10);
  EXPECT_EQ(Pop(), &other);
  queue_.End(other, 10);
  queue_.End(first, 600);
  EXPECT_EQ(Pop(), nullptr);
  queue_.End(second, 600);
  EXPECT_NE(Pop(), nullptr);
  EXPECT_NE(Pop(), nullptr);
  EXPECT_EQ(queue_.waiting(), 0u);
  queue_.End(same, 10);
  queue_.End(another, 10);
}

TEST_F(SetAside, ItsTimeIsCharged) {
  FairQueue::Entry hung, own, others[5];
  queue_.Push(hung, hung_, 100);
  EXPECT_EQ(Pop(), &hung);
  for (FairQueue::Entry& each : others) queue_.Push(each, other_, 100);
  queue_.SetAside(hung);
  queue_.Push(own, hung_, 100);
  queue_.End(hung, 400);
  // As much for the other as the first has had, and then the first again.
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Pop(), &others[i]);
    queue_.End(others[i], 100);
  }
  EXPECT_EQ(Pop(), &own);
  queue_.End(own, 100);
  EXPECT_EQ(Pop(), &others[4]);
  queue_.End(others[4], 100);
}

TEST_F(SetAside, AJointOneLeavesItsPlaceToAnother) {
  FairQueue::Entry joints[FairQueue::kMostJoint], next, after;
  for (uint64_t i = 0; i < FairQueue::kMostJoint; ++i) Joint(joints[i], {.tenant = 1, .session = i});
  queue_.Push(next, other_, 10, /*joint=*/true);
  queue_.Push(after, {.tenant = 3}, 10, /*joint=*/true);
  EXPECT_EQ(Pop(), nullptr);
  queue_.SetAside(joints[0]);
  EXPECT_EQ(Pop(), &next);
  queue_.Begin(next);
  EXPECT_EQ(Pop(), nullptr);
  queue_.End(joints[0], 9000);
  EXPECT_EQ(Pop(), nullptr) << "its place is another's by now";
  queue_.End(next, 10);
  EXPECT_EQ(Pop(), &after);
  queue_.Begin(after);
  queue_.End(after, 10);
  for (size_t i = 1; i < FairQueue::kMostJoint; ++i) queue_.End(joints[i], 10);
  EXPECT_EQ(queue_.in_flight(), 0u);
}

TEST_F(SetAside, ATenantThatGoesMeanwhileIsForgottenAfterwards) {
  FairQueue::Entry hung, gone;
  queue_.Push(hung, hung_, 10);
  EXPECT_EQ(Pop(), &hung);
  queue_.SetAside(hung);
  queue_.Push(gone, hung_, 10);
  queue_.Open(queue_.Remove(gone));
  EXPECT_EQ(queue_.waiting(1), 0u);
  const auto many_come_and_go = [this] {
    for (uint64_t tenant = 10; tenant < 10 + 8 * FairQueue::kKept; ++tenant) {
      FairQueue::Entry entry;
      queue_.Push(entry, {.tenant = tenant}, 10);
      EXPECT_EQ(Pop(), &entry);
      queue_.End(entry, 1000);
    }
  };
  many_come_and_go();
  queue_.End(hung, 60);  // which it has been there for
  many_come_and_go();
  EXPECT_LE(queue_.flows(), 4 * FairQueue::kKept);
}

TEST(FairQueue, AJointEntryKeepsItsSessionButNotTheDevice) {
  FairQueue queue({});
  FairQueue::Entry joint, behind, other;
  queue.Push(joint, {.tenant = 1, .session = 1}, 1'000'000, /*joint=*/true);
  queue.Push(behind, {.tenant = 1, .session = 1}, 10);
  queue.Push(other, {.tenant = 1, .session = 2}, 10);
  const FairQueue::Served first = queue.Pop();
  EXPECT_EQ(first.entry, &joint);
  EXPECT_EQ(queue.in_flight(), 0u);
  const FairQueue::Served second = queue.Pop();
  EXPECT_EQ(second.entry, &other);
  queue.Open(second.session);
  EXPECT_EQ(queue.Pop().entry, nullptr);
  queue.End(other, 10);
  queue.Begin(joint);
  queue.Open(first.session);
  const FairQueue::Served third = queue.Pop();
  EXPECT_EQ(third.entry, &behind);
  queue.Open(third.session);
  queue.End(behind, 10);
  queue.End(joint, 10);

  queue.Push(joint, {.tenant = 1, .session = 1}, 1'000'000, /*joint=*/true);
  EXPECT_EQ(queue.Pop().entry, &joint);
  queue.Open(queue.Remove(joint));  // before it began
  EXPECT_LE(queue.flows(), 2 * FairQueue::kKept);
}

// Those that are under way may wait for another device for as long as it is busy.
TEST(FairQueue, TooManyJointEntriesHoldUpTheirSessionsAlone) {
  constexpr size_t kMost = FairQueue::kMostJoint;
  FairQueue queue({});
  FairQueue::Entry joint[kMost], behind, gone, other;
  const auto pop = [&queue] {
    const FairQueue::Served served = queue.Pop();
    if (served.entry != nullptr) queue.Open(served.session);
    return served.entry;
  };
  for (size_t i = 0; i < kMost; ++i) queue.Push(joint[i], {.tenant = 1, .session = i}, 100, /*joint=*/true);
  queue.Push(behind, {.tenant = 1, .session = kMost}, 100, /*joint=*/true);
  queue.Push(gone, {.tenant = 1, .session = kMost + 1}, 100, /*joint=*/true);
  queue.Push(other, {.tenant = 1, .session = kMost + 2}, 100);
  for (FairQueue::Entry& each : joint) {
    EXPECT_EQ(pop(), &each);
    queue.Begin(each);
  }
  EXPECT_EQ(pop(), &other);
  EXPECT_EQ(pop(), nullptr);
  queue.Open(queue.Remove(gone));
  queue.End(other, 100);
  EXPECT_EQ(pop(), nullptr);
  queue.End(joint[0], 100);
  EXPECT_EQ(pop(), &behind);
  queue.Begin(behind);
  queue.End(behind, 100);
  for (size_t i = 1; i < kMost; ++i) queue.End(joint[i], 100);
  EXPECT_EQ(queue.waiting() + queue.in_flight(), 0u);
  EXPECT_LE(queue.flows(), 2 * FairQueue::kKept);
}

TEST(FairQueue, WhatIsBehindOneThatIsTakenOutWaitsUntilItsOwnerKnows) {
  FairQueue queue({});
  FairQueue::Entry gone, behind;
  queue.Push(gone, {.tenant = 1, .session = 1}, 10);
  queue.Push(behind, {.tenant = 1, .session = 1}, 10);
  FairQueue::Session* const session = queue.Remove(gone);
  EXPECT_EQ(queue.Pop().entry, nullptr);
  queue.Open(session);
  const FairQueue::Served served = queue.Pop();
  EXPECT_EQ(served.entry, &behind);
  queue.Open(served.session);
  queue.End(behind, 10);
  EXPECT_LE(queue.flows(), 2 * FairQueue::kKept);
}

// As if it had not been there, for it and for the others.
TEST(FairQueue, WhatWasServedInVainCostsNothing) {
  FairQueue queue({.budget_ns = 100});
  FairQueue::Entry vain, again, other;
  queue.Push(vain, {.tenant = 1, .session = 1}, 1000);
  queue.Push(again, {.tenant = 1, .session = 1}, 500);
  queue.Push(other, {.tenant = 2, .session = 1}, 1000);
  FairQueue::Served served = queue.Pop();
  ASSERT_EQ(served.entry, &vain);
  EXPECT_EQ(queue.Remove(vain), served.session);
  EXPECT_EQ(queue.in_flight(), 0u);
  served = queue.Pop();
  EXPECT_EQ(served.entry, &other) << "its session is closed until it is opened";
  queue.Open(served.session);
  queue.End(other, 1000);
  EXPECT_EQ(queue.Pop().entry, nullptr);
  EXPECT_EQ(queue.PredictedWait({.tenant = 1, .session = 1}), 500u);
  queue.Open(queue.Remove(again));
  EXPECT_EQ(queue.waiting(), 0u);
}

TEST(FairQueue, WhatIsChargedIsPaidLater) {
  FairQueue queue({.budget_ns = 0});
  FairQueue::Entry a, b;
  queue.Push(a, {.tenant = 1, .session = 1}, 10);
  queue.Push(b, {.tenant = 2, .session = 1}, 10);
  queue.Charge({.tenant = 1, .session = 1}, 100);
  FairQueue::Served served = queue.Pop();
  EXPECT_EQ(served.entry, &b);
  queue.Open(served.session);
  queue.End(b, 10);
  served = queue.Pop();
  EXPECT_EQ(served.entry, &a);
  queue.Open(served.session);
  queue.End(a, 10);
}

TEST(FairQueue, IsQuickWithAThousandTenants) {
  constexpr size_t kTenants = 1000, kRounds = 200'000;
  FairQueue queue({.budget_ns = 0});
  std::vector<FairQueue::Entry> entries(kTenants);
  std::vector<FairOwner> owners(kTenants);
  absl::flat_hash_map<FairQueue::Entry*, size_t> numbers;
  for (size_t i = 0; i < kTenants; ++i) {
    owners[i] = {.tenant = i, .session = i, .weight = static_cast<uint32_t>(1 + i % 4)};
    numbers[&entries[i]] = i;
    queue.Push(entries[i], owners[i], 100 + i);
  }
  EXPECT_EQ(queue.flows(), 2 * kTenants);
  const auto begin = std::chrono::steady_clock::now();
  for (size_t round = 0; round < kRounds; ++round) {
    const FairQueue::Served served = queue.Pop();
    const size_t i = numbers[served.entry];
    queue.Open(served.session);
    queue.End(*served.entry, 100 + i);
    queue.Push(entries[i], owners[i], 100 + i);
  }
  const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
  std::printf("%.0f ns for one that comes, is served and ends, of %zu tenants\n", passed.count() / kRounds, kTenants);
  for (FairQueue::Entry& entry : entries) queue.Open(queue.Remove(entry));
  EXPECT_EQ(queue.waiting(), 0u);
}

// Tenants that come once each, while one stays: only those that are ahead of it are remembered.
TEST(FairQueue, RemembersNoMoreThanItMust) {
  FairQueue queue({.budget_ns = 0});
  FairQueue::Entry busy, guest;
  size_t most = 0;
  queue.Push(busy, {.tenant = 0, .session = 0}, 100);
  for (uint64_t i = 1; i <= 10'000; ++i) {
    queue.Push(guest, {.tenant = i, .session = i}, 100);
    for (int both = 0; both < 2; ++both) {
      const FairQueue::Served served = queue.Pop();
      queue.Open(served.session);
      queue.End(*served.entry, 100);
      if (served.entry == &busy) queue.Push(busy, {.tenant = 0, .session = i}, 100);
    }
    if (queue.waiting() > 1) queue.Open(queue.Remove(guest));
    most = std::max(most, queue.flows());
  }
  EXPECT_LE(most, 6 * FairQueue::kKept);
  queue.Open(queue.Remove(busy));
  EXPECT_LE(queue.flows(), 2 * FairQueue::kKept);
}

}  // namespace
}  // namespace kiln::server
