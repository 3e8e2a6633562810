// What is sampled and waits to be exported, tenant by tenant.
//
// Each tenant has a place of its own with room for so many records, and its oldest give way to its
// newest: whoever makes many loses his own. They are taken in turns. Runs come before their call,
// and are taken with it.
#ifndef KILN_SERVER_OTLP_BACKLOG_H_
#define KILN_SERVER_OTLP_BACKLOG_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "base/clock.h"
#include "server/metrics/metrics.h"
#include "server/trace/traces.h"

namespace kiln::server {

// Safe from any thread.
class Backlog final : public TraceSink {
 public:
  // Some 350 KiB of one tenant, and half as much again where each call had something compiled.
  static constexpr size_t kCallsOfOne = 512, kRunsOfOne = 2048;

  // What gives way is counted.
  explicit Backlog(Metrics* metrics) : metrics_(metrics) {}

  void OnCall(const CallRecord& call, const CompileStages* stages) override;
  void OnRun(const RunOfDevice& run) override;

  struct Taken {
    std::vector<CallRecord> calls;
    absl::flat_hash_map<uint64_t, CompileStages> stages;  // by their numbers, of those that have any
    std::vector<RunOfDevice> runs;                        // of these, in the order in which they ended

    size_t records() const { return calls.size() + runs.size(); }
  };
  // The oldest of some tenants, kCallsAtOnce of each, until there are kEnough calls; next time of the others. Nothing
  // if there is no call. For one thread.
  Taken Take();

  // Until there are enough calls for a request, Wake is called, or so long.
  void Wait(absl::Duration most);
  void Wake();

 private:
  static constexpr size_t kCallsAtOnce = 64, kEnough = 256;
  // Nobody's, those of numbered accounts, and one for all others.
  static constexpr size_t kPlaces = Accounts::kNumbered + 2;

  struct Place {
    absl::Mutex mutex;
    std::deque<CallRecord> calls ABSL_GUARDED_BY(mutex);
    absl::flat_hash_map<uint64_t, CompileStages> stages ABSL_GUARDED_BY(mutex);  // of these
    std::deque<RunOfDevice> runs ABSL_GUARDED_BY(mutex);
  };
  Place& PlaceOf(uint32_t owner) { return places_[owner < kPlaces ? owner : kPlaces - 1]; }
  void TakeFrom(Place& place, Taken& taken);
  // The oldest call.
  void PushOut(Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(place.mutex);

  Metrics* const metrics_;
  std::array<Place, kPlaces> places_;
  size_t next_ = 0;  // of who takes
  std::atomic<size_t> calls_{0};
  Bell bell_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_OTLP_BACKLOG_H_
