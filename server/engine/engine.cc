#include "server/engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "server/engine/batching/batcher.h"
#include "server/engine/executions/execution.h"
#include "server/engine/programs/failed_stages.h"
#include "server/engine/programs/program_key.h"

namespace kiln::server {
namespace {

absl::Status GraphHas(uint64_t used, const char* limit, uint64_t limit_value) {
  return TooLarge(limit, limit_value, used,
                  absl::StrCat("the graph has ", used, " ", limit, "; this server takes ", limit_value));
}

absl::Status BadHash(v1::ErrorCode code, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field("graph_hash");
  return MakeError(detail, message);
}

std::vector<Digest> FingerprintsOf(const std::vector<std::unique_ptr<runtime::hal::Device>>& devices) {
  std::vector<Digest> fingerprints;
  for (const auto& device : devices) fingerprints.push_back(TargetFingerprint(device->target()));
  return fingerprints;
}

std::vector<Digest> PlacesOf(const std::vector<std::unique_ptr<runtime::hal::Device>>& devices,
                             const std::vector<Digest>& fingerprints) {
  std::vector<Digest> places;
  for (size_t i = 0; i < devices.size(); ++i) places.push_back(PlaceOf(fingerprints[i], devices[i]->name()));
  return places;
}

std::vector<runtime::hal::Device*> PointersTo(const std::vector<std::unique_ptr<runtime::hal::Device>>& devices) {
  std::vector<runtime::hal::Device*> pointers;
  for (const auto& device : devices) pointers.push_back(device.get());
  return pointers;
}

std::vector<std::string> NamesOf(const std::vector<std::unique_ptr<runtime::hal::Device>>& devices) {
  std::vector<std::string> names;
  for (const auto& device : devices) names.emplace_back(device->name());
  return names;
}

CompileFn Counted(CompileFn compile, std::shared_ptr<Metrics> metrics) {
  return [compile = std::move(compile), metrics = std::move(metrics)](
             const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
             compiler::CompileObserver* observer, const CompileFor& whom) {
    const absl::Time begin = SteadyNow();
    auto made = compile(graph, target, options, observer, whom);
    metrics->compile.Observe(SteadyNow() - begin, EndOf(made.status()));
    return made;
  };
}

bool HasDuplicates(const std::vector<Digest>& digests) {
  for (size_t i = 1; i < digests.size(); ++i) {
    if (std::find(digests.begin(), digests.begin() + i, digests[i]) != digests.begin() + i) return true;
  }
  return false;
}

std::string Hex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }

// Why a program is not there, as a client is told; `parts`, which may be null, get how far its compilation came.
absl::Status NoteFailure(absl::Status status, NotedParts* parts) {
  auto stages = TakeStages(status);
  if (parts != nullptr && stages != nullptr) parts->stages = std::move(stages);
  return status;
}

}  // namespace

Engine::Engine(const EngineOptions& options, std::vector<std::unique_ptr<runtime::hal::Device>> devices,
               CompileFn compile, GradientFn gradient, runtime::RuntimeObserver* observer, TuneFn tune)
    : options_(options),
      devices_(std::move(devices)),
      tenant_devices_(options.tenant_devices == nullptr ? nullptr : options.tenant_devices(devices_)),
      metrics_(options.metrics == nullptr ? std::make_shared<Metrics>() : options.metrics),
      traces_(options.trace_buffer_bytes, observer),
      runs_(metrics_.get(), NamesOf(devices_), &traces_),
      compile_(Counted(std::move(compile), metrics_)),
      gradient_(std::move(gradient)),
      batcher_(options.batching ? MakeBatcher() : nullptr),
      turns_(options.turns, devices_),
      table_(options.handles),
      buffers_(&table_, &meetings_, &turns_, options.meeting_timeout,
               [this](absl::string_view name, const TenantRules* rules) { return FindDevice(name, rules); }),
      sessions_(options.sessions, &table_, &accounts_, &rules_),
      executor_(&runs_),
      pool_(std::make_unique<CompilePool>(options.compile_threads, CompilePool::kMostAside)),
      thresholds_(runtime::collective::TopologyOf(PointersTo(devices_)), options.collectives_file),
      combiner_(compile_),
      collectives_(
          &meetings_, &thresholds_, options.meeting_timeout,
          [this](absl::AnyInvocable<void()> job) { pool_->Schedule(std::move(job)); }, &combiner_),
      fingerprints_(FingerprintsOf(devices_)),
      places_(PlacesOf(devices_, fingerprints_)),
      usual_options_(Settled({}).value()),
      usual_digest_(DigestOf(usual_options_)),
      // The searching thread compiles, too.
      tuning_queue_(std::move(tune), pool_.get(), options.compile_threads - 1, &turns_),
      store_(
          options.program_cache_bytes, compile_, pool_.get(),
          [this](absl::string_view name, const TenantRules* rules) { return FindDevice(name, rules); },
          HasDuplicates(fingerprints_), options.disk.get(), &tuning_queue_),
      recordings_(options.program_cache_bytes, options.limits.max_run_seconds),
      lease_watch_([this] { sessions_.ExpireUntilStopped(); }) {
  KILN_CHECK(!devices_.empty());
  store_.AlsoDrop(
      [this](const TrustDomain& domain, absl::FunctionRef<bool()> enough) { recordings_.Drop(domain, enough); });
}

std::unique_ptr<Batcher> Engine::MakeBatcher() {
  const auto run = [this](ExecuteRequest request, const Control& control, ExecuteCallback done) {
    ProgramStore::Program program = request.program;
    Execution* execution = NewExecution(std::move(request), control, std::move(done));
    execution->Found(std::move(program), /*from_cache=*/true);
    execution->Run(absl::ZeroDuration(), nullptr);
  };
  return std::make_unique<Batcher>(run, &table_, metrics_.get());
}

// Owns itself from here on.
Execution* Engine::NewExecution(ExecuteRequest request, const Control& control, ExecuteCallback done) {
  return new Execution(std::move(request), control, std::move(done), &executor_, &collectives_, &table_, &turns_,
                       options_.max_inline_result_bytes, metrics_.get());
}

Engine::~Engine() {
  sessions_.Stop();
  lease_watch_.join();
  sessions_.EndAll();
  store_.Stop();  // what it has not found goes to the pool
  tuning_queue_.Stop();
  pool_.reset();
  if (options_.disk != nullptr) options_.disk->ForgetAccounts();
  runtime::hal::DrainAll(devices_);
  if (tenant_devices_ != nullptr) tenant_devices_->Drain();
}

absl::StatusOr<ProgramId> Engine::Identify(const v1::Graph* graph, absl::string_view hash, absl::string_view device,
                                           const compiler::Options& options, const Session* caller,
                                           const GraphHash* hashed, const Control& control) const {
  ProgramId id;
  id.domain = DomainOf(caller);
  id.account = AccountOf(caller);
  id.rules = RulesOf(caller);
  // What a search finds is its tenant's own.
  if (id.rules != nullptr && options.beam == 0) {
    id.shared = id.rules->shared;
    id.sharing = id.rules->sharing;
  }
  KILN_ASSIGN_OR_RETURN(id.device, FindDevice(device, id.rules));
  if (!hash.empty() && hash.size() != id.graph_hash.bytes.size()) {
    return BadHash(v1::BAD_ARGUMENT, absl::StrCat("a graph's hash has 32 bytes; this one has ", hash.size()));
  }
  if (graph == nullptr) {
    if (hash.empty()) return BadHash(v1::BAD_ARGUMENT, "neither a graph nor a graph's hash was sent");
    id.graph_hash = Digest::FromBytes(hash);
  } else {
    const uint64_t nodes = graph->nodes_size();
    if (nodes > options_.limits.max_nodes) return GraphHas(nodes, "nodes", options_.limits.max_nodes);
    const uint64_t bytes = graph->ByteSizeLong();
    if (bytes > options_.limits.max_bytes) return GraphHas(bytes, "bytes", options_.limits.max_bytes);
    GraphHash graph_hash;
    if (hashed != nullptr) {
      graph_hash = *hashed;
    } else {
      KILN_ASSIGN_OR_RETURN(graph_hash, HashGraph(*graph, [&control] { return control.Check(); }));
    }
    id.graph_hash.bytes = graph_hash.bytes;
    if (!hash.empty() && hash != id.graph_hash.view()) {
      return BadHash(v1::HASH_MISMATCH,
                     absl::StrCat("the graph's hash is ", Hex(id.graph_hash.view()), "; the request says ", Hex(hash)));
    }
  }
  size_t index = 0;
  while (devices_[index]->name() != id.device->name()) ++index;  // a tenant's own has name and target of ours
  id.target = fingerprints_[index];
  id.key = ProgramKey(id.domain, id.graph_hash, places_[index],
                      options == usual_options_ ? usual_digest_ : DigestOf(options));
  return id;
}

absl::StatusOr<compiler::Options> Engine::Settled(compiler::Options options) const {
  options.limits = options_.limits;
  std::vector<std::string>& disabled = options.disabled_passes;
  for (const std::string& pass : options_.disabled_passes) {
    if (std::find(disabled.begin(), disabled.end(), pass) == disabled.end()) disabled.push_back(pass);
  }
  KILN_RETURN_IF_ERROR(SettleBeam(options_.beam, options));
  return options;
}

void Engine::CountLookup(const absl::StatusOr<ProgramStore::Program>& program, runtime::CacheOutcome how) {
  if (!program.ok()) {
    const auto detail = DetailOf(program.status());
    const bool unknown = detail.has_value() && detail->code() == v1::NEED_GRAPH;
    return metrics_->cache_lookups.Add(1, CacheResult::kMiss, unknown ? CacheReason::kNeedGraph : CacheReason::kFailed);
  }
  if (how == runtime::CacheOutcome::kHit)
    return metrics_->cache_lookups.Add(1, CacheResult::kHit, CacheReason::kMemory);
  if ((*program)->loaded) return metrics_->cache_lookups.Add(1, CacheResult::kHit, CacheReason::kLoaded);
  const bool joined = how == runtime::CacheOutcome::kJoined;
  metrics_->cache_lookups.Add(1, CacheResult::kMiss, joined ? CacheReason::kJoined : CacheReason::kCompiled);
}

void Engine::Compile(const CompileRequest& request, const Control& asking, CompileCallback done) {
  Control control = asking;
  control.domain = MemoryDomainOf(request.caller.get());  // of a search's runs
  const auto options = Settled(request.options);
  if (!options.ok()) return done(options.status());
  const absl::Time begin = SteadyNow();
  const auto id = Identify(request.graph, "", request.device, *options, request.caller.get(), request.hashed, control);
  if (!id.ok()) return done(id.status());
  const absl::Time identified = SteadyNow();
  if (request.parts != nullptr) request.parts->Set(Part::kVerify, begin, identified);
  store_.GetOrCompile(*id, *request.graph, *options, control,
                      [this, parts = request.parts, identified, done = std::move(done)](
                          absl::StatusOr<ProgramStore::Program> program, runtime::CacheOutcome how) mutable {
                        CountLookup(program, how);
                        CountEnded(*metrics_, program.status(), Place::kCompile);
                        const bool from_cache = program.ok() && FromCache(**program, how);
                        if (parts != nullptr) {
                          parts->Set(from_cache ? Part::kCache : Part::kCompile, identified, SteadyNow());
                          if (program.ok() && !from_cache) parts->stages = (*program)->stages;
                        }
                        if (!program.ok()) return done(NoteFailure(program.status(), parts));
                        done(CompileResult{*std::move(program), from_cache});
                      });
}

void Engine::Load(absl::string_view graph_hash, absl::string_view device, const compiler::Options& asked,
                  const Control& control, CompileCallback done) {
  const auto options = Settled(asked);
  if (!options.ok()) return done(options.status());
  const auto id = Identify(nullptr, graph_hash, device, *options, /*caller=*/nullptr);
  if (!id.ok()) return done(id.status());
  store_.GetOrLoad(
      *id, *options, control,
      [done = std::move(done)](absl::StatusOr<ProgramStore::Program> program, runtime::CacheOutcome) mutable {
        if (!program.ok()) return done(std::move(program).status());
        done(CompileResult{*std::move(program), /*from_cache=*/true});
      });
}

std::optional<store::DiskStats> Engine::disk_stats() const {
  if (options_.disk == nullptr) return std::nullopt;
  return options_.disk->store().stats();
}

ProgramStore::Program Engine::FindProgram(const ExecuteRequest& request) {
  const auto options = Settled(request.options);
  if (!options.ok()) return nullptr;
  const auto id =
      Identify(request.graph, request.graph_hash, request.device, *options, request.caller.get(), request.hashed);
  return id.ok() ? store_.Find(*id) : nullptr;
}

std::vector<ProgramStore::Program> Engine::ListPrograms(const Session* caller) const {
  std::vector<ProgramStore::Program> programs = store_.List();
  const TrustDomain domain = DomainOf(caller);
  programs.erase(std::remove_if(programs.begin(), programs.end(),
                                [&domain](const ProgramStore::Program& program) { return program->domain != domain; }),
                 programs.end());
  return programs;
}

void Engine::Evict(absl::string_view graph_hash, const SessionPtr& caller, const Control& control, EvictCallback done) {
  if (graph_hash.size() != Digest().bytes.size()) {
    return done(
        BadHash(v1::BAD_ARGUMENT, absl::StrCat("a graph's hash has 32 bytes; this one has ", graph_hash.size())));
  }
  auto place = PlaceToCompile(control.account);
  if (!place.ok()) return done(std::move(place).status());
  // It reads the heads of all that is on disk.
  pool_->Schedule(control, [this, hash = Digest::FromBytes(graph_hash), domain = DomainOf(caller.get()), control,
                            place = *std::move(place), done = std::move(done)]() mutable {
    if (absl::Status wanted = control.Check(); !wanted.ok()) return done(std::move(wanted));
    const ProgramStore::Evicted evicted = [&] {
      const Meter meter(control.account, Quota::kCompileSeconds);
      return store_.Evict(domain, hash);
    }();
    place.Release();
    if (evicted.programs + evicted.entries > 0) return done(evicted);
    done(BadHash(v1::NEED_GRAPH, absl::StrCat("there is no program for graph ", Hex(hash.view()))));
  });
}

Recordings::Handle Engine::FindRecording(absl::string_view recording, const Session* caller) {
  auto found = recordings_.Find(recording, DomainOf(caller));
  return found.ok() ? *std::move(found) : nullptr;
}

void Engine::Gradient(const v1::GradientRequest& request, const Session* caller, const Control& control,
                      GradientCallback done) {
  auto place = PlaceToCompile(control.account);
  if (!place.ok()) return done(std::move(place).status());
  pool_->Schedule(control, [this, &request, domain = DomainOf(caller), control, place = *std::move(place),
                            done = std::move(done)]() mutable {
    if (absl::Status wanted = control.Check(); !wanted.ok()) return done(std::move(wanted));
    auto made = [&] {
      const Meter meter(control.account, Quota::kCompileSeconds);
      return gradient_(request, options_.limits, {domain, control});
    }();
    place.Release();
    done(std::move(made));
  });
}

void Engine::Execute(ExecuteRequest request, const Control& asking, ExecuteCallback done) {
  auto options = Settled(request.options);
  if (!options.ok()) return done(std::move(options).status());
  request.options = *std::move(options);
  Control control = asking;
  if (!request.of_several) control.domain = MemoryDomainOf(request.caller.get());
  Execution* execution = NewExecution(std::move(request), control, std::move(done));
  const ExecuteRequest& asked = execution->request();
  if (asked.program != nullptr) return Begin(execution, asked.program, /*from_cache=*/true);
  const absl::Time begin = SteadyNow();
  const auto id =
      Identify(asked.graph, asked.graph_hash, asked.device, asked.options, asked.caller.get(), asked.hashed, control);
  if (!id.ok()) return execution->Fail(id.status());
  const absl::Time identified = SteadyNow();
  execution->timing().verify = absl::ToDoubleMicroseconds(identified - begin);
  execution->Note(Part::kVerify, begin, identified);

  ProgramStore::Program program = store_.Find(*id);
  const absl::Time looked = SteadyNow();
  execution->timing().cache = absl::ToDoubleMicroseconds(looked - identified);
  execution->Note(Part::kCache, identified, looked);
  if (program != nullptr) {
    metrics_->cache_lookups.Add(1, CacheResult::kHit, CacheReason::kMemory);
    return Begin(execution, std::move(program), /*from_cache=*/true);
  }
  if (asked.graph == nullptr) {
    return store_.GetOrLoad(
        *id, asked.options, control,
        [this, execution, identified](absl::StatusOr<ProgramStore::Program> loaded, runtime::CacheOutcome how) {
          CountLookup(loaded, how);
          const absl::Time found = SteadyNow();
          execution->timing().cache = absl::ToDoubleMicroseconds(found - identified);
          execution->Note(Part::kCache, identified, found);
          if (!loaded.ok()) return execution->Fail(std::move(loaded).status());
          Begin(execution, *std::move(loaded), /*from_cache=*/true);
        });
  }
  store_.GetOrCompile(*id, *asked.graph, asked.options, control,
                      [this, execution, looked](absl::StatusOr<ProgramStore::Program> made, runtime::CacheOutcome how) {
                        CountLookup(made, how);
                        const absl::Time compiled = SteadyNow();
                        execution->timing().compile = absl::ToDoubleMicroseconds(compiled - looked);
                        execution->Note(Part::kCompile, looked, compiled);
                        NotedParts* const parts = execution->request().parts;
                        if (!made.ok()) return execution->Fail(NoteFailure(made.status(), parts));
                        const bool from_cache = FromCache(**made, how);
                        if (parts != nullptr && !from_cache) parts->stages = (*made)->stages;
                        Begin(execution, *std::move(made), from_cache);
                      });
}

absl::Status Engine::CheckRoomToRun(const Session* caller, const Control& control) const {
  KILN_RETURN_IF_ERROR(CheckRate(control.account, Quota::kDeviceSeconds));
  const TenantRules* const rules = RulesOf(caller);
  absl::Status full;
  for (const auto& device : devices(rules)) {
    if (!MayUse(rules, device->name())) continue;
    full = turns_.CheckRoom(*device, control);
    if (full.ok()) break;
  }
  return full;
}

void Engine::Begin(Execution* execution, ProgramStore::Program program, bool from_cache) {
  execution->Found(std::move(program), from_cache);
  if (batcher_ == nullptr || !batcher_->Add(*execution)) execution->Run(absl::ZeroDuration(), nullptr);
}

}  // namespace kiln::server
