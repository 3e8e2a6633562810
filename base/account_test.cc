#include "base/account.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "base/error.h"

namespace kiln {
namespace {

constexpr Quota kBytes = Quota::kDeviceBytes;

QuotaLimits Only(Quota quota, uint64_t limit) {
  QuotaLimits limits = {};
  limits[static_cast<size_t>(quota)] = limit;
  return limits;
}

void ExpectExceeded(const absl::Status& status, Quota quota, uint64_t limit, uint64_t used, uint32_t retry_ms = 0) {
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::QUOTA_EXCEEDED) << status;
  EXPECT_EQ(detail.limit(), QuotaName(quota));
  EXPECT_EQ(detail.limit_value(), limit);
  EXPECT_EQ(detail.used(), used);
  EXPECT_EQ(detail.retry_after_ms(), retry_ms);
}

TEST(Account, AChargeIsGivenBackOnceWhereverItGoes) {
  Account account;
  account.SetLimits(Only(kBytes, 100));
  {
    Charge a = *Hold(&account, kBytes, 60);
    ExpectExceeded(Hold(&account, kBytes, 41).status(), kBytes, 100, 101);
    Charge b = *Hold(&account, kBytes, 40);
    EXPECT_EQ(account.used(kBytes), 100u);
    b = std::move(a);
    EXPECT_EQ(account.used(kBytes), 60u);
    EXPECT_EQ(b.amount(), 60u);
    EXPECT_TRUE(b.Grow(40).ok());
    ExpectExceeded(b.Grow(1), kBytes, 100, 101);
    b.Shrink(70);
    EXPECT_EQ(account.used(kBytes), 30u);
    b.Release();
    b.Release();
    EXPECT_EQ(account.used(kBytes), 0u);
    EXPECT_TRUE(b.Grow(5).ok());
  }
  EXPECT_EQ(account.used(kBytes), 0u);
}

TEST(Account, WithoutALimitItCounts) {
  Account account;
  Charge most = *Hold(&account, kBytes, uint64_t{1} << 63);
  EXPECT_EQ(account.used(kBytes), uint64_t{1} << 63);
  EXPECT_FALSE(Hold(&account, kBytes, uint64_t{1} << 63).ok());  // the sum is no number
  EXPECT_TRUE(Hold(nullptr, kBytes, ~uint64_t{0}).ok());
}

TEST(Account, LookingForRoomTakesNone) {
  Account account;
  QuotaLimits limits = {};
  limits[static_cast<size_t>(Quota::kCompiles)] = 2;
  account.SetLimits(limits);
  EXPECT_TRUE(account.CheckRoom(Quota::kCompiles, 2).ok());
  EXPECT_EQ(account.used(Quota::kCompiles), 0u);
  const auto charge = Hold(&account, Quota::kCompiles, 1);
  EXPECT_TRUE(account.CheckRoom(Quota::kCompiles, 1).ok());
  EXPECT_EQ(account.CheckRoom(Quota::kCompiles, 2), Hold(&account, Quota::kCompiles, 2).status());
  EXPECT_FALSE(account.CheckRoom(Quota::kCompiles, 2).ok());
}

TEST(Account, ALowerLimitTakesNothingAway) {
  Account account;
  Charge held = *Hold(&account, kBytes, 80);
  account.SetLimits(Only(kBytes, 50));
  EXPECT_EQ(account.used(kBytes), 80u);
  ExpectExceeded(held.Grow(1), kBytes, 50, 81);
  EXPECT_TRUE(held.Grow(0).ok());
  held.Shrink(40);
  EXPECT_TRUE(held.Grow(10).ok());
}

TEST(Account, WhatPassesDrainsAway) {
  Account account;
  account.SetLimits(Only(Quota::kRequests, 3));
  const absl::Time now = absl::FromUnixSeconds(2'000'000'000);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(account.Spend(Quota::kRequests, 1, now).ok()) << i;
  EXPECT_EQ(account.used(Quota::kRequests, now), 3u);
  ExpectExceeded(account.Spend(Quota::kRequests, 1, now), Quota::kRequests, 3, 4, /*retry_ms=*/1);
  EXPECT_GT(account.Wait(Quota::kRequests, now), absl::ZeroDuration());
  // A third of a second is one; almost one may be taken as a whole, and is owed.
  const absl::Time later = now + absl::Milliseconds(330);
  EXPECT_EQ(account.used(Quota::kRequests, later), 3u);
  EXPECT_EQ(account.Wait(Quota::kRequests, later), absl::ZeroDuration());
  EXPECT_TRUE(account.Spend(Quota::kRequests, 1, later).ok());
  EXPECT_FALSE(account.Spend(Quota::kRequests, 1, later).ok());
  EXPECT_EQ(account.used(Quota::kRequests, later + absl::Seconds(2)), 0u);
}

TEST(Account, WhatIsOwedIsWaitedFor) {
  Account account;
  account.SetLimits(Only(Quota::kDeviceSeconds, 6));
  const absl::Time now = absl::FromUnixSeconds(2'000'000'000);
  account.Owe(Quota::kDeviceSeconds, 5.5, now);
  EXPECT_TRUE(account.Spend(Quota::kDeviceSeconds, 0, now).ok());
  account.Owe(Quota::kDeviceSeconds, 2.5, now);
  EXPECT_EQ(account.used(Quota::kDeviceSeconds, now), 8u);
  // Two seconds too many take two sixths of a minute.
  EXPECT_EQ(account.Wait(Quota::kDeviceSeconds, now), absl::Seconds(20) + absl::Nanoseconds(1));
  ExpectExceeded(account.Spend(Quota::kDeviceSeconds, 0, now), Quota::kDeviceSeconds, 6, 8, 20'001);
  EXPECT_TRUE(account.Spend(Quota::kDeviceSeconds, 0, now + absl::Seconds(21)).ok());
  // However much it is, the numbers hold.
  for (int i = 0; i < 100; ++i) account.Owe(Quota::kDeviceSeconds, 1e30, now);
  EXPECT_FALSE(account.Spend(Quota::kDeviceSeconds, 0, now).ok());
  EXPECT_EQ(DetailOf(account.Spend(Quota::kDeviceSeconds, 0, now))->retry_after_ms(), ~uint32_t{0});
}

TEST(Account, SixtyFourThreadsNeverHaveMoreThanOneQuota) {
  constexpr uint64_t kLimit = 40;
  Account account;
  account.SetLimits(Only(kBytes, kLimit));
  std::atomic<int64_t> held{0}, most{0}, refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        auto charge = Hold(&account, kBytes, 1);
        if (!charge.ok()) {
          ++refused;
          std::this_thread::yield();
          continue;
        }
        const int64_t now = ++held;
        int64_t before = most.load();
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        EXPECT_LE(account.used(kBytes), kLimit);
        std::this_thread::yield();
        --held;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, static_cast<int64_t>(kLimit));
  EXPECT_EQ(account.used(kBytes), 0u);
}

// A model: every charge that threads hold, and give away, and lose.
TEST(Account, RandomWorkReturnsToZero) {
  Account account;
  QuotaLimits limits;
  limits.fill(1'000);
  account.SetLimits(limits);
  constexpr Quota kHeld[] = {Quota::kDeviceBytes, Quota::kHostBytes, Quota::kHandles, Quota::kInFlight};
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&account, seed] {
      std::mt19937_64 random(seed);
      std::vector<Charge> charges;
      uint64_t own = 0;
      for (int i = 0; i < 20'000; ++i) {
        const Quota quota = kHeld[random() % 4];
        const uint64_t amount = random() % 300;
        Charge* const one = charges.empty() ? nullptr : &charges[random() % charges.size()];
        switch (random() % 5) {
          case 0:
            if (auto charge = Hold(&account, quota, amount); charge.ok()) charges.push_back(*std::move(charge));
            break;
          case 1:
            if (one != nullptr) static_cast<void>(one->Grow(amount).ok());
            break;
          case 2:
            if (one != nullptr) one->Shrink(random() % (one->amount() + 1));
            break;
          case 3:  // cancelled
            if (one != nullptr) {
              *one = std::move(charges.back());
              charges.pop_back();
            }
            break;
          default:  // handed on
            if (one != nullptr) charges.push_back(std::move(*one));
        }
        EXPECT_LE(account.used(quota), 1'000u);
        own = 0;
        for (const Charge& charge : charges) own += charge.amount();
        if (charges.size() > 50) charges.erase(charges.begin(), charges.begin() + 25);
      }
      EXPECT_LE(own, 4'000u);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Quota quota : kHeld) EXPECT_EQ(account.used(quota), 0u) << QuotaName(quota);
}

// A limit that is taken away while something is spent, as by a file of tenants that is read again.
TEST(Account, ALimitMayGoAtAnyTime) {
  constexpr Quota kRate = Quota::kRequests;
  Account account;
  std::atomic<bool> done{false};
  std::thread owner([&] {
    while (!done) {
      account.SetLimits(Only(kRate, 1'000'000'000));
      account.SetLimits({});
    }
  });
  for (int i = 0; i < 200'000; ++i) {
    account.Owe(kRate, 1);
    static_cast<void>(account.Spend(kRate, 1).ok());
  }
  done = true;
  owner.join();
  account.SetLimits(Only(kRate, 1'000'000'000));
  EXPECT_EQ(account.Wait(kRate), absl::ZeroDuration());
}

TEST(Account, WhatIsLargeByItselfIsRefused) {
  constexpr Quota kEach = Quota::kSecondsOfARun;
  Account account("a");
  EXPECT_TRUE(account.CheckEach(kEach, 1e300).ok());
  account.SetLimits(Only(kEach, 60));
  for (const double amount : {0.0, 0.1, 59.2, 60.0}) EXPECT_TRUE(account.CheckEach(kEach, amount).ok()) << amount;
  for (const auto& [amount, used] : {std::pair(60.1, uint64_t{61}), std::pair(1e300, ~uint64_t{0})}) {
    const auto detail = DetailOf(account.CheckEach(kEach, amount));
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->code(), v1::QUOTA_EXCEEDED);
    EXPECT_EQ(detail->limit(), "run_seconds");
    EXPECT_EQ(detail->limit_value(), 60u);
    EXPECT_EQ(detail->used(), used);
    EXPECT_EQ(detail->retry_after_ms(), 0u) << "waiting does not help";
  }
  EXPECT_EQ(account.used(kEach), 0u);
  EXPECT_EQ(QuotaWindow(kEach), absl::ZeroDuration());
  EXPECT_TRUE(CheckEach(nullptr, kEach, 1e300).ok());
}

TEST(Accounts, ATenantHasOne) {
  Accounts accounts;
  Account* const a = accounts.Of("a");
  EXPECT_EQ(accounts.Of("a"), a);
  EXPECT_NE(accounts.Of("b"), a);
}

}  // namespace
}  // namespace kiln
