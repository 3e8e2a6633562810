// What has ended lately, always kept, and shown to who asks: calls with their parts, commands of
// streams, compilations, runs of devices, and for a while after somebody asked for them, single kernels.
//
// A call is one record, not one a part, so that keeping it takes some thirty nanoseconds. It has
// its ids from its beginning on: what runs for it is told by them (runtime/observer.h).
//
// Some calls are sampled: of a caller that says so, and of the others one in so many. Those go to
// a sink as well, if there is one, and their kernels are timed.
#ifndef KILN_SERVER_TRACE_TRACES_H_
#define KILN_SERVER_TRACE_TRACES_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "runtime/observer.h"
#include "server/trace/parts.h"
#include "server/trace/ring.h"
#include "server/trace/stages.h"
#include "server/trace/trace_context.h"

namespace kiln::server {

// Whose something is, in a record: Account::number() + 1, or 0 for nobody's.
inline uint32_t OwnerNumber(const Account* account) {
  return account == nullptr ? 0 : static_cast<uint32_t>(account->number() + 1);
}

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

// Where a call, or a command of a stream, stands in its trace.
struct CallTrace {
  TraceId trace_id = {};
  SpanId span_id = {};
  SpanId parent = {};    // all zero: none
  bool remote = false;   // the parent is the caller's own, by its header
  bool linked = false;   // the parent is the command's stream, and of another trace: TraceOf(parent)
  bool sampled = false;  // for the sink

  // As LaunchControl::trace: of a sampled one, its span.
  uint64_t number() const {
    uint64_t id = 0;
    if (sampled) std::memcpy(&id, span_id.data(), sizeof(id));
    return id;
  }
};

struct CallRecord {
  CallTrace trace;
  uint8_t command = 0;  // of a stream: its field's number in SubmitRequest; 0: a call
  uint32_t owner = 0;
  uint16_t method = 0;  // a row of server/services/rpcs.h
  uint16_t status = 0;  // gRPC's
  Interval time;
  CallParts parts;
};

// Of a call that waited for a program to be compiled: few do, so it is a record of its own.
struct StagesOfCall {
  SpanId call = {};
  CompileStages stages;
};

struct RunOfDevice {
  Interval time;
  uint64_t call = 0;  // CallTrace::number()
  uint32_t owner = 0;
  uint32_t launches = 0;
  ShortText<16> device;
  ShortText<40> kernel;  // empty: a whole run
};

// Gets what is sampled, on whichever thread it ended; must return quickly.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  // `stages` is null if the call had nothing compiled.
  virtual void OnCall(const CallRecord& call, const CompileStages* stages) = 0;
  // A run or a kernel of a call; before the call, but for one that was given up.
  virtual void OnRun(const RunOfDevice& run) = 0;
};

// That of a call which came without one.
TraceId TraceOf(const SpanId& span);
// The id of a part of it, by number.
SpanId ChildOf(const SpanId& span, uint64_t number);

// The name of whose a record is: empty for nobody's, and for tenants beyond those that accounts have by number.
std::string OwnerName(const Accounts& accounts, uint32_t owner);

// Safe from any thread.
class Traces final : public runtime::RuntimeObserver {
 public:
  // In at most `bytes`, 0 for none. `next` is told what this is told; it may be null, and outlives this.
  explicit Traces(uint64_t bytes, runtime::RuntimeObserver* next = nullptr);

  // Before the first call: from now on `sink` gets what is sampled: calls whose callers have it so, and so much of
  // the others, 0 to 1.
  void SetSink(std::shared_ptr<TraceSink> sink, double ratio);

  // What is sampled of calls whose callers do not say: so much, 0 to 1, if it is on; else nothing.
  struct Sampling {
    bool on = false;
    double ratio = 0;
  };
  // Whether there is a sink.
  bool exports() const { return sink_ != nullptr; }
  // As it is, and as SetSink has set it.
  Sampling sampling() const;
  Sampling first_sampling() const { return first_sampling_; }
  void SetSampling(Sampling sampling);

  // Whether anything is kept at all.
  bool on() const { return calls_.keeps() || sink_ != nullptr; }

  // The ids of a call that begins, as its caller says; or of its own.
  CallTrace Begin(const std::optional<TraceContext>& context);
  // Of a command: of its stream's trace, if the client named one for that; else of its own, linked to it.
  CallTrace BeginCommand(const CallTrace& stream);

  // One that has ended. `stages` are of the program that it waited for, or null: what of them was in its own part
  // "compile" is kept.
  void Keep(const CallRecord& record, const CompileStages* stages = nullptr);

  // Keeps kernels, too, until then.
  void KeepLaunches(absl::Time until) { launches_until_ns_.store(absl::ToUnixNanos(until), std::memory_order_relaxed); }

  // Whose records, and since when they ended.
  struct Wanted {
    std::optional<uint32_t> owner;  // none: all
    int64_t since_ns = 0;           // by when it ended
    int64_t begun_since_ns = 0;
  };
  // Oldest end first. They are copied while others write.
  std::vector<CallRecord> Calls(const Wanted& wanted) const;
  std::vector<RunOfDevice> Runs(const Wanted& wanted) const;
  // By their calls, all that are kept.
  absl::flat_hash_map<SpanId, CompileStages> Stages() const;

  void OnRun(const runtime::RunRecord& record) override;
  bool WantsLaunches(uint64_t trace) const override;
  void OnLaunch(const runtime::LaunchRecord& record) override;

 private:
  // One of its own.
  CallTrace Fresh();

  Ring<CallRecord> calls_;
  Ring<StagesOfCall> stages_;
  Ring<RunOfDevice> runs_, launches_;
  std::shared_ptr<TraceSink> sink_;         // null: nothing is sampled
  Sampling first_sampling_;                 // written with it
  std::atomic<uint64_t> sampled_below_{0};  // of what the end of a trace's id says
  mutable absl::Mutex sampling_mutex_;
  Sampling sampling_ ABSL_GUARDED_BY(sampling_mutex_);
  runtime::RuntimeObserver* const next_;
  std::atomic<int64_t> launches_until_ns_{0};
  const uint64_t seed_;
  std::atomic<uint64_t> made_{0};  // ids
};

}  // namespace kiln::server

#endif  // KILN_SERVER_TRACE_TRACES_H_
