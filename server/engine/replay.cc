// Engine::Record and Engine::Replay: which programs, which memory.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "server/engine/compile_options.h"
#include "server/engine/engine.h"

namespace kiln::server {
namespace {

// `status` about the buffer of this number.
absl::Status AtBuffer(const absl::Status& status, size_t number) {
  v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
  detail.set_field(absl::StrCat("buffers[", number, "]"));
  return MakeError(detail, absl::StrCat("buffer ", number, ": ", status.message()));
}

}  // namespace

absl::StatusOr<RecordedPrograms> Engine::FindRecorded(const v1::RecordSequenceRequest& request) {
  RecordedPrograms found;
  KILN_ASSIGN_OR_RETURN(found.device, FindDevice(request.device()));
  if (const auto count = static_cast<size_t>(request.programs_size()); count > runtime::kMostSteps) {
    return runtime::RecordingTooLarge("programs", runtime::kMostSteps, count);
  }
  for (int i = 0; i < request.programs_size(); ++i) {
    const v1::RecordedProgram& wanted = request.programs(i);
    compiler::Options options = ToOptions(wanted.options());
    options.limits = options_.limits;
    auto id = Identify(nullptr, wanted.graph_hash(), request.device(), options);
    if (!id.ok()) return Annotate(id.status(), absl::StrCat("program ", i));
    const ProgramStore::Program program = store_.Find(*id);
    if (program == nullptr) return Annotate(NeedGraph(*id), absl::StrCat("program ", i));
    found.keys.push_back(id->key);
    found.programs.push_back(program->program);
  }
  return found;
}

void Engine::Record(const v1::RecordSequenceRequest& request, const Control& control, RecordCallback done) {
  pool_->Schedule([this, &request, control, done = std::move(done)]() mutable {
    if (absl::Status wanted = control.Check(); !wanted.ok()) return done(std::move(wanted));
    auto programs = FindRecorded(request);
    if (!programs.ok()) return done(std::move(programs).status());
    done(recordings_.Record(request, *programs));
  });
}

void Engine::Replay(const ReplayRequest& request, const Control& control, ReplayCallback done) {
  ExecuteTiming timing;
  const absl::Time begin = absl::Now();
  auto recording = recordings_.Find(request.recording);
  if (!recording.ok()) return done(std::move(recording).status());
  if (absl::Status fits = (*recording)->sequence->CheckCounts(request.buffers.size(), request.integers.size());
      !fits.ok())
    return done(std::move(fits));
  const absl::Time found = absl::Now();
  timing.cache = absl::ToDoubleMicroseconds(found - begin);
  absl::InlinedVector<runtime::hal::BufferSlice, 16> slices;
  for (size_t i = 0; i < request.buffers.size(); ++i) {
    auto range = buffers_.Resolve(request.buffers[i], absl::nullopt, request.caller.get());
    if (!range.ok()) return done(AtBuffer(range.status(), i));
    slices.push_back(std::move(range->slice));
  }
  timing.h2d = absl::ToDoubleMicroseconds(absl::Now() - found);
  executor_.Run((*recording)->sequence, slices, {.control = control, .results = {}, .variables = request.integers},
                [timing, done = std::move(done)](absl::StatusOr<runtime::RunResult> run) mutable {
                  if (!run.ok()) return done(std::move(run).status());
                  timing.queue = run->queue_seconds * 1e6;
                  timing.device = run->device_seconds * 1e6;
                  done(timing);
                });
}

}  // namespace kiln::server
