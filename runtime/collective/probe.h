// Asking queues whether they have come as far as a meeting, before they meet.
//
// A probe has an entry in each queue that waits for nothing. A device that is stuck
// behind something long does not reach its entry, and the others know nothing of it:
// they go on with whatever they have. When all have been reached, the meeting takes
// place, with a short timeout, since all queues were just seen moving; if one is busy
// again after all, they are asked anew, and the next timeout is longer.
//
// No thread waits for a probe, so another looks after those that are under way.
#ifndef KILN_RUNTIME_COLLECTIVE_PROBE_H_
#define KILN_RUNTIME_COLLECTIVE_PROBE_H_

#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/collective/meeting.h"

namespace kiln::runtime::collective {

class Probe : public std::enable_shared_from_this<Probe> {
 public:
  // As Meetings::Submit.
  static void Start(Meetings& meetings, ProbeWatch& watch, MeetingRequest request, hal::DoneCallback done);

  // Ends it if it is not wanted any more or a device has not come in time; whether it
  // need not be looked at again.
  bool Look();

 private:
  enum class State { kAsking, kMeeting, kEnded };

  Probe(Meetings& meetings, ProbeWatch& watch, MeetingRequest request, hal::DoneCallback done);
  void Ask();
  void Reached(uint32_t round, uint32_t rank);
  void Meet();
  void OnMet(absl::Status status);
  void End(absl::Status status);

  Meetings& meetings_;
  ProbeWatch& watch_;
  // Its work is let go when the probe ends.
  MeetingRequest request_;
  hal::DoneCallback done_;

  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kAsking;
  uint32_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<bool> here_ ABSL_GUARDED_BY(mutex_);
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  // From the first arrival on.
  absl::Time until_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

// Looks at probes a few times a second, while there are any. Safe from any thread.
class ProbeWatch {
 public:
  ProbeWatch() = default;
  ~ProbeWatch();

  void Add(std::shared_ptr<Probe> probe);

 private:
  void Run();

  absl::Mutex mutex_;
  std::list<std::shared_ptr<Probe>> probes_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // Begun with the first that has to wait.
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_PROBE_H_
