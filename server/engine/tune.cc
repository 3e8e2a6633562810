// Engine::Tune: a search for a program that is there, or is to be; and the program anew,
// in its own place.
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/graph/devices.h"
#include "server/engine/engine.h"
#include "server/engine/programs/joiner.h"

namespace kiln::server {
namespace {

// One call, from the look for its program to the answer.
struct Tuning {
  TuneRequest request;
  Control control;
  TuneCallback done;
  ProgramId id;
  v1::Graph graph;
};

}  // namespace

void Engine::Tune(TuneRequest request, const Control& control, TuneCallback done) {
  if (request.options.beam == 0) request.options.beam = kTuneWidth;
  auto settled = Settled(std::move(request.options));
  if (!settled.ok()) return done(std::move(settled).status());
  request.options = *std::move(settled);
  // The program that is replaced is the one that rules made.
  compiler::Options plain = request.options;
  plain.beam = plain.beam_budget_ms = 0;
  const auto id = Identify(request.graph, request.graph_hash, request.device, plain, request.caller.get(),
                           /*hashed=*/nullptr, control);
  if (!id.ok()) return done(id.status());
  if (request.graph != nullptr && NamesSeveralDevices(*request.graph))
    return done(MakeError(v1::UNSUPPORTED_SHARD, "schedules are searched for programs on one device alone"));

  auto tuning = std::make_shared<Tuning>(Tuning{std::move(request), control, std::move(done), *id, {}});
  tuning->control.domain = MemoryDomainOf(tuning->request.caller.get());
  const auto search = [this, tuning, plain](absl::StatusOr<ProgramStore::Program> found, runtime::CacheOutcome) {
    if (!found.ok()) return tuning->done(std::move(found).status());
    if ((*found)->program->single() == nullptr)
      return tuning->done(MakeError(v1::UNSUPPORTED_SHARD, "schedules are searched for programs on one device alone"));
    if (!tuning->graph.ParseFromString((*found)->graph))
      return tuning->done(MakeError(v1::INTERNAL_FAULT, "a stored graph cannot be read back"));
    tuning_queue_.Schedule(tuning->control, [this, tuning, plain] {
      // It may have waited behind other searches for long.
      if (absl::Status wanted = tuning->control.Check(); !wanted.ok()) return tuning->done(std::move(wanted));
      absl::StatusOr<compiler::Tuned> tuned =
          tuning_queue_.Run(*tuning->id.device, tuning->graph, tuning->request.options,
                            {tuning->id.domain, tuning->control}, tuning->request.progress);
      if (!tuned.ok()) return tuning->done(std::move(tuned).status());
      // What was found is kept, also for one who leaves while it is loaded.
      const auto waits = std::make_shared<Joiner<TuneCallback>>(std::move(tuning->done));
      waits->WatchBy(pool_.get(), tuning->control, [tuning](TuneCallback& done) { done(tuning->control.Check()); });
      const absl::Status kept = store_.Replace(tuning->id, plain, tuned->executable, tuning->graph);
      TuneCallback done = waits->Take();
      if (done == nullptr) return;
      if (!kept.ok()) return done(kept);
      done(TuneResult{tuning->id.graph_hash, *std::move(tuned)});
    });
  };
  if (tuning->request.graph != nullptr) return store_.GetOrCompile(*id, *tuning->request.graph, plain, control, search);
  store_.GetOrLoad(*id, plain, control, search);
}

}  // namespace kiln::server
