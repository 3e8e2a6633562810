/* A machine that a test may disturb: loaded into kilnd by LD_PRELOAD, it moves the clock and fills a disk.

   KILN_CHAOS_CONTROL names a file of 16 bytes, which the test writes at any time (machine.py): how far the clock is
   ahead of the real one, in nanoseconds, and whether the disk is full.

   The clock is CLOCK_REALTIME alone, read by whatever function, and waited for: who waits until a time of that clock
   waits longer when it is set back meanwhile, as the kernel would have it. CLOCK_MONOTONIC is never touched. A full
   disk takes half of what the next write brings and then nothing, in files below KILN_CHAOS_DISK. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct Control {
  volatile int64_t ahead_ns;
  volatile int64_t disk_is_full;
};

static const struct Control kUndisturbed;
static const struct Control* control = &kUndisturbed;
static const char* disk;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void Begin(void) {
  const char* path = getenv("KILN_CHAOS_CONTROL");
  disk = getenv("KILN_CHAOS_DISK");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* const mapped = mmap(NULL, sizeof(struct Control), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) control = mapped;
}

/* -- The clock */

static int64_t NanosOf(const struct timespec* time) { return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec; }

static struct timespec TimeOf(int64_t nanos) {
  const struct timespec time = {nanos / 1000000000, nanos % 1000000000};
  return time;
}

static int RealClock(clockid_t clock, struct timespec* time) {
  static __typeof__(&clock_gettime) real;
  if (real == NULL) real = REAL(clock_gettime);
  return real(clock, time);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const int result = RealClock(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    *time = TimeOf(NanosOf(time) + control->ahead_ns);
  return result;
}

static int64_t Now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return NanosOf(&time);
}

int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  (void)zone;
  const int64_t now = Now();
  time->tv_sec = now / 1000000000;
  time->tv_usec = now % 1000000000 / 1000;
  return 0;
}

time_t time(time_t* there) {
  const time_t now = Now() / 1000000000;
  if (there != NULL) *there = now;
  return now;
}

/* Waits until a time of the clock go in pieces, so that a clock that is moved meanwhile counts: the time of
   CLOCK_MONOTONIC when the next piece ends; false if the time has come. */
static int NextPiece(const struct timespec* until, struct timespec* end) {
  const int64_t kPiece = 20000000, left = NanosOf(until) - Now();
  if (left <= 0) return 0;
  RealClock(CLOCK_MONOTONIC, end);
  *end = TimeOf(NanosOf(end) + (left < kPiece ? left : kPiece));
  return 1;
}

/* Abseil's waits. */
long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (real == NULL) real = REAL(syscall);
  va_list list;
  va_start(list, number);
  long argument[6];
  for (int i = 0; i < 6; ++i) argument[i] = va_arg(list, long);
  va_end(list);
  const long wait = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  const struct timespec* until = (const struct timespec*)argument[3];
  if (number != SYS_futex || (argument[1] & ~FUTEX_PRIVATE_FLAG) != wait || until == NULL)
    return real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
  struct timespec end;
  while (NextPiece(until, &end)) {
    const long result = real(number, argument[0], argument[1] & ~FUTEX_CLOCK_REALTIME, argument[2], &end, argument[4],
                             argument[5]);
    if (result == 0 || errno != ETIMEDOUT) return result;
  }
  errno = ETIMEDOUT;
  return -1;
}

/* Those of the C++ library by the system's clock, and of gRPC. No machine has been up for 30 years: a greater time is
   one of CLOCK_REALTIME, a smaller one of CLOCK_MONOTONIC. */
int pthread_cond_timedwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  static __typeof__(&pthread_cond_timedwait) real;
  if (real == NULL) real = REAL(pthread_cond_timedwait);
  if (until->tv_sec < 1000000000) return real(condition, mutex, until);
  struct timespec end;
  while (NextPiece(until, &end)) {
    const int result = pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &end);
    if (result != ETIMEDOUT) return result;
  }
  return ETIMEDOUT;
}

/* -- The disk */

static int IsFull(int file) {
  char link[64], path[4096];
  if (!control->disk_is_full || disk == NULL) return 0;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strncmp(path, disk, strlen(disk)) == 0;
}

ssize_t write(int file, const void* data, size_t bytes) {
  static __typeof__(&write) real;
  static _Thread_local int was_full;
  if (real == NULL) real = REAL(write);
  const int error = errno;
  if (IsFull(file)) {
    was_full = !was_full;
    if (was_full && bytes > 1) return real(file, data, bytes / 2);
    errno = ENOSPC;
    return -1;
  }
  errno = error;
  return real(file, data, bytes);
}
