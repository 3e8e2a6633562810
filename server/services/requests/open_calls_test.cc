#include "server/services/requests/open_calls.h"

#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

class Asked final : public OpenCalls::Call {
 public:
  absl::Mutex mutex;
  bool known ABSL_GUARDED_BY(mutex) = true;
  absl::Time until ABSL_GUARDED_BY(mutex) = absl::InfiniteFuture();
  std::string why ABSL_GUARDED_BY(mutex);
  absl::Notification revoked, cut_off;

  void Forget() {
    absl::MutexLock lock(&mutex);
    known = false;
  }

 private:
  Let LookAgain(absl::Time now) override {
    absl::MutexLock lock(&mutex);
    if (known && now < until) return {absl::OkStatus(), until};
    return {absl::UnauthenticatedError(known ? "it has expired" : "it is nobody's"), {}};
  }
  void Revoke(const absl::Status& status) override {
    absl::MutexLock lock(&mutex);
    why = std::string(status.message());
    revoked.Notify();  // once
  }
  void CutOff() override { cut_off.Notify(); }
};

TEST(OpenCalls, WhoIsNotKnownAnyMoreIsEndedAndOthersAreNot) {
  OpenCalls calls;
  Asked gone, stays, away;
  for (Asked* call : {&gone, &stays, &away}) calls.Add(call, absl::InfiniteFuture(), [] { return false; });
  calls.LookAtAll();
  EXPECT_FALSE(gone.revoked.HasBeenNotified());
  gone.Forget();
  away.Forget();
  calls.Remove(&away);
  calls.LookAtAll();
  EXPECT_TRUE(gone.revoked.HasBeenNotified());
  EXPECT_FALSE(stays.revoked.HasBeenNotified() || away.revoked.HasBeenNotified());
  calls.LookAtAll();  // it is told once; and, if that does not help, it is cut off
  gone.cut_off.WaitForNotification();
  EXPECT_FALSE(stays.cut_off.HasBeenNotified());
  calls.Remove(&gone);
  calls.Remove(&stays);
}

TEST(OpenCalls, WhatIsStaleIsLookedAtAtOnce) {
  OpenCalls calls;
  Asked call;
  call.Forget();
  calls.Add(&call, absl::InfiniteFuture(), [] { return true; });
  EXPECT_TRUE(call.revoked.HasBeenNotified());
  calls.Remove(&call);
}

TEST(OpenCalls, OneThatExpiresIsEndedByItselfUnlessItCountsLonger) {
  OpenCalls calls;
  Asked expires, renewed;
  const absl::Time soon = absl::Now() + absl::Milliseconds(20);
  {
    absl::MutexLock lock(&expires.mutex);
    expires.until = soon;
  }
  calls.Add(&renewed, soon, [] { return false; });
  calls.Add(&expires, soon, [] { return false; });
  expires.revoked.WaitForNotification();
  {
    absl::MutexLock lock(&expires.mutex);
    EXPECT_EQ(expires.why, "it has expired");
  }
  calls.LookAtAll();
  EXPECT_FALSE(renewed.revoked.HasBeenNotified());
  calls.Remove(&expires);
  calls.Remove(&renewed);
}

}  // namespace
}  // namespace kiln::server
