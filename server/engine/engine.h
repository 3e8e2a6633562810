// The product without gRPC: compiles graphs, keeps programs and buffers, runs
// programs on devices.
//
// Everything hangs from one Engine; there can be several in a process. It knows
// devices by their interface and the compiler as a function, and names neither.
#ifndef KILN_SERVER_ENGINE_ENGINE_H_
#define KILN_SERVER_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/account.h"
#include "kiln/v1/device_service.pb.h"
#include "runtime/collective/collective.h"
#include "runtime/collective/meeting.h"
#include "runtime/collective/thresholds.h"
#include "runtime/exec/executor.h"
#include "runtime/hal/device.h"
#include "runtime/observer.h"
#include "server/engine/buffers.h"
#include "server/engine/collective.h"
#include "server/engine/executions/recordings.h"
#include "server/engine/executions/requests.h"
#include "server/engine/memory/buffer_table.h"
#include "server/engine/memory/session.h"
#include "server/engine/memory/tenant_devices.h"
#include "server/engine/memory/tenant_rules.h"
#include "server/engine/programs/carried_programs.h"
#include "server/engine/programs/compile_pool.h"
#include "server/engine/programs/compiled_combiner.h"
#include "server/engine/programs/program_store.h"
#include "server/engine/sessions/session_table.h"
#include "server/fair/turns.h"
#include "server/identity/tenant.h"
#include "server/metrics/count.h"
#include "server/metrics/metrics.h"
#include "server/trace/traces.h"

namespace kiln::server {

// What one stream of commands (server/stream) makes the server keep.
struct StreamLimits {
  uint32_t commands = 1024;
  uint64_t payload_bytes = 16 << 20;
  uint64_t answer_bytes = 8 << 20;
};

struct EngineOptions {
  uint64_t program_cache_bytes = uint64_t{1} << 30;
  uint32_t compile_threads = 1;
  // What a graph may be; every request's compile options get them.
  compiler::Limits limits;
  // Optional passes of the compiler that no program of a client's goes through.
  std::vector<std::string> disabled_passes;
  // Of one Execute, together: they wait in host memory, and one message holds them.
  uint64_t max_inline_result_bytes = 192 << 20;
  SessionOptions sessions;
  HandleLimits handles;
  // How long work on several devices waits for all of them.
  absl::Duration meeting_timeout = absl::Seconds(30);
  // Keeps which algorithm is fastest for which collective; empty: it is not kept.
  std::string collectives_file;
  // Programs that outlive the server; null: none.
  std::shared_ptr<ProgramDisk> disk;
  // Requests of one program that come while one runs are run as one, where rows do not mix (server/engine/batching).
  bool batching = true;
  StreamLimits streams;
  Turns::Options turns;
  BeamLimits beam;
  // Makes the devices of tenants whose programs run apart, beside these, which outlive them; null: there are none.
  std::function<std::shared_ptr<TenantDevices>(const DeviceList& devices)> tenant_devices;
  // Where all is counted; null: in one of the engine's own.
  std::shared_ptr<Metrics> metrics;
  // Of what ended lately; 0: nothing is kept.
  uint64_t trace_buffer_bytes = 4 << 20;
  // Kinds of device of which there is none, and why. Told to clients.
  std::vector<v1::AbsentDevices> absent;
};

class Batcher;
class Execution;

// Safe from any thread. No call blocks for a device or for the compiler: those
// that may take long answer by callback.
class Engine {
 public:
  // At least one device, of distinct names. `observer` may be null and outlives
  // the engine.
  Engine(const EngineOptions& options, std::vector<std::unique_ptr<runtime::hal::Device>> devices, CompileFn compile,
         GradientFn gradient, runtime::RuntimeObserver* observer = nullptr, TuneFn tune = nullptr);
  // No request may be under way.
  ~Engine();

  // The compiler's errors, and the limits' GRAPH_TOO_LARGE.
  void Compile(const CompileRequest& request, const Control& control, CompileCallback done);

  // Programs and recordings are of their caller's domain (trust_domain.h): what another has
  // is not there.

  // A program by its graph's hash, from memory or disk: NEED_GRAPH if it is in neither. Of
  // callers that are not known.
  void Load(absl::string_view graph_hash, absl::string_view device, const compiler::Options& options,
            const Control& control, CompileCallback done);

  // By hash: NEED_GRAPH if the program is not there. By graph: as Compile. By
  // both: HASH_MISMATCH if they differ. A program that the request has is run as it is. Then the errors of arguments.h;
  // OUT_OF_MEMORY, limit "inline result bytes", before anything runs; and the
  // errors of runtime/exec.
  void Execute(ExecuteRequest request, const Control& control, ExecuteCallback done);

  // Why a run of this caller's would be refused now, whatever it is a run of: QUOTA_EXCEEDED of its device's seconds;
  // or OUT_OF_MEMORY, as Turns::Take, if that is so at all devices that it may use. For who has yet to read what is
  // asked for.
  absl::Status CheckRoomToRun(const Session* caller, const Control& control) const;

  // NEED_GRAPH if a program is not there, UNKNOWN_DEVICE, and the errors of
  // recordings.h. `request` lives until `done` has returned.
  void Record(const v1::RecordSequenceRequest& request, const SessionPtr& caller, const Control& control,
              RecordCallback done);

  // NEED_GRAPH if the recording is not there; UNKNOWN_HANDLE and OUT_OF_BOUNDS for
  // what is no buffer of the caller's; then what runtime/exec says of a sequence. What `request`
  // points to lives until `done` has returned.
  void Replay(const ReplayRequest& request, const Control& control, ReplayCallback done);

  // The errors of server/engine/collective.h and of runtime/collective.
  void Collective(const CollectiveRequest& request, const Control& control, CollectiveCallback done);

  // The compiler's errors. `request` lives until `done` has returned.
  void Gradient(const v1::GradientRequest& request, const Session* caller, const Control& control,
                GradientCallback done);

  // Compiles anew, whatever the cache has, and keeps every stage's text. By
  // graph, or by the hash of a program that is there.
  void Explain(ExplainRequest request, const Control& control, ExplainCallback done);

  // The same of a program that is there, whoever's it is, at nobody's expense: for who operates the server.
  void ExplainStored(ProgramStore::Program stored, const Control& control, ExplainCallback done);

  // Searches schedules for a program's kernels and keeps the program with them, in its
  // own place: later requests get that. By graph, which is compiled
  // first if need be, or by the hash of a program that is there.
  void Tune(TuneRequest request, const Control& control, TuneCallback done);

  // What these would read, change and overwrite. `recording` is the one that is asked for, or null if it is gone.
  Touched TouchedBy(const ReplayRequest& request, const Recordings::Handle& recording) const;
  Touched TouchedBy(const CollectiveRequest& request) const;

  // What Execute and Replay would run, if it is there; else null.
  ProgramStore::Program FindProgram(const ExecuteRequest& request);
  Recordings::Handle FindRecording(absl::string_view recording, const Session* caller);

  // Takes a program of the caller's from memory and disk, whatever its device and options. NEED_GRAPH if there is
  // none. `graph_hash` lives until `done` has returned, which is called on a compile thread unless the hash is none.
  using EvictCallback = absl::AnyInvocable<void(absl::StatusOr<ProgramStore::Evicted>)>;
  void Evict(absl::string_view graph_hash, const SessionPtr& caller, const Control& control, EvictCallback done);

  // What carries the caller's programs, or all tenants', to another server; and what takes those of another
  // (carried_programs.h). `whose`: who has places of those under way. NOT_IMPLEMENTED without a disk, and to take some
  // without a key; OUT_OF_MEMORY if too many are under way; QUOTA_EXCEEDED for who owes seconds of compiling. Both end
  // before the engine does, or with what was scheduled by OnCompileThread.
  absl::StatusOr<std::unique_ptr<ProgramExport>> Export(const Session* caller, bool all, const std::string& whose);
  absl::StatusOr<std::unique_ptr<ProgramImport>> Import(const SessionPtr& caller, const std::string& whose);
  CarryPlaces& carry_places() { return carry_places_; }
  // Calls `job` once on a thread that may block, in the caller's turn and at its expense: soon if `control` does not
  // want it any more.
  void OnCompileThread(const Control& control, absl::AnyInvocable<void()> job);

  std::vector<ProgramStore::Program> ListPrograms(const Session* caller = nullptr) const;
  // Of every domain.
  std::vector<ProgramStore::Program> AllPrograms() const { return store_.List(); }
  ProgramStats program_stats() const { return store_.stats(); }
  CompilePool::Look compiling() const { return pool_->look(); }
  // None without a disk.
  std::optional<store::DiskStats> disk_stats() const;
  // Whether programs may be exported, and imported.
  bool exports() const { return options_.disk != nullptr; }
  bool imports() const { return exports() && options_.disk->store().key().has_value(); }

  // UNKNOWN_DEVICE, also for one that `rules`, which may be null, keep from their tenant; NOT_IMPLEMENTED for one of
  // the server's that a tenant whose programs run apart has not. No name means the first.
  absl::StatusOr<runtime::hal::Device*> FindDevice(absl::string_view name, const TenantRules* rules = nullptr) const;
  static bool MayUse(const TenantRules* rules, absl::string_view device);
  // The tenant's own, or the server's, in the order given: also those that it may not use.
  absl::Span<const std::unique_ptr<runtime::hal::Device>> devices(const TenantRules* rules = nullptr) const {
    return rules == nullptr || rules->own == nullptr ? devices_ : *rules->own;
  }

  absl::Span<const v1::AbsentDevices> absent() const { return options_.absent; }

  const compiler::Limits& limits() const { return options_.limits; }
  const StreamLimits& stream_limits() const { return options_.streams; }
  Buffers& buffers() { return buffers_; }
  SessionTable& sessions() { return sessions_; }
  // What a client does on a device without a program passes by these, too.
  Turns& turns() { return turns_; }
  const Turns& turns() const { return turns_; }
  // What each tenant has, and may have.
  Accounts& accounts() { return accounts_; }
  TenantsRules& rules() { return rules_; }
  // Puts the quotas and rules of all tenants in force, in place of those before; all or none. BAD_ARGUMENT with the
  // field "tenants" if more of a device is guaranteed than it has.
  absl::Status SetTenants(absl::Span<const std::shared_ptr<const Tenant>> tenants);
  // These tenants are gone from the file: ends all that they have, and forgets what they made. What still runs for them
  // goes with its run; whoever has such a name later finds nothing of it. Blocks for the disk.
  void Forget(const std::set<std::string, std::less<>>& tenants);
  Metrics& metrics() const { return *metrics_; }
  // What ended lately: runs, which the engine tells it, and calls, which services do.
  Traces& traces() { return traces_; }

 private:
  // What a request by graph, by hash, or by both is about. Refuses a graph over
  // the limits before it is hashed; `hashed` as in CompileRequest. The errors of `control`, if it is stopped meanwhile.
  absl::StatusOr<ProgramId> Identify(const v1::Graph* graph, absl::string_view hash, absl::string_view device,
                                     const compiler::Options& options, const Session* caller,
                                     const GraphHash* hashed = nullptr, const Control& control = {}) const;
  // A client's options as this server takes them.
  absl::StatusOr<compiler::Options> Settled(compiler::Options options) const;
  Execution* NewExecution(ExecuteRequest request, const Control& control, ExecuteCallback done);
  // Its program has been found: it is run, alone or with others.
  void Begin(Execution* execution, ProgramStore::Program program, bool from_cache);
  std::unique_ptr<Batcher> MakeBatcher();
  void CountLookup(const absl::StatusOr<ProgramStore::Program>& program, runtime::CacheOutcome how);
  // Sets out to find all programs of a recording; `then` is called when all have been
  // looked for, unless the request itself is at fault.
  struct Finding;
  absl::Status FindRecorded(const Control& control, const std::shared_ptr<Finding>& finding,
                            const std::function<void()>& then);

  const EngineOptions options_;
  Accounts accounts_;  // outlives all that they pay for
  TenantsRules rules_;
  const std::vector<std::unique_ptr<runtime::hal::Device>> devices_;
  const std::shared_ptr<TenantDevices> tenant_devices_;  // whose memory counts on these
  const std::shared_ptr<Metrics> metrics_;
  Traces traces_;
  RunCounter runs_;
  const CompileFn compile_;  // counted
  const GradientFn gradient_;
  const std::unique_ptr<Batcher> batcher_;  // may be null; what waits in `turns_` tells it of its end
  Turns turns_;
  BufferTable table_;
  runtime::collective::Meetings meetings_;
  Buffers buffers_;
  SessionTable sessions_;
  runtime::Executor executor_;
  // Ended first, in ~Engine: what it still has to run uses the store.
  std::unique_ptr<CompilePool> pool_;
  runtime::collective::Thresholds thresholds_;
  CompiledCombiner combiner_;
  runtime::collective::Collectives collectives_;
  const std::vector<Digest> fingerprints_;  // one a device: its target's
  const std::vector<Digest> places_;        // one a device
  const compiler::Options usual_options_;   // of who chooses none: of nearly every call
  const Digest usual_digest_;
  TuningQueue tuning_queue_;
  ProgramStore store_;
  CarryPlaces carry_places_;
  Recordings recordings_;
  // Ends sessions as their leases run out.
  std::thread lease_watch_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_ENGINE_H_
