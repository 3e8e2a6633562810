// ProgramStore: compiled code that tenants share, where the file of tenants says so (kiln.v1.CacheSharing).
// Tested by server/engine/sharing_test.cc.
//
// Code is kept a second time under a domain that several tenants have: in memory and on disk. What is loaded of it is
// each tenant's own, and so is what it may know of: where not all is open, only graphs that it has sent itself exist.
//
// Where sharing is hidden, a tenant that sends a graph whose code is there must not find out that somebody else has
// had it compiled. So all goes as if it were compiled: the same queue for the same threads, the same places and
// seconds of its quotas, the code loaded and stored as after a compilation; only the compiler is not called, and in
// its place the thread sleeps for what the compilation took. How busy the server was then and is now would still tell
// the one from the other, so both take a round time: the next power of two of kGrain. And nobody waits for another
// tenant's compilation, which would end sooner, or fail. Code is shared for graphs that are equal byte for byte: of two
// that have one hash, the one might show in what is made of the other how that was written down.
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "base/blake3.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/engine/programs/failed_stages.h"
#include "server/engine/programs/program_store.h"

namespace kiln::server {
namespace {

// How soon who is not wanted any more notices.
constexpr absl::Duration kLook = absl::Milliseconds(5);

absl::Status SleepUntil(absl::Time end, const Control& control) {
  for (;;) {
    if (absl::Status wanted = control.Check(); !wanted.ok()) return wanted;
    const absl::Duration left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) return absl::OkStatus();
    absl::SleepFor(std::min(left, kLook));
  }
}

// Longer than most small graphs take, also where the machine has much else to do.
constexpr absl::Duration kGrain = absl::Milliseconds(32);

absl::Duration RoundedUp(absl::Duration took) {
  absl::Duration round = kGrain;
  while (round < took) round *= 2;
  return round;
}

// From 0.9 to 1.1: a compilation does not take as long twice. By chance that nobody can guess.
double AboutOne() {
  uint32_t number = 0;
  KILN_CHECK(getrandom(&number, sizeof(number), 0) == sizeof(number));
  return 0.9 + 0.2 * static_cast<double>(number) / 4294967296.0;
}

uint64_t MicrosSince(absl::Time begin) { return static_cast<uint64_t>(absl::ToInt64Microseconds(SteadyNow() - begin)); }

}  // namespace

bool ProgramStore::MaySeeShared(const ProgramId& id, const compiler::Options& options, bool sent) const {
  if (!id.shares()) return false;
  switch (id.sharing) {
    case CacheSharing::kNone: return false;
    case CacheSharing::kAll: return true;
    case CacheSharing::kGroup: return sent || presented_.Has(id.domain, CodeKey(id, id.shared, options));
    case CacheSharing::kHidden: return sent && presented_.Has(id.domain, CodeKey(id, id.shared, options));
  }
  return false;
}

ProgramId ProgramStore::AsSent(const ProgramId& id, const v1::Graph& graph) {
  ProgramId exact = id;
  if (!id.shares() || id.sharing != CacheSharing::kHidden) return exact;
  Blake3 hasher;
  hasher.Update(id.shared.view());
  hasher.Update(Blake3Of(graph.SerializeAsString()).view());
  exact.shared = hasher.Finish();
  return exact;
}

std::shared_ptr<ProgramStore::Code> ProgramStore::FindShared(const ProgramId& id, const compiler::Options& options) {
  if (std::shared_ptr<Code> code = codes_.Find(CodeKey(id, id.shared, options)); code != nullptr) return code;
  if (disk_ == nullptr) return nullptr;
  auto loaded = disk_->Load(disk_->HeaderOf(id.shared, id.graph_hash, id.target, id.device->target(), options),
                            /*again=*/true);
  if (!loaded.has_value()) return nullptr;
  return std::make_shared<Code>(Code{std::move(loaded->program), std::move(loaded->graph), loaded->compile_us});
}

absl::StatusOr<ProgramStore::Cache::Entry> ProgramStore::CompileShared(const ProgramId& id, const v1::Graph& graph,
                                                                       const compiler::Options& options,
                                                                       const Asker& asker, absl::Time asked) {
  const absl::Time begin = SteadyNow();
  const Control& control = asker.control;
  const bool hidden = id.sharing == CacheSharing::kHidden;
  const auto wait = [&](absl::Duration took) {
    const Meter meter(control.account, Quota::kCompileSeconds);
    return SleepUntil(begin + RoundedUp(took), control);
  };
  const auto keep = [&](std::shared_ptr<Code> code) -> absl::StatusOr<Cache::Entry> {
    auto entry = KeepNew(id, *code);
    // They would tell whether the compiler was called.
    if (!entry.ok()) return hidden ? WithoutStages(entry.status()) : entry.status();
    if (hidden) entry->value->stages = nullptr;
    entry->value->compile_us = MicrosSince(begin);
    Share(id, options, std::move(code), *entry->value);
    return entry;
  };
  std::shared_ptr<Code> code;
  if (hidden) {
    MayLeave looking(asker, pool_);
    code = FindShared(id, options);
    KILN_RETURN_IF_ERROR(looking.End());
  }
  if (code != nullptr) {
    KILN_RETURN_IF_ERROR(wait(absl::Microseconds(static_cast<double>(code->compile_us) * AboutOne())));
    MayLeave loading(asker, pool_);
    auto entry = keep(std::move(code));
    const auto detail = DetailOf(entry.status());
    if (entry.ok() || !detail.has_value() || detail->code() != v1::INTERNAL_FAULT) return entry;
    // It cannot be loaded: what is compiled takes its place.
    KILN_RETURN_IF_ERROR(loading.End());
  }
  auto made = MakeCode(id, graph, options, control, asked);
  if (!made.ok()) return hidden ? WithoutStages(made.status()) : made.status();
  made->value->compile_us = MicrosSince(begin);
  if (hidden) KILN_RETURN_IF_ERROR(wait(absl::Microseconds(made->value->compile_us)));
  const MayLeave loading(asker, pool_);
  return keep(std::move(made->value));
}

void ProgramStore::Share(const ProgramId& id, const compiler::Options& options, std::shared_ptr<Code> code,
                         StoredProgram& stored) {
  const Digest key = CodeKey(id, id.shared, options);
  // What is kept says how long the compiler took, however often the code is served.
  const uint64_t answered_us = std::exchange(stored.compile_us, code->compile_us);
  Publish(id, id.shared, options, code->program, stored, /*replaces=*/false);
  stored.compile_us = answered_us;
  codes_.Put(key, EntryOf(std::move(code)));
  presented_.Add(id.domain, key);
}

}  // namespace kiln::server
