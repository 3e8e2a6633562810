// Tells ThreadSanitizer what Abseil's locks do.
//
// Debian's Abseil is built without the sanitizer and does not use pthread locks,
// so the sanitizer sees neither a lock taken, nor a notification given, nor who of
// several is the last to let go of a Status; it
// reports a race wherever one of them is all that orders two threads. Under
// --config=tsan the linker (--wrap) sends our calls of these functions here;
// each does what was asked and says so. Nothing here is linked otherwise.
#include <sanitizer/tsan_interface.h>

#include <cstdint>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

using absl::BlockingCounter;
using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::ReleasableMutexLock;
using absl::Time;

namespace {

constexpr unsigned kRead = __tsan_mutex_read_lock;
constexpr unsigned kTry = __tsan_mutex_try_lock;

// What happens between the two calls, the sanitizer does not look at: there,
// Abseil evaluates the conditions of other threads.
template <typename Function>
void Locking(Mutex* mutex, unsigned flags, Function lock) {
  __tsan_mutex_pre_lock(mutex, flags);
  lock();
  __tsan_mutex_post_lock(mutex, flags, 0);
}

template <typename Function>
void Unlocking(Mutex* mutex, unsigned flags, Function unlock) {
  __tsan_mutex_pre_unlock(mutex, flags);
  unlock();
  __tsan_mutex_post_unlock(mutex, flags);
}

// Gives the mutex up for a while.
template <typename Function>
auto Waiting(Mutex* mutex, Function wait) {
  __tsan_mutex_pre_unlock(mutex, 0);
  __tsan_mutex_post_unlock(mutex, 0);
  __tsan_mutex_pre_lock(mutex, 0);
  struct Relock {
    Mutex* mutex;
    ~Relock() { __tsan_mutex_post_lock(mutex, 0, 0); }
  } relock{mutex};
  return wait();
}

}  // namespace

// REAL declares the original of a function and begins its replacement.
#define REAL(result, symbol, ...)                 \
  extern "C" result __real_##symbol(__VA_ARGS__); \
  extern "C" result __wrap_##symbol(__VA_ARGS__)

REAL(void, _ZN4absl7debian35Mutex4LockEv, Mutex* m) {
  Locking(m, 0, [&] { __real__ZN4absl7debian35Mutex4LockEv(m); });
}
REAL(void, _ZN4absl7debian35Mutex6UnlockEv, Mutex* m) {
  Unlocking(m, 0, [&] { __real__ZN4absl7debian35Mutex6UnlockEv(m); });
}
REAL(void, _ZN4absl7debian35Mutex10ReaderLockEv, Mutex* m) {
  Locking(m, kRead, [&] { __real__ZN4absl7debian35Mutex10ReaderLockEv(m); });
}
REAL(void, _ZN4absl7debian35Mutex12ReaderUnlockEv, Mutex* m) {
  Unlocking(m, kRead, [&] { __real__ZN4absl7debian35Mutex12ReaderUnlockEv(m); });
}
REAL(bool, _ZN4absl7debian35Mutex7TryLockEv, Mutex* m) {
  __tsan_mutex_pre_lock(m, kTry);
  const bool locked = __real__ZN4absl7debian35Mutex7TryLockEv(m);
  __tsan_mutex_post_lock(m, locked ? kTry : kTry | __tsan_mutex_try_lock_failed, 0);
  return locked;
}
REAL(void, _ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE, Mutex* m, const Condition& c) {
  Locking(m, 0, [&] { __real__ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE(m, c); });
}
REAL(void, _ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE, Mutex* m, const Condition& c) {
  Waiting(m, [&] { __real__ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE(m, c); });
}
REAL(bool, _ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE, Mutex* m, const Condition& c,
     Duration d) {
  return Waiting(
      m, [&] { return __real__ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE(m, c, d); });
}
REAL(bool, _ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE, Mutex* m, const Condition& c,
     Time t) {
  return Waiting(m,
                 [&] { return __real__ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE(m, c, t); });
}
REAL(void, _ZN4absl7debian319ReleasableMutexLock7ReleaseEv, ReleasableMutexLock* l) {
  Mutex* m = *reinterpret_cast<Mutex**>(l);  // its only member
  Unlocking(m, 0, [&] { __real__ZN4absl7debian319ReleasableMutexLock7ReleaseEv(l); });
}
REAL(void, _ZN4absl7debian35MutexD1Ev, Mutex* m) {
  __tsan_mutex_destroy(m, 0);
  __real__ZN4absl7debian35MutexD1Ev(m);
}
REAL(void, _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE, CondVar* v, Mutex* m) {
  Waiting(m, [&] { __real__ZN4absl7debian37CondVar4WaitEPNS0_5MutexE(v, m); });
}
REAL(bool, _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE, CondVar* v, Mutex* m, Duration d) {
  return Waiting(m,
                 [&] { return __real__ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE(v, m, d); });
}
REAL(bool, _ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE, CondVar* v, Mutex* m, Time t) {
  return Waiting(m, [&] { return __real__ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE(v, m, t); });
}
REAL(void, _ZN4absl7debian312Notification6NotifyEv, Notification* n) {
  __tsan_release(n);
  __real__ZN4absl7debian312Notification6NotifyEv(n);
}
REAL(void, _ZNK4absl7debian312Notification19WaitForNotificationEv, const Notification* n) {
  __real__ZNK4absl7debian312Notification19WaitForNotificationEv(n);
  __tsan_acquire(const_cast<Notification*>(n));
}
REAL(bool, _ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE, const Notification* n,
     Duration d) {
  const bool in_time = __real__ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE(n, d);
  if (in_time) __tsan_acquire(const_cast<Notification*>(n));
  return in_time;
}
REAL(bool, _ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE, const Notification* n, Time t) {
  const bool in_time = __real__ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE(n, t);
  if (in_time) __tsan_acquire(const_cast<Notification*>(n));
  return in_time;
}
REAL(bool, _ZN4absl7debian315BlockingCounter14DecrementCountEv, BlockingCounter* b) {
  __tsan_release(b);
  return __real__ZN4absl7debian315BlockingCounter14DecrementCountEv(b);
}
REAL(void, _ZN4absl7debian315BlockingCounter4WaitEv, BlockingCounter* b) {
  __real__ZN4absl7debian315BlockingCounter4WaitEv(b);
  __tsan_acquire(b);
}

// Counts down who holds a Status's message; the last one frees it, after all that the others did. The lowest bits of
// `rep` are flags.
REAL(void, _ZN4absl7debian36Status15UnrefNonInlinedEm, uintptr_t rep) {
  void* counted = reinterpret_cast<void*>(rep & ~uintptr_t{3});
  __tsan_release(counted);
  __tsan_acquire(counted);
  __real__ZN4absl7debian36Status15UnrefNonInlinedEm(rep);
}

// What libraries that are built without the sanitizer do to memory, such as to copy a string that they were handed, counts
// for nothing: nobody sees what they were told before, and by which thread.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

// What is ordered by gRPC alone:
// - a server goes when its calls have ended, which gRPC waits for;
// - whether a connection has been closed is seen by its descriptor, which is gRPC's (server/port/connections.h).
extern "C" const char* __tsan_default_suppressions() {
  return "race:kiln::server::RpcServer::~RpcServer\n"
         "race:kiln::server::Connections::ForgetClosed\n"
         "race:libgrpc\n";
}
