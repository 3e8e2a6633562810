// Ends calls that hold what others wait for, while their clients do nothing.
//
// Tested by tests/e2e/carry.
#ifndef KILN_SERVER_SERVICES_REQUESTS_SILENCE_WATCH_H_
#define KILN_SERVER_SERVICES_REQUESTS_SILENCE_WATCH_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kiln::server {

// Cancels a call whose client has been silent for `longest`, or for up to twice that. Held by a shared pointer: an
// alarm that was cancelled still calls, so this may outlive the call, of which it then knows nothing. Safe from any
// thread.
class SilenceWatch : public std::enable_shared_from_this<SilenceWatch> {
 public:
  SilenceWatch(const grpc::CallbackServerContext& context, absl::Duration longest)
      : longest_(longest), context_(&context) {}

  void Begin();
  // A message has come or gone; or it is this server that has something to do (`working`), and then no more.
  void Heard(bool working = false);
  // Before the call's context goes.
  void End();

 private:
  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `heard`: when the alarm was set.
  void OnAlarm(uint64_t heard);

  const absl::Duration longest_;
  absl::Mutex mutex_;
  const grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(mutex_);  // null: the call has ended
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  uint64_t heard_ ABSL_GUARDED_BY(mutex_) = 0;
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_REQUESTS_SILENCE_WATCH_H_
