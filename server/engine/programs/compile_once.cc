// ProgramStore: what is compiled is compiled by one thread, whoever and for whichever devices it is asked for.
// Tested by server/engine/compile_once_test.cc.
//
// Devices of one target have their code in common. One caller has it made, on a thread of the pool; those that ask for
// another device meanwhile wait without a thread, each for as long as it is waited for. When the code is there, the
// thread that made it loads it for all of them, about a millisecond each: they are callers of one tenant. Where the
// one that had it made has gone before it was, one of the others has it made.
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "server/engine/programs/failed_stages.h"
#include "server/engine/programs/joiner.h"
#include "server/engine/programs/program_store.h"

namespace kiln::server {
namespace {

// Of one that found it on disk, where the others find it, too.
absl::Status IsElsewhere() { return absl::AlreadyExistsError("the code is on disk"); }

}  // namespace

void ProgramStore::ScheduleCompile(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options,
                                   const Asker& asker, Cache::Finish finish) {
  // What is compiled for others, too, may not be waited for (shared_code.cc).
  if (share_code_ && !id.shares()) return CompileForAll(id, graph, options, asker, std::move(finish));
  OnPool(id, graph, options, asker,
         [finish = std::move(finish)](absl::StatusOr<Cache::Entry> entry, std::shared_ptr<Code>) mutable {
           finish(std::move(entry));
         });
}

void ProgramStore::OnPool(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options,
                          const Asker& asker, Made made) {
  auto place = PlaceToCompile(asker.control.account);
  if (!place.ok()) return made(std::move(place).status(), nullptr);
  auto job = [this, id, &graph, options, asker, asked = SteadyNow(), place = *std::move(place),
              made = std::move(made)]() mutable {
    absl::StatusOr<Cache::Entry> entry;
    std::shared_ptr<Code> code;
    // It may have waited in the pool's queue for long.
    if (absl::Status wanted = asker.control.Check(); !wanted.ok()) {
      CompileStages stages;
      stages.Add(CompileStage::kWait, asked, SteadyNow());
      entry = WithStages(std::move(wanted), stages);
    } else {
      entry = LoadOrCompile(id, graph, options, asker, asked, code);
    }
    place.Release();  // whoever is answered may compile again; who has left, once its program is loaded
    made(std::move(entry), std::move(code));
  };
  if (options.beam > 0 && tuning_queue_ != nullptr) return tuning_queue_->Schedule(asker.control, std::move(job));
  pool_->Schedule(asker.control, std::move(job));
}

absl::StatusOr<ProgramStore::Cache::Entry> ProgramStore::LoadOrCompile(const ProgramId& id, const v1::Graph& graph,
                                                                       const compiler::Options& options,
                                                                       const Asker& asker, absl::Time asked,
                                                                       std::shared_ptr<Code>& code) {
  if (disk_ == nullptr) return Compile(id, graph, options, asker, asked, code);
  // Another server that has the lock is compiling the same, and then it is stored. Where it must not be told
  // whether anybody is, no other tenant's is waited for.
  const bool others = id.shares() && id.sharing != CacheSharing::kHidden;
  const v1::StoredHeader header =
      disk_->HeaderOf(others ? id.shared : id.domain, id.graph_hash, id.target, id.device->target(), options);
  const auto lock = disk_->store().LockKey(header.key(), [&asker] { return !asker.control.Check().ok(); });
  if (absl::Status wanted = asker.control.Check(); !wanted.ok()) return wanted;
  auto loaded = Load(id, options, asker, /*sent=*/true, /*again=*/true);
  if (!loaded.ok()) return std::move(loaded).status();
  if (loaded->has_value()) return **std::move(loaded);
  return Compile(id, graph, options, asker, asked, code);
}

void ProgramStore::CompileForAll(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options,
                                 const Asker& asker, Cache::Finish finish) {
  // Of the one that has it made, its own program, or why it has none.
  const auto own = std::make_shared<std::optional<absl::StatusOr<Cache::Entry>>>();
  const auto joiner = std::make_shared<Joiner<Cache::Finish>>(std::move(finish));
  bool first = false;
  codes_.GetOrStart(
      CodeKey(id, id.domain, options),
      [&](CodeCache::Finish made) {
        first = true;
        OnPool(id, graph, options, asker,
               [own, made = std::move(made)](absl::StatusOr<Cache::Entry> entry, std::shared_ptr<Code> code) mutable {
                 const absl::Status status = entry.ok() ? IsElsewhere() : entry.status();
                 *own = std::move(entry);
                 if (code == nullptr) return made(status);
                 made(EntryOf(std::move(code)));
               });
      },
      [this, id, &graph, options, asker, begin = SteadyNow(), own, joiner](CodeCache::Result code,
                                                                           runtime::CacheOutcome how) {
        Cache::Finish answer = joiner->Take();
        if (answer == nullptr) return;
        if (own->has_value()) return answer(*std::move(*own));
        if (absl::Status wanted = asker.control.Check(); !wanted.ok()) return answer(std::move(wanted));
        if (code.ok()) {
          const MayLeave loading(asker, pool_);
          auto entry = KeepNew(id, **code);
          if (!entry.ok()) return answer(std::move(entry).status());
          entry->value->loaded = how == runtime::CacheOutcome::kHit;
          entry->value->compile_us = static_cast<uint64_t>(absl::ToInt64Microseconds(SteadyNow() - begin));
          if (disk_ != nullptr) {
            entry->value->stored_key =
                disk_->HeaderOf(id.domain, id.graph_hash, id.target, id.device->target(), options).key();
          }
          return answer(*std::move(entry));
        }
        if (absl::IsAlreadyExists(code.status())) {
          auto loaded = Load(id, options, asker, /*sent=*/true, /*again=*/true);
          if (!loaded.ok()) return answer(std::move(loaded).status());
          if (loaded->has_value()) return answer(**std::move(loaded));
        } else if (!EndedByItsCaller(code.status())) {
          return answer(code.status());
        }
        CompileForAll(id, graph, options, asker, std::move(answer));
      });
  if (first) return;
  joiner->WatchBy(pool_, asker.control, [control = asker.control](Cache::Finish& answer) { answer(control.Check()); });
}

}  // namespace kiln::server
