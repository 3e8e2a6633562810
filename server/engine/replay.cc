// Engine::Record and Engine::Replay: which programs, which memory.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/engine/engine.h"
#include "server/engine/executions/count_timing.h"
#include "server/engine/programs/compile_options.h"

namespace kiln::server {
namespace {

// `status` about the buffer of this number.
absl::Status AtBuffer(const absl::Status& status, size_t number) {
  return WithDetail(Annotate(status, absl::StrCat("buffer ", number)),
                    [&](v1::ErrorDetail& detail) { detail.set_field(absl::StrCat("buffers[", number, "]")); });
}

void Note(CallParts* parts, Part part, absl::Time begin, absl::Time end) {
  if (parts != nullptr) parts->Set(part, begin, end);
}

// What a replay that settles its own poison keeps until it has ended.
struct Replaying final : runtime::RunStart {
  // Whether what it reads is healthy still, now that all before it has ended.
  absl::Status Begin() override {
    KILN_RETURN_IF_ERROR(touched.Check());
    began = true;
    return absl::OkStatus();
  }
  Touched touched;
  bool began = false;
};

}  // namespace

// The programs of a recording, while some of them come from the disk.
struct Engine::Finding {
  Finding(const v1::RecordSequenceRequest& request, SessionPtr caller, RecordCallback done)
      : request(request), caller(std::move(caller)), done(std::move(done)) {}

  // Program `i` is there, or is not; true for the last to arrive.
  bool Arrived(size_t i, const absl::Status& status) {
    if (!status.ok()) {
      absl::MutexLock lock(&mutex);
      if (error.ok() || i < at) {
        error = Annotate(status, absl::StrCat("program ", i));
        at = i;
      }
    }
    return missing.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  // Of the first program that has one.
  absl::Status first_error() {
    absl::MutexLock lock(&mutex);
    return error;
  }

  const v1::RecordSequenceRequest& request;
  const SessionPtr caller;
  RecordCallback done;
  RecordedPrograms found;
  std::atomic<size_t> missing{0};
  absl::Mutex mutex;
  absl::Status error ABSL_GUARDED_BY(mutex);
  size_t at ABSL_GUARDED_BY(mutex) = 0;
};

void Engine::Record(const v1::RecordSequenceRequest& request, const SessionPtr& caller, const Control& control,
                    RecordCallback done) {
  const auto finding = std::make_shared<Finding>(request, caller, std::move(done));
  const auto record = [this, finding, control] {
    pool_->Schedule(control, [this, finding, control] {
      absl::Status status = control.Check();
      if (status.ok()) status = finding->first_error();
      if (!status.ok()) return finding->done(std::move(status));
      const Session* asking = finding->caller.get();
      const TrustDomain domain = DomainOf(asking);
      finding->done(recordings_.Record(finding->request, finding->found, domain, AccountOf(asking),
                                       [&](uint64_t bytes) { return store_.Pay(AccountOf(asking), domain, bytes); }));
    });
  };
  pool_->Schedule(control, [this, finding, control, record] {
    const absl::Status status = FindRecorded(control, finding, record);
    if (!status.ok()) finding->done(status);
  });
}

absl::Status Engine::FindRecorded(const Control& control, const std::shared_ptr<Finding>& finding,
                                  const std::function<void()>& then) {
  const v1::RecordSequenceRequest& request = finding->request;
  KILN_RETURN_IF_ERROR(control.Check());
  KILN_ASSIGN_OR_RETURN(finding->found.device, FindDevice(request.device(), RulesOf(finding->caller.get())));
  const auto count = static_cast<size_t>(request.programs_size());
  if (count > runtime::kMaxSteps) {
    return runtime::RecordingTooLarge("programs", runtime::kMaxSteps, count);
  }
  std::vector<ProgramId> ids;
  std::vector<compiler::Options> options;
  for (int i = 0; i < request.programs_size(); ++i) {
    auto settled = Settled(ToOptions(request.programs(i).options()));
    if (!settled.ok()) return Annotate(settled.status(), absl::StrCat("program ", i));
    options.push_back(*std::move(settled));
    const auto id =
        Identify(nullptr, request.programs(i).graph_hash(), request.device(), options.back(), finding->caller.get());
    if (!id.ok()) return Annotate(id.status(), absl::StrCat("program ", i));
    ids.push_back(*id);
    finding->found.keys.push_back(id->key);
  }
  finding->found.programs.resize(count);
  // One more than there are, so that all are asked for before the last answer counts.
  finding->missing.store(count + 1, std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) {
    store_.GetOrLoad(
        ids[i], options[i], control,
        [this, finding, then, i](absl::StatusOr<ProgramStore::Program> program, runtime::CacheOutcome how) {
          CountLookup(program, how);
          if (program.ok()) finding->found.programs[i] = *program;
          if (finding->Arrived(i, program.status())) then();
        });
  }
  if (finding->Arrived(count, absl::OkStatus())) then();
  return absl::OkStatus();
}

Touched Engine::TouchedBy(const ReplayRequest& request, const Recordings::Handle& recording) const {
  Touched touched;
  for (size_t i = 0; i < request.buffers.size(); ++i) {
    const BufferTable::Shown shown =
        table_.ExtentOf(request.buffers[i].handle, request.buffers[i].offset, absl::nullopt, request.caller.get());
    if (recording == nullptr || i >= recording->sequence->buffers().size()) {
      touched.Reads(shown.extent);
      continue;
    }
    const auto part = [&extent = shown.extent](const runtime::SequenceBytes& bytes) {
      return Extent{extent.poison, std::min(extent.begin + bytes.begin, extent.end),
                    std::min(extent.begin + bytes.end, extent.end)};
    };
    const runtime::SequenceBuffer& buffer = recording->sequence->buffers()[i];
    if (!shown.made) touched.Reads(shown.extent);
    if (!buffer.read.empty()) touched.Reads(part(buffer.read));
    if (!buffer.overwritten.empty()) touched.Overwrites(part(buffer.overwritten));
    if (buffer.written) touched.Changes(part(buffer.changed));
  }
  return touched;
}

void Engine::Replay(const ReplayRequest& request, const Control& control, ReplayCallback done) {
  ExecuteTiming timing;
  const absl::Time begin = SteadyNow();
  absl::StatusOr<Recordings::Handle> recording = request.found;
  if (request.found == nullptr) recording = recordings_.Find(request.recording, DomainOf(request.caller.get()));
  if (!recording.ok()) return done(std::move(recording).status());
  if (absl::Status its = CheckDevices(RulesOf(request.caller.get()), (*recording)->sequence->devices()); !its.ok())
    return done(std::move(its));
  if (absl::Status fits = (*recording)->sequence->CheckCounts(request.buffers.size(), request.integers.size());
      !fits.ok())
    return done(std::move(fits));
  const absl::Time found = SteadyNow();
  timing.cache = absl::ToDoubleMicroseconds(found - begin);
  Note(request.parts, Part::kCache, begin, found);
  absl::InlinedVector<runtime::hal::BufferSlice, 16> slices;
  for (size_t i = 0; i < request.buffers.size(); ++i) {
    auto range = buffers_.Resolve(request.buffers[i], absl::nullopt, request.caller.get());
    if (!range.ok()) return done(AtBuffer(range.status(), i));
    slices.push_back(std::move(range->slice));
  }
  auto replaying = std::make_unique<Replaying>();
  if (!request.settled_by_caller) replaying->touched = TouchedBy(request, *recording);
  if (absl::Status healthy = replaying->touched.Check(); !healthy.ok()) return done(std::move(healthy));
  if (absl::Status paid = CheckRate(control.account, Quota::kDeviceSeconds); !paid.ok()) return done(std::move(paid));
  if (absl::Status may = CheckEach(control.account, Quota::kSecondsOfARun, (*recording)->run_seconds); !may.ok())
    return done(std::move(may));
  const absl::Time asked = SteadyNow();
  timing.h2d = absl::ToDoubleMicroseconds(asked - found);
  Note(request.parts, Part::kArguments, found, asked);
  const runtime::Estimate& estimate = (*recording)->sequence->estimate();
  const absl::Span<runtime::hal::Device* const> devices = (*recording)->sequence->devices();
  if (request.parts != nullptr && !devices.empty()) request.parts->device.Set(devices.front()->name());
  turns_.Take(
      {control,
       {devices.begin(), devices.end()},
       estimate.expected_ns(),
       /*guessed=*/estimate.guessed(),
       /*may_be_long=*/estimate.floor_ns() > estimate.expected_ns(),
       estimate.spread_ns(),
       &(*recording)->trials,
       (*recording)->id},
      [this, timing, asked, parts = request.parts, recording = *std::move(recording), slices = std::move(slices),
       control, domain = MemoryDomainOf(request.caller.get()), integers = request.integers,
       replaying = std::move(replaying), done = std::move(done)](absl::StatusOr<Turn> turn) mutable {
        if (!turn.ok()) {
          CountEnded(*metrics_, turn.status(), Place::kQueue);
          return done(std::move(turn).status());
        }
        const absl::Time submitted = SteadyNow();
        timing.queue = absl::ToDoubleMicroseconds(submitted - asked);
        Note(parts, Part::kTurn, asked, submitted);
        runtime::RunOptions options = {.control = control,
                                       .results = {},
                                       .variables = integers,
                                       .start = replaying.get(),
                                       .collectives = &collectives_};
        options.control.interruption = turn->interruption();
        options.control.domain = domain;
        executor_.Run(recording->sequence, slices, options,
                      [this, timing, parts, submitted, turn = *std::move(turn), replaying = std::move(replaying),
                       done = std::move(done)](absl::StatusOr<runtime::RunResult> run) mutable {
                        if (run.ok() || replaying->began) replaying->touched.Settle(run.status());
                        if (run.ok()) {
                          turn.End(static_cast<uint64_t>(run->device_seconds * 1e9));
                        } else {
                          turn.End();
                        }
                        CountEnded(*metrics_, run.status(), replaying->began ? Place::kDevice : Place::kQueue);
                        if (!run.ok()) return done(std::move(run).status());
                        timing.queue += run->queue_seconds * 1e6;
                        timing.device = run->device_seconds * 1e6;
                        if (parts != nullptr) parts->SetRun(submitted, run->queue_seconds, run->device_seconds);
                        CountTiming(*metrics_, timing);
                        done(timing);
                      });
      });
}

}  // namespace kiln::server
