#include "server/server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "base/graph/graph_text.h"
#include "base/store/disk_store.h"
#include "compiler/compile_program.h"
#include "compiler/gradient/gradient.h"
#include "compiler/options/version.h"
#include "compiler/search/choose.h"
#include "compiler/search/tune.h"
#include "compiler/target/gpu/assemble_ptx.h"
#include "compiler/tools/dump_observer.h"
#include "runtime/drivers/cpu/machine.h"
#include "server/backends.h"
#include "server/build_id.h"
#include "server/compile_memory.h"
#include "server/compile_worker/compile_workers.h"
#include "server/compile_worker/fault_folder.h"
#include "server/compile_worker/job.h"
#include "server/compile_worker/sandbox.h"
#include "server/compile_worker/zygote.h"
#include "server/config.h"
#include "server/executors/executors.h"
#include "server/executors/serve.h"
#include "server/identity/domain_secret.h"
#include "server/identity/identity.h"
#include "server/job.h"
#include "server/warm_up.h"

namespace kiln::server {
namespace {

// `made` with machine code in the place of PTX, where `ptxas` says how. `stages` may be null.
absl::StatusOr<CompiledProgram> Assembled(const std::string& ptxas, CompileStages* stages,
                                          absl::StatusOr<CompiledProgram> made) {
  if (!made.ok() || ptxas.empty()) return made;
  const absl::Time begin = SteadyNow();
  if (auto* one = std::get_if<v1::Executable>(&*made)) {
    KILN_RETURN_IF_ERROR(compiler::AssemblePtx(ptxas, *one));
  } else {
    for (v1::Executable& each : *std::get<v1::MultiProgram>(*made).mutable_executables())
      KILN_RETURN_IF_ERROR(compiler::AssemblePtx(ptxas, each));
  }
  if (stages != nullptr) stages->Add(CompileStage::kAssemble, begin, SteadyNow());
  return made;
}

// Small, and of all stages: what a process has compiled once, it need not load anew.
constexpr char kWarmGraph[] = R"(
  0 CONST [] weakint 64
  1 STACK [0, 0]
  2 PARAM [1] slot=0 dtype=float32
  3 EXP2 [2]
  4 REDUCE [3] ADD axes=(1)
  5 TUPLE [4]
)";

// What a step of a search that has begun may take beyond the search's own time.
constexpr absl::Duration kLastStep = absl::Milliseconds(100);

struct Compilers {
  CompileFn compile;
  GradientFn gradient;
  ChooseForFn choose;
};

// In processes of its own, if `config` wants them and `worker` is a program for them; else here.
absl::StatusOr<Compilers> BaseCompilers(const v1::ServerConfig& config, const v1::Target& target,
                                        const compiler::Limits& limits, const std::string& worker, spdlog::logger& log,
                                        std::shared_ptr<Metrics> metrics) {
  CompileFn here = InProcess(compiler::CompileProgram);
  if (!CompilesApart(config) || (worker.empty() && config.compile_isolation() == "auto"))
    return Compilers{here, GradientInProcess(compiler::Gradient), nullptr};
  if (worker.empty()) {
    v1::ErrorDetail detail;
    detail.set_code(v1::NOT_IMPLEMENTED);
    detail.set_field("compile_isolation");
    return MakeError(detail, "this program has no compile workers");
  }
  CompileWorkersOptions options;
  options.binary = worker;
  options.all_memory_bytes = CompileMemoryBytes(config, runtime::cpu::UsableMemoryBytes());
  options.memory_bytes = config.compile_limits().max_memory_bytes();
  options.max_time = absl::Seconds(config.compile_limits().max_seconds());
  options.metrics = std::move(metrics);
  std::shared_ptr<FaultFolder> folder;
  if (!config.fault_folder().empty()) {
    KILN_ASSIGN_OR_RETURN(folder, FaultFolder::Open(config.fault_folder()));
  }
  options.on_fault = [folder, &log](const v1::Graph& graph, absl::string_view name, absl::string_view what) {
    const auto file = folder == nullptr ? absl::StatusOr<std::string>("none") : folder->Keep(name, graph);
    log.error("event=compiler_fault graph={} what=\"{}\" file={}", std::string(name), absl::CEscape(what),
              file.ok() ? *file : absl::StrCat("none reason=\"", absl::CEscape(file.status().message()), "\""));
  };
  options.idle = std::max(1u, config.compile_threads() == 0 ? 2u : config.compile_threads());
  compiler::Options compile;
  compile.limits = limits;
  KILN_ASSIGN_OR_RETURN(const v1::Graph graph, ParseGraph(kWarmGraph));
  KILN_ASSIGN_OR_RETURN(auto started, CompileWorkers::Start(options, ToJob(graph, target, compile, nullptr)));
  const std::shared_ptr<CompileWorkers> workers = std::move(started);
  log.info("event=compile_workers idle={} max_seconds={} max_memory_bytes={} max_total_memory_bytes={} landlock={}",
           options.idle, config.compile_limits().max_seconds(), options.memory_bytes, options.all_memory_bytes,
           LandlockVersion());
  GradientFn gradient = [workers](const v1::GradientRequest& request, const compiler::Limits& most,
                                  const CompileFor& whom) { return workers->Gradient(request, most, whom); };
  CompileFn there = [here, workers](const v1::Graph& wire, const v1::Target& device, const compiler::Options& how,
                                    compiler::CompileObserver* observer,
                                    const CompileFor& whom) -> absl::StatusOr<CompiledProgram> {
    // Their linker works on files, which a worker may not open.
    if (device.kind() == v1::Target::AMDGPU) return here(wire, device, how, observer, whom);
    return workers->Compile(wire, device, how, observer, whom);
  };
  ChooseForFn choose = [workers](const v1::Graph& kernel, const v1::Target& device, const compiler::Limits& most,
                                 const std::string& from, uint32_t count, const CompileFor& whom) {
    return workers->Choose(kernel, device, most, from, count, whom);
  };
  return Compilers{std::move(there), std::move(gradient), std::move(choose)};
}

// The compiler, with a line in the log for each graph, and its stages in a folder
// of `dump` if one is named. An observer that is there already is served first.
CompileFn LoggedCompiler(CompileFn compile, std::shared_ptr<spdlog::logger> log, std::string dump, std::string ptxas) {
  return [compile = std::move(compile), log, dump, ptxas](
             const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
             compiler::CompileObserver* observer, const CompileFor& whom) -> absl::StatusOr<CompiledProgram> {
    std::optional<compiler::DumpObserver> to_files;
    if (const auto hash = HashGraph(graph); observer == nullptr && !dump.empty() && hash.ok()) {
      to_files.emplace(absl::StrCat(dump, "/", hash->Hex().substr(0, 16)));
      observer = &*to_files;
    }
    const absl::Time begin = SteadyNow();
    const auto program = Assembled(ptxas, whom.stages, compile(graph, target, options, observer, whom));
    const int64_t micros = absl::ToInt64Microseconds(SteadyNow() - begin);
    if (!program.ok()) {
      log->info("event=compile_refused nodes={} micros={} reason=\"{}\"", graph.nodes_size(), micros,
                absl::CEscape(program.status().message()));
      return program;
    }
    if (const auto* one = std::get_if<v1::Executable>(&*program)) {
      if (to_files.has_value()) to_files->WriteObject(one->object());
      log->info("event=compiled nodes={} kernels={} micros={}", graph.nodes_size(), KernelsOf(*program), micros);
    } else {
      const auto& several = std::get<v1::MultiProgram>(*program);
      log->info("event=compiled nodes={} kernels={} devices={} steps={} micros={}", graph.nodes_size(),
                KernelsOf(*program), several.devices_size(), several.steps_size(), micros);
    }
    return program;
  };
}

void LogDisk(spdlog::logger& log, const DiskEvent& event) {
  const std::string hash = event.graph_hash.substr(0, 16), reason = absl::CEscape(event.reason);
  switch (event.kind) {
    case DiskEvent::Kind::kLoaded:
      return log.info("event=loaded graph={} kernels={} bytes={} micros={}", hash, event.kernels, event.bytes,
                      event.micros);
    case DiskEvent::Kind::kRejected: return log.warn("event=rejected_entry graph={} reason=\"{}\"", hash, reason);
    case DiskEvent::Kind::kReadFailed: return log.warn("event=load_failed graph={} reason=\"{}\"", hash, reason);
    case DiskEvent::Kind::kStoreFailed: return log.warn("event=store_failed graph={} reason=\"{}\"", hash, reason);
  }
}

// Null if the settings name no folder.
absl::StatusOr<std::shared_ptr<ProgramDisk>> OpenDisk(const v1::ServerConfig& config,
                                                      std::shared_ptr<spdlog::logger> log) {
  if (config.program_cache_dir().empty()) return nullptr;
  store::DiskStoreOptions options;
  options.limit_bytes = config.program_cache_disk_bytes();
  if (!config.program_cache_key_file().empty()) {
    KILN_ASSIGN_OR_RETURN(options.key, store::ReadSealKey(config.program_cache_key_file()));
  }
  KILN_ASSIGN_OR_RETURN(auto store, store::DiskStore::Open(config.program_cache_dir(), options));
  std::string compiler = absl::StrCat(compiler::kCompilerVersion, "+", BuildId());
  log->info("event=program_cache dir={} limit_bytes={} sealed={} compiler={}", config.program_cache_dir(),
            options.limit_bytes, options.key.has_value(), compiler);
  return std::make_shared<ProgramDisk>(std::move(store), std::move(compiler),
                                       [log](const DiskEvent& event) { LogDisk(*log, event); });
}

// The search for schedules, with a line in the log for each program. Candidates are compiled and chosen by `compilers`.
TuneFn LoggedSearch(const Compilers& compilers, std::shared_ptr<spdlog::logger> log, std::string ptxas) {
  return [compile = compilers.compile, choose = compilers.choose, log, ptxas](
             const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
             compiler::TuneOptions tuning, compiler::KernelTimer& timer,
             const CompileFor& whom) -> absl::StatusOr<compiler::Tuned> {
    const absl::Time begin = SteadyNow();
    if (choose != nullptr) {
      // Nobody asks there whether the search still has time: it ends with what is left.
      tuning.choose = [&choose, &whom, &timer](const v1::Graph& kernel, const v1::Target& device,
                                               const compiler::Limits& most, const std::string& from, uint32_t count,
                                               const std::function<bool()>&) {
        CompileFor until = whom;
        const absl::Time end = SteadyNow() + absl::Microseconds(std::max(timer.LeftMicros(), 0.0)) + kLastStep;
        until.control.deadline = std::min(until.control.deadline, end);
        return choose(kernel, device, most, from, count, until);
      };
    }
    tuning.compile = [&compile, &whom](const v1::Graph& candidate, const v1::Target& device,
                                       const compiler::Options& how,
                                       compiler::CompileObserver* observer) -> absl::StatusOr<v1::Executable> {
      KILN_ASSIGN_OR_RETURN(CompiledProgram program, compile(candidate, device, how, observer, whom));
      auto* const one = std::get_if<v1::Executable>(&program);
      if (one == nullptr) return MakeError(v1::INTERNAL_FAULT, "a candidate is for several devices");
      return std::move(*one);
    };
    auto tuned = compiler::Tune(graph, target, options, tuning, timer);
    if (tuned.ok()) KILN_RETURN_IF_ERROR(compiler::AssemblePtx(ptxas, tuned->executable));
    const int64_t micros = absl::ToInt64Microseconds(SteadyNow() - begin);
    if (tuned.ok()) {
      log->info("event=tuned nodes={} kernels={} candidates={} micros={} kernels_micros_before={:.1f} after={:.1f}",
                graph.nodes_size(), tuned->executable.kernels_size(), tuned->candidates, micros, tuned->first_micros,
                tuned->best_micros);
    } else {
      log->info("event=tune_ended nodes={} micros={} reason=\"{}\"", graph.nodes_size(), micros,
                absl::CEscape(tuned.status().message()));
    }
    return tuned;
  };
}

EngineOptions ToEngineOptions(const v1::ServerConfig& config) {
  EngineOptions options;
  options.program_cache_bytes = config.program_cache_bytes();
  options.compile_threads = config.compile_threads();
  if (options.compile_threads == 0) options.compile_threads = std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
  options.limits.max_nodes = config.graph_limits().max_nodes();
  options.limits.max_bytes = config.graph_limits().max_bytes();
  options.limits.max_depth = config.graph_limits().max_depth();
  options.limits.max_run_seconds = config.graph_limits().max_run_seconds();
  options.limits.allow_native_code = config.allow_native_code();
  options.disabled_passes = DisabledPasses(config);
  options.trace_buffer_bytes = config.trace_buffer_bytes();
  options.max_inline_result_bytes = LargestMessage(config);
  options.batching = config.batching();
  const v1::ServerConfig::SessionLimits& sessions = config.session_limits();
  options.sessions.default_lease_seconds = sessions.default_lease_seconds();
  options.sessions.longest_lease_seconds = sessions.max_lease_seconds();
  options.sessions.max_sessions = sessions.max_sessions();
  options.sessions.max_sessions_of_peer = sessions.max_sessions_per_address();
  options.collectives_file = config.collectives_file();
  options.meeting_timeout = absl::Seconds(config.meeting_seconds());
  options.handles = {.all = config.max_handles(), .of_session = sessions.max_handles()};
  options.beam = {.max_width = config.beam_limits().max_width(),
                  .default_budget_ms = config.beam_limits().default_budget_ms(),
                  .max_budget_ms = config.beam_limits().max_budget_ms()};
  const v1::ServerConfig::StreamLimits& streams = config.stream_limits();
  options.streams = {.commands = streams.max_commands(),
                     .payload_bytes = streams.max_payload_bytes(),
                     .answer_bytes = streams.max_answer_bytes()};
  return options;
}

}  // namespace

absl::Status CheckTenants(const v1::ServerConfig& config) {
  return config.tenants().empty() ? absl::OkStatus() : ReadTenants(config.tenants()).status();
}

bool IsWorker(int argc, const char* const* argv) {
  return IsExecutor(argc, argv) || (argc == 3 && absl::string_view(argv[1]) == kZygoteFlag);
}

int ServeWorker(int argc, const char* const* argv) {
  if (IsExecutor(argc, argv)) return ServeExecutor(argc, argv);
  uint64_t memory_bytes = 0;
  if (!IsWorker(argc, argv) || !absl::SimpleAtoi(argv[2], &memory_bytes)) return 2;
  return RunZygote({compiler::CompileProgram, compiler::Gradient, compiler::Choose}, memory_bytes);
}

absl::StatusOr<std::unique_ptr<RpcServer>> StartServer(const v1::ServerConfig& config,
                                                       std::shared_ptr<spdlog::logger> log, const std::string& worker) {
  EngineOptions options = ToEngineOptions(config);
  options.metrics = std::make_shared<Metrics>();
  std::vector<std::unique_ptr<runtime::hal::Device>> devices;
  KILN_RETURN_IF_ERROR(OpenBackends(config, log, devices, options.absent));
  for (const auto& device : devices) {
    log->info("event=device name={} description=\"{}\" memory_bytes={}", std::string(device->name()),
              std::string(device->description()), device->stats().memory.limit_bytes);
  }
  for (const v1::AbsentDevices& absent : options.absent) {
    log->info("event=no_devices kind={} reason=\"{}\"", absent.kind(), absl::CEscape(absent.reason()));
  }
  KILN_ASSIGN_OR_RETURN(options.disk, OpenDisk(config, log));
  // Tenants' programs on disk, and served models', are found again by the next server.
  const bool has_domains = !config.tenants().empty() || !config.models().empty();
  KILN_ASSIGN_OR_RETURN(options.sessions.domain_secret, DomainSecret(has_domains ? config.program_cache_dir() : ""));
  if (!config.tenants().empty()) {
    ExecutorOptions executors;
    executors.binary = worker;
    executors.threads = CpuOptions(config).threads;
    // Estimates may be wrong.
    if (const uint32_t seconds = config.graph_limits().max_run_seconds(); seconds != 0)
      executors.run_patience = 2 * absl::Seconds(seconds);
    options.tenant_devices = [executors, log](const DeviceList& all) {
      return std::make_shared<Executors>(executors, all, log);
    };
  }
  RpcServer::Preparation prepare;
  if (!config.warm_up().empty()) {
    KILN_ASSIGN_OR_RETURN(auto programs, ReadWarmUp(config.warm_up(), *options.disk, *log));
    log->info("event=warming file={} programs={}", config.warm_up(), programs.size());
    prepare = [programs = std::move(programs), log](Engine& engine, const std::atomic<bool>& stop) {
      WarmUp(engine, programs, stop, *log);
    };
  }
  const std::string ptxas = config.ptxas() == "none" ? "" : config.ptxas();
  KILN_ASSIGN_OR_RETURN(
      Compilers base, BaseCompilers(config, devices.front()->target(), options.limits, worker, *log, options.metrics));
  TuneFn search = LoggedSearch(base, log, ptxas);
  CompileFn compile = LoggedCompiler(std::move(base.compile), log, config.dump(), ptxas);
  auto engine = std::make_unique<Engine>(options, std::move(devices), std::move(compile), std::move(base.gradient),
                                         /*observer=*/nullptr, std::move(search));
  return RpcServer::Start(config, std::move(engine), std::move(log), std::move(prepare));
}

}  // namespace kiln::server
