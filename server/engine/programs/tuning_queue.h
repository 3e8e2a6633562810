// Searches for schedules, on threads of their own, so that no compilation waits behind one. One works at a
// time, so that two do not disturb each other's times: callers take turns, by their weights, between two steps of
// their searches.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_TUNING_QUEUE_H_
#define KILN_SERVER_ENGINE_PROGRAMS_TUNING_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "compiler/options/options.h"
#include "compiler/search/tuning.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"
#include "runtime/hal/device.h"
#include "server/engine/programs/compile_fn.h"
#include "server/engine/programs/compile_pool.h"
#include "server/fair/fair_mutex.h"
#include "server/fair/turns.h"

namespace kiln::server {

// The search, as the composition root gives it (compiler/search/tune.h); candidates are compiled for the same.
using TuneFn =
    std::function<absl::StatusOr<compiler::Tuned>(const v1::Graph&, const v1::Target&, const compiler::Options&,
                                                  compiler::TuneOptions, compiler::KernelTimer&, const CompileFor&)>;

// What clients may ask for. A width of 0: nothing at all.
struct BeamLimits {
  uint32_t max_width = 16;
  uint32_t default_budget_ms = 10'000;
  uint32_t max_budget_ms = 60'000;
};

// Brings options within the limits; NOT_ALLOWED if they want a search where there is none.
absl::Status SettleBeam(const BeamLimits& limits, compiler::Options& options);

// Safe from any thread.
class TuningQueue {
 public:
  // `helpers` threads of `pool` compile candidates too; each timed run is a turn of `turns` (server/fair/turns.h).
  // Both outlive it. `tune` may be null: then every search is UNSUPPORTED_OP.
  TuningQueue(TuneFn tune, CompilePool* pool, uint32_t helpers, Turns* turns)
      : tune_(std::move(tune)), pool_(*pool), turns_(*turns), helpers_(helpers) {}
  ~TuningQueue() { Stop(); }

  // Calls `job` as CompilePool does, on the searching thread of its caller.
  void Schedule(const runtime::hal::LaunchControl& control, absl::AnyInvocable<void()> job);

  // The search that `options` want; blocks until it has ended. To be called in a job.
  absl::StatusOr<compiler::Tuned> Run(runtime::hal::Device& device, const v1::Graph& graph,
                                      const compiler::Options& options, const CompileFor& whom,
                                      std::function<void(const compiler::TuneEvent&)> progress);

  // Ends what is under way, CANCELLED, and waits for it.
  void Stop();

 private:
  using Threads = absl::flat_hash_map<uint64_t, std::unique_ptr<CompilePool>>;

  const TuneFn tune_;
  CompilePool& pool_;
  Turns& turns_;
  const uint32_t helpers_;
  std::atomic<bool> stopping_{false};
  FairMutex searching_;
  absl::Mutex mutex_;
  Threads threads_ ABSL_GUARDED_BY(mutex_);  // by FairOwner::tenant
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_TUNING_QUEUE_H_
