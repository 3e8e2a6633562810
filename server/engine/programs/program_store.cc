#include "server/engine/programs/program_store.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/graph/devices.h"
#include "runtime/exec/load.h"
#include "server/engine/programs/failed_stages.h"
#include "server/engine/programs/program_key.h"

namespace kiln::server {
namespace {

// They read and link, which takes about a millisecond.
constexpr uint32_t kLoadThreads = 2;

bool Has(const absl::Status& status, v1::ErrorCode code) {
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->code() == code;
}

}  // namespace

Digest CodeKey(const ProgramId& id, const TrustDomain& domain, const compiler::Options& options) {
  return ProgramKey(domain, id.graph_hash, PlaceOf(id.target, /*device=*/""), DigestOf(options));
}

absl::Status NeedGraph(const ProgramId& id) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NEED_GRAPH);
  detail.set_field("graph_hash");
  return MakeError(detail, absl::StrCat("no program for graph ", absl::BytesToHexString(id.graph_hash.view()), " on ",
                                        id.device->name(), " with these options; send the graph once"));
}

absl::Status CheckSecondsOf(const Account* account, const v1::Cost& cost) {
  return CheckEach(account, Quota::kSecondsOfARun, static_cast<double>(cost.run_ns()) / 1e9);
}

bool EndedByItsCaller(const absl::Status& status) {
  return status.code() == absl::StatusCode::kCancelled || status.code() == absl::StatusCode::kDeadlineExceeded;
}

bool FromCache(const StoredProgram& program, runtime::CacheOutcome how) {
  return how == runtime::CacheOutcome::kHit || program.loaded;
}

ProgramStore::ProgramStore(uint64_t limit_bytes, CompileFn compile, CompilePool* pool, FindDeviceFn find,
                           bool share_code, ProgramDisk* disk, TuningQueue* tuning_queue)
    : compile_(std::move(compile)),
      pool_(pool),
      limit_bytes_(limit_bytes),
      share_code_(share_code),
      disk_(disk),
      find_(std::move(find)),
      tuning_queue_(tuning_queue),
      loads_(std::make_unique<CompilePool>(kLoadThreads)),
      cache_(limit_bytes),
      codes_(limit_bytes / 4) {
  if (disk_ != nullptr) disk_->store().BeforeEviction([this] { TouchUsed(); });
}

ProgramStore::Program ProgramStore::Find(const ProgramId& id) {
  Program program = cache_.Find(id.key);
  if (program == nullptr) return nullptr;
  // The key is a digest of the graph's hash among other things.
  KILN_CHECK(program->graph_hash == id.graph_hash);
  program->hits.fetch_add(1, std::memory_order_relaxed);
  return program;
}

ProgramStore::MayLeave::MayLeave(const Asker& asker, CompilePool* pool) : waits_(asker.waits) {
  waits_->WatchBy(pool, asker.control, [control = asker.control](Callback& answer) {
    answer(control.Check(), runtime::CacheOutcome::kComputed);
  });
}

absl::Status ProgramStore::MayLeave::End() {
  if (waits_->StopWatch()) return absl::OkStatus();
  return MakeError(v1::CALL_CANCELLED, "who had the program made has left");
}

void ProgramStore::Ask(const Digest& key, const Control& control, StartFn start, Callback callback, RetryFn retry) {
  bool first = false;
  const auto joiner = std::make_shared<Joiner<Callback>>(std::move(callback));
  cache_.GetOrStart(
      key,
      [&](Cache::Finish finish) {
        first = true;
        start({control, joiner}, std::move(finish));
      },
      [joiner, retry = std::move(retry)](Cache::Result result, runtime::CacheOutcome how) mutable {
        Callback answer = joiner->Take();
        if (answer == nullptr) return;
        if (!result.ok() && how == runtime::CacheOutcome::kJoined && retry(result.status(), answer)) return;
        if (result.ok() && how == runtime::CacheOutcome::kHit) (*result)->hits.fetch_add(1, std::memory_order_relaxed);
        answer(std::move(result), how);
      });
  // Who began it is looked after where it is made: by its control, and by the watch while it is loaded.
  if (first) return;
  joiner->WatchBy(pool_, control,
                  [control](Callback& answer) { answer(control.Check(), runtime::CacheOutcome::kJoined); });
}

void ProgramStore::GetOrCompile(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options,
                                const Control& control, Callback callback) {
  if (absl::Status wanted = control.Check(); !wanted.ok()) {
    return callback(std::move(wanted), runtime::CacheOutcome::kComputed);
  }
  const auto start = [this, &id, &graph, &options](const Asker& asker, Cache::Finish finish) {
    const ProgramId exact = AsSent(id, graph);
    if (!MayBeElsewhere(exact)) return ScheduleCompile(exact, graph, options, asker, std::move(finish));
    loads_->Schedule(asker.control, [this, exact, &graph, options, asker, finish = std::move(finish)]() mutable {
      if (absl::Status wanted = asker.control.Check(); !wanted.ok()) return finish(std::move(wanted));
      auto loaded = Load(exact, options, asker, /*sent=*/true);
      if (!loaded.ok()) return finish(std::move(loaded).status());
      if (loaded->has_value()) return finish(**std::move(loaded));
      ScheduleCompile(exact, graph, options, asker, std::move(finish));
    });
  };
  Ask(id.key, control, start, std::move(callback),
      [this, id, &graph, options, control](const absl::Status& why, Callback& answer) {
        // Whoever began it may have been without the graph, or gone by now.
        if (!EndedByItsCaller(why) && !Has(why, v1::NEED_GRAPH)) return false;
        GetOrCompile(id, graph, options, control, std::move(answer));
        return true;
      });
}

void ProgramStore::GetOrLoad(const ProgramId& id, const compiler::Options& options, const Control& control,
                             Callback callback) {
  if (absl::Status wanted = control.Check(); !wanted.ok()) {
    return callback(std::move(wanted), runtime::CacheOutcome::kComputed);
  }
  if (!MayBeElsewhere(id)) {
    Program program = Find(id);
    if (program == nullptr) return callback(NeedGraph(id), runtime::CacheOutcome::kComputed);
    return callback(std::move(program), runtime::CacheOutcome::kHit);
  }
  const auto start = [this, &id, &options](const Asker& asker, Cache::Finish finish) {
    loads_->Schedule(asker.control, [this, id, options, asker, finish = std::move(finish)]() mutable {
      if (absl::Status wanted = asker.control.Check(); !wanted.ok()) return finish(std::move(wanted));
      auto loaded = Load(id, options, asker, /*sent=*/false);
      if (!loaded.ok()) return finish(std::move(loaded).status());
      if (!loaded->has_value()) return finish(NeedGraph(id));
      finish(**std::move(loaded));
    });
  };
  Ask(id.key, control, start, std::move(callback),
      [this, id, options, control](const absl::Status& why, Callback& answer) {
        if (!EndedByItsCaller(why)) return false;
        GetOrLoad(id, options, control, std::move(answer));
        return true;
      });
}

absl::StatusOr<ProgramStore::Cache::Entry> ProgramStore::Compile(const ProgramId& id, const v1::Graph& graph,
                                                                 const compiler::Options& options, const Asker& asker,
                                                                 absl::Time asked, std::shared_ptr<Code>& code) {
  if (id.shares()) return CompileShared(id, graph, options, asker, asked);
  const absl::Time begin = SteadyNow();
  KILN_ASSIGN_OR_RETURN(CodeCache::Entry made, MakeCode(id, graph, options, asker.control, asked));
  code = std::move(made.value);
  code->compile_us = static_cast<uint64_t>(absl::ToInt64Microseconds(SteadyNow() - begin));
  const MayLeave loading(asker, pool_);
  KILN_ASSIGN_OR_RETURN(Cache::Entry entry, KeepNew(id, *code));
  entry.value->compile_us = static_cast<uint64_t>(absl::ToInt64Microseconds(SteadyNow() - begin));
  Publish(id, id.domain, options, code->program, *entry.value, /*replaces=*/false);
  return entry;
}

// Before anyone is answered: what a client has seen compiled is there after a crash.
void ProgramStore::Publish(const ProgramId& id, const TrustDomain& domain, const compiler::Options& options,
                           const CompiledProgram& program, StoredProgram& stored, bool replaces) {
  if (disk_ == nullptr) return;
  const absl::Time begin = SteadyNow();
  v1::StoredHeader header = disk_->HeaderOf(domain, id.graph_hash, id.target, id.device->target(), options);
  if (domain != id.domain) header.clear_owner();  // what tenants share counts for none of them
  header.set_compile_us(stored.compile_us);
  stored.stored_key = header.key();
  disk_->Publish(std::move(header), program, stored.graph, id.account, replaces);
  if (stored.stages != nullptr) stored.stages->Add(CompileStage::kStore, begin, SteadyNow());
}

absl::Status ProgramStore::Replace(const ProgramId& id, const compiler::Options& options, v1::Executable executable,
                                   const v1::Graph& graph) {
  auto code = std::make_shared<Code>(
      Code{std::move(executable), graph.SerializeAsString(), /*compile_us=*/0, id.domain, id.graph_hash});
  KILN_ASSIGN_OR_RETURN(Cache::Entry entry, Keep(id, code->program, code->graph));
  if (const Program old = cache_.Find(id.key); old != nullptr) entry.value->compile_us = old->compile_us;
  // What a search has found is its tenant's own: nobody changes what others get.
  Publish(id, id.domain, options, code->program, *entry.value, /*replaces=*/true);
  if (share_code_) codes_.Put(CodeKey(id, id.domain, options), EntryOf(std::move(code)));
  cache_.Put(id.key, std::move(entry));
  return absl::OkStatus();
}

ProgramStore::CodeCache::Entry ProgramStore::EntryOf(std::shared_ptr<Code> code) {
  const uint64_t program = std::visit([](const auto& made) { return made.ByteSizeLong(); }, code->program);
  const uint64_t bytes = sizeof(Code) + code->graph.size() + program;
  return {std::move(code), bytes};
}

absl::StatusOr<CompiledProgram> ProgramStore::CompileOrSearch(const ProgramId& id, const v1::Graph& graph,
                                                              const compiler::Options& options, const Control& control,
                                                              CompileStages& stages) {
  // Schedules are searched for programs on one device alone.
  if (options.beam == 0 || tuning_queue_ == nullptr || NamesSeveralDevices(graph)) {
    const Meter meter(control.account, Quota::kCompileSeconds);
    return compile_(graph, id.device->target(), options, nullptr, {id.domain, control, &stages});
  }
  const absl::Time begin = SteadyNow();
  auto tuned = tuning_queue_->Run(*id.device, graph, options, {id.domain, control}, nullptr);
  stages.Add(CompileStage::kSearch, begin, SteadyNow());
  if (!tuned.ok()) return std::move(tuned).status();
  return std::move(tuned->executable);
}

absl::StatusOr<ProgramStore::CodeCache::Entry> ProgramStore::MakeCode(const ProgramId& id, const v1::Graph& graph,
                                                                      const compiler::Options& options,
                                                                      const Control& control, absl::Time asked) {
  compiles_.fetch_add(1, std::memory_order_relaxed);
  auto code = std::make_shared<Code>();
  code->stages.Add(CompileStage::kWait, asked, SteadyNow());
  auto program = CompileOrSearch(id, graph, options, control, code->stages);
  if (!program.ok()) return WithStages(program.status(), code->stages);
  code->program = *std::move(program);
  code->graph = graph.SerializeAsString();
  if (!id.shares()) {
    code->domain = id.domain;
    code->graph_hash = id.graph_hash;
  }
  return EntryOf(std::move(code));
}

absl::StatusOr<std::optional<ProgramStore::Cache::Entry>> ProgramStore::Load(const ProgramId& id,
                                                                             const compiler::Options& options,
                                                                             const Asker& asker, bool sent,
                                                                             bool again) {
  auto own = LoadOf(id, id.domain, options, asker, again);
  if (!own.ok() || own->has_value() || !MaySeeShared(id, options, sent)) return own;
  auto shared = LoadOf(id, id.shared, options, asker, /*again=*/true);
  if (shared.ok() && shared->has_value() && sent) presented_.Add(id.domain, CodeKey(id, id.shared, options));
  return shared;
}

absl::StatusOr<std::optional<ProgramStore::Cache::Entry>> ProgramStore::LoadOf(const ProgramId& id,
                                                                               const TrustDomain& domain,
                                                                               const compiler::Options& options,
                                                                               const Asker& asker, bool again) {
  const bool in_memory = share_code_ || domain != id.domain;
  const std::shared_ptr<Code> code = in_memory ? codes_.Find(CodeKey(id, domain, options)) : nullptr;
  if (code == nullptr && disk_ == nullptr) return std::nullopt;
  MayLeave loading(asker, pool_);
  const auto none = [&loading]() -> absl::StatusOr<std::optional<Cache::Entry>> {
    KILN_RETURN_IF_ERROR(loading.End());
    return std::nullopt;
  };
  if (code != nullptr) {
    KILN_ASSIGN_OR_RETURN(Cache::Entry entry, Keep(id, code->program, code->graph));
    entry.value->loaded = true;
    entry.value->compile_us = code->compile_us;
    if (disk_ != nullptr) {
      entry.value->stored_key = disk_->HeaderOf(domain, id.graph_hash, id.target, id.device->target(), options).key();
    }
    return entry;
  }
  const absl::Time begin = SteadyNow();
  const v1::StoredHeader wanted = disk_->HeaderOf(domain, id.graph_hash, id.target, id.device->target(), options);
  std::optional<ProgramDisk::Loaded> loaded = disk_->Load(wanted, again);
  if (!loaded.has_value()) return none();
  auto entry = Keep(id, loaded->program, std::move(loaded->graph));
  if (!entry.ok()) {
    // Want of memory is no fault of the entry's.
    if (!Has(entry.status(), v1::INTERNAL_FAULT)) return std::move(entry).status();
    disk_->OnUnusable(wanted, entry.status());
    return none();
  }
  entry->value->loaded = true;
  entry->value->stored_key = wanted.key();
  entry->value->compile_us = loaded->compile_us;
  disk_->OnLoaded(wanted, *loaded, absl::ToInt64Microseconds(SteadyNow() - begin));
  return *std::move(entry);
}

absl::StatusOr<std::shared_ptr<const runtime::Program>> ProgramStore::LoadOn(const ProgramId& id,
                                                                             const CompiledProgram& program) const {
  if (const auto* one = std::get_if<v1::Executable>(&program))
    return runtime::Program::Load(*one, *id.device, id.account);
  const auto& several = std::get<v1::MultiProgram>(program);
  if (id.rules != nullptr && id.rules->own != nullptr) {
    return MakeError(v1::NOT_IMPLEMENTED,
                     "a program on several devices, for a tenant whose programs run in a process of their own");
  }
  std::vector<runtime::hal::Device*> devices;
  for (const std::string& name : several.devices()) {
    runtime::hal::Device* device = id.device;  // no name: the request's
    if (!name.empty()) {
      KILN_ASSIGN_OR_RETURN(device, find_(name, id.rules));
    }
    if (TargetFingerprint(device->target()) != TargetFingerprint(id.device->target())) {
      return MakeError(v1::UNSUPPORTED_SHARD, absl::StrCat("a program on ", id.device->name(), " and ", device->name(),
                                                           ", which are of different kinds"));
    }
    devices.push_back(device);
  }
  return runtime::Program::Load(several, devices, id.account);
}

void ProgramStore::TouchUsed() {
  for (const Program& program : List()) {
    const uint64_t hits = program->hits.load(std::memory_order_relaxed);
    if (program->touched_hits.exchange(hits, std::memory_order_relaxed) != hits) {
      disk_->store().Touch(program->stored_key);
    }
  }
}

absl::StatusOr<ProgramStore::Cache::Entry> ProgramStore::Keep(const ProgramId& id, const CompiledProgram& program,
                                                              std::string graph) {
  auto stored = std::make_shared<StoredProgram>();
  KILN_ASSIGN_OR_RETURN(stored->program, LoadOn(id, program));
  KILN_RETURN_IF_ERROR(CheckSecondsOf(id.account, stored->cost()));
  stored->device = id.device;
  stored->domain = id.domain;
  stored->graph_hash = id.graph_hash;
  stored->graph = std::move(graph);
  stored->kernels = KernelsOf(program);
  stored->rows = RowsOf(stored->signature());
  stored->bytes =
      sizeof(StoredProgram) + sizeof(CompileStages) + stored->graph.size() + stored->program->memory_bytes();
  if (const auto* one = std::get_if<v1::Executable>(&program)) {
    auto schedules = std::make_shared<compiler::ScheduleMap>();
    for (const v1::Kernel& kernel : one->kernels()) {
      if (kernel.schedule().empty()) continue;
      (*schedules)[kernel.symbol()] = kernel.schedule();
      stored->bytes += kernel.symbol().size() + kernel.schedule().size() + 64;
    }
    stored->schedules = std::move(schedules);
  }
  const auto* several = std::get_if<v1::MultiProgram>(&program);
  const int modules = several == nullptr ? 1 : several->executables_size() * several->devices_size();
  const uint64_t weight = WeightOf(stored->bytes, static_cast<uint64_t>(modules), limit_bytes_);
  KILN_ASSIGN_OR_RETURN(stored->charge, Pay(id.account, id.domain, weight));
  return Cache::Entry{std::move(stored), weight};
}

absl::StatusOr<ProgramStore::Cache::Entry> ProgramStore::KeepNew(const ProgramId& id, const Code& code) {
  const absl::Time begin = SteadyNow();
  auto entry = Keep(id, code.program, code.graph);
  CompileStages stages = code.stages;
  stages.Add(CompileStage::kLoad, begin, SteadyNow());
  if (!entry.ok()) return WithStages(entry.status(), stages);
  entry->value->stages = std::make_shared<CompileStages>(stages);
  return entry;
}

absl::StatusOr<Charge> ProgramStore::Pay(Account* account, const TrustDomain& domain, uint64_t bytes) {
  if (IsForgotten(domain)) return MakeError(v1::CALL_CANCELLED, "whoever this was compiled for is no tenant any more");
  absl::StatusOr<Charge> charge = Hold(account, Quota::kProgramBytes, bytes);
  // Nothing is dropped for what would not fit into an empty quota.
  if (charge.ok() || bytes > account->limit(Quota::kProgramBytes)) return charge;
  const auto fits = [&] {
    charge = Hold(account, Quota::kProgramBytes, bytes);
    return charge.ok();
  };
  const auto drop_programs = [&] {
    cache_.EraseIdle([&domain](const StoredProgram& program) { return program.domain == domain; }, fits);
    return charge.ok();
  };
  if (drop_programs() || also_drop_ == nullptr) return charge;
  also_drop_(domain, [&] { return fits() || drop_programs(); });
  return charge;
}

std::vector<ProgramStore::Program> ProgramStore::List() const {
  std::vector<Program> programs;
  for (auto& [key, program] : cache_.List()) programs.push_back(std::move(program));
  return programs;
}

}  // namespace kiln::server
