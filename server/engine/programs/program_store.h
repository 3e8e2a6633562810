// Compiled programs: found by key, else made once.
//
// The first request for a key that is not there has the program compiled on the
// compile pool; requests meanwhile join that one compilation. No caller
// blocks: the answer comes by callback.
//
// What is not there may be elsewhere: where several devices have one target, what was
// compiled for one is kept for the others; and there may be a folder on disk
// (program_disk.h). It is looked for by threads that do nothing else, so that what only
// has to be loaded never waits for what is being compiled.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_STORE_H_
#define KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_STORE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "compiler/options/observer.h"
#include "compiler/options/options.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"
#include "runtime/cache/program_cache.h"
#include "runtime/exec/loaded_executable.h"
#include "runtime/exec/program.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"
#include "server/engine/memory/tenant_rules.h"
#include "server/engine/memory/trust_domain.h"
#include "server/engine/programs/compile_fn.h"
#include "server/engine/programs/compile_pool.h"
#include "server/engine/programs/joiner.h"
#include "server/engine/programs/presented.h"
#include "server/engine/programs/program_disk.h"
#include "server/engine/programs/program_rows.h"
#include "server/engine/programs/row_times.h"
#include "server/engine/programs/tuning_queue.h"
#include "server/fair/lateness.h"

namespace kiln::server {

// Until when a request is wanted, and whether it still is. Its flag lives until
// the request's callback has returned.
using Control = runtime::hal::LaunchControl;

// A device by its name; UNKNOWN_DEVICE, also for one that the rules, which may be null, keep from their tenant.
using FindDeviceFn = std::function<absl::StatusOr<runtime::hal::Device*>(absl::string_view, const TenantRules*)>;

// Which program on which device.
struct ProgramId {
  Digest key;
  TrustDomain domain;  // whose it is
  Digest graph_hash;
  Digest target;  // the device's fingerprint
  runtime::hal::Device* device = nullptr;
  Account* account = nullptr;  // who pays for it; may be null
  const TenantRules* rules = nullptr;
  // Under which code is shared with others (shared_code.cc); all zeros: it is not.
  TrustDomain shared = {};
  CacheSharing sharing = CacheSharing::kNone;
  bool shares() const { return shared != TrustDomain(); }
};

// Of code that is kept under a domain, for all devices of a target.
Digest CodeKey(const ProgramId& id, const TrustDomain& domain, const compiler::Options& options);

// The failure of a request by hash when the program is not there.
absl::Status NeedGraph(const ProgramId& id);

struct StoredProgram {
  std::shared_ptr<const runtime::Program> program;
  // The one that it was asked for.
  runtime::hal::Device* device = nullptr;
  const v1::Signature& signature() const { return program->signature(); }
  const v1::Cost& cost() const { return program->cost(); }
  TrustDomain domain;
  Digest graph_hash;
  // The graph it was compiled from, serialized: what Explain starts from.
  std::string graph;
  uint64_t compile_us = 0;
  // Of its compilation, all there before anyone is answered; null if nobody may know, or it came from disk.
  std::shared_ptr<CompileStages> stages;
  uint64_t bytes = 0;
  uint32_t kernels = 0;
  // Its kernels' schedules: what a search found, or the rules chose.
  std::shared_ptr<const compiler::ScheduleMap> schedules;
  // Where requests may be run as one, and how long those runs take.
  std::optional<ProgramRows> rows;
  RowTimes row_times;
  // What is loaded here was compiled before: for another device, or by another server.
  bool loaded = false;
  // Of its entry on disk, if there is a disk; and `hits` when that was last touched.
  std::string stored_key;
  std::atomic<uint64_t> touched_hits{0};
  // Requests that found it there.
  std::atomic<uint64_t> hits{0};
  // Runs that ended well, what they took of the device, and when the last was submitted, in nanoseconds since 1970.
  std::atomic<uint64_t> runs{0};
  std::atomic<uint64_t> device_ns{0};
  std::atomic<int64_t> last_run_ns{0};
  // One that took so long; in nanoseconds.
  uint64_t CountRun(double micros, absl::Time submitted) {
    const auto ns = static_cast<uint64_t>(micros * 1e3);
    runs.fetch_add(1, std::memory_order_relaxed);
    device_ns.fetch_add(ns, std::memory_order_relaxed);
    last_run_ns.store(absl::ToUnixNanos(submitted), std::memory_order_relaxed);
    return ns;
  }
  // Of its tenant's program_bytes, what it weighs.
  Charge charge;
  Trials trials;  // by their deadlines, of its runs
};

// How many modules a cache of programs, or of recordings, keeps at most. Each takes two
// mappings, of which Linux gives a process 65,530 (vm.max_map_count), however little code it is.
inline constexpr uint64_t kMaxModules = 12'000;
// What so many modules of so many bytes together weigh in a cache of `limit_bytes`.
inline uint64_t WeightOf(uint64_t bytes, uint64_t modules, uint64_t limit_bytes) {
  return std::max(bytes, modules * (limit_bytes / kMaxModules));
}

// QUOTA_EXCEEDED: one run is estimated to take longer than those of this tenant may.
absl::Status CheckSecondsOf(const Account* account, const v1::Cost& cost);

// Whether what somebody had made failed because that one went away.
bool EndedByItsCaller(const absl::Status& status);

// Whether a request that got a program so was spared a compilation.
bool FromCache(const StoredProgram& program, runtime::CacheOutcome how);

// Since the start.
struct ProgramStats {
  runtime::CacheStats memory;
  uint64_t compiles = 0;
};

// Safe from any thread.
class ProgramStore {
 public:
  using Program = std::shared_ptr<StoredProgram>;
  // Called exactly once; must not block.
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Program>, runtime::CacheOutcome)>;

  // `pool` outlives all requests. `find` has the devices that programs name. `share_code`: whether devices have a
  // target in common; then, and for tenants that share, a quarter of the limit again holds code to load. `disk` and
  // `tuning_queue` may be null, and outlive the store; without `tuning_queue`, options.beam counts for nothing.
  ProgramStore(uint64_t limit_bytes, CompileFn compile, CompilePool* pool, FindDeviceFn find, bool share_code,
               ProgramDisk* disk = nullptr, TuningQueue* tuning_queue = nullptr);

  // Ends the threads that load. No request may come any more; those under
  // way may still use the pool.
  void Stop() { loads_.reset(); }

  // The program if it is there, else null.
  Program Find(const ProgramId& id);

  // `graph` lives until the callback has returned. The compiler's errors go to
  // all callers that joined; a compilation that ends because its first caller went away
  // is taken over by those that stay. Loading cannot be stopped: who goes meanwhile is answered, and the program is
  // kept, and paid for, for whoever comes next.
  void GetOrCompile(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options,
                    const Control& control, Callback callback);

  // Without the graph: from memory, another device's, or disk; NEED_GRAPH if it is in
  // none of these.
  void GetOrLoad(const ProgramId& id, const compiler::Options& options, const Control& control, Callback callback);

  // Keeps `executable`, compiled from `graph`, as the program: in memory, for devices of
  // the same target, and on disk. A run of the old one ends with it.
  absl::Status Replace(const ProgramId& id, const compiler::Options& options, v1::Executable executable,
                       const v1::Graph& graph);

  // Forgets a domain's programs of this graph, and removes their entries on disk. What is shared stays for the others.
  // Blocks for the disk. One that is compiled meanwhile may be there again.
  struct Evicted {
    uint32_t programs = 0;
    uint32_t entries = 0;
  };
  Evicted Evict(const TrustDomain& domain, const Digest& graph_hash);

  // A tenant is gone: forgets the programs of its domain, removes their entries on disk, and drops
  // what is still being compiled for it. What is shared stays for the others. Blocks for the disk.
  void Forget(const TrustDomain& domain);

  // So much of a tenant's program_bytes. Where there is not enough, programs of its own that nobody uses make
  // room, the least recently used first, and then what `AlsoDrop` knows to drop. QUOTA_EXCEEDED if that is not
  // enough. A null account pays nothing.
  absl::StatusOr<Charge> Pay(Account* account, const TrustDomain& domain, uint64_t bytes);
  // What else keeps programs: drops what of a domain's nobody uses, and asks after each whether it is enough. To be
  // set before the first request.
  using DropFn = std::function<void(const TrustDomain& domain, absl::FunctionRef<bool()> enough)>;
  void AlsoDrop(DropFn drop) { also_drop_ = std::move(drop); }

  // Most recently used first.
  std::vector<Program> List() const;
  ProgramStats stats() const { return {cache_.stats(), compiles_.load(std::memory_order_relaxed)}; }

 private:
  using Cache = runtime::ProgramCache<StoredProgram>;

  bool IsForgotten(const TrustDomain& domain) const {
    absl::MutexLock lock(&forgotten_mutex_);
    return forgotten_.contains(domain);
  }

  // What devices of one target share.
  struct Code {
    CompiledProgram program;
    std::string graph;        // serialized
    uint64_t compile_us = 0;  // the compiler's, of what tenants share
    // Whose it is, and of what, for Evict; nothing where tenants share it.
    TrustDomain domain = {};
    Digest graph_hash = {};
    CompileStages stages = {};  // without those of loading it
  };
  using CodeCache = runtime::ProgramCache<Code>;

  // Who has a program made. What it has lent (a graph, its control) is there until its callback has been called, which
  // only whoever finishes does, or the watch within a MayLeave.
  struct Asker {
    Control control;
    std::shared_ptr<Joiner<Callback>> waits;
  };
  // While it lives, what is done for the asker uses nothing that it has lent, and so it may be answered before that is
  // done: at a device or a disk, where nothing can be stopped.
  class MayLeave {
   public:
    MayLeave(const Asker& asker, CompilePool* pool);
    ~MayLeave() { waits_->StopWatch(); }
    MayLeave(const MayLeave&) = delete;
    MayLeave& operator=(const MayLeave&) = delete;

    // Ends it. OK if the asker is still there; else CALL_CANCELLED, for those who have joined: they begin anew.
    absl::Status End();

   private:
    const std::shared_ptr<Joiner<Callback>> waits_;
  };

  // cache_'s GetOrStart, for a caller that is answered when it is not wanted any more. `retry` has asked again, or
  // says that a joined failure is the caller's own. Both are called as the cache calls.
  using StartFn = absl::FunctionRef<void(const Asker&, Cache::Finish)>;
  using RetryFn = absl::AnyInvocable<bool(const absl::Status& why, Callback& answer)>;
  void Ask(const Digest& key, const Control& control, StartFn start, Callback callback, RetryFn retry);

  // -- One thread compiles (compile_once.cc)
  void ScheduleCompile(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options,
                       const Asker& asker, Cache::Finish finish);
  // For all devices of the target.
  void CompileForAll(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options, const Asker& asker,
                     Cache::Finish finish);
  // With the code, if it was compiled and not found.
  using Made = absl::AnyInvocable<void(absl::StatusOr<Cache::Entry> entry, std::shared_ptr<Code> code)>;
  // On the pool; other servers that share the folder are kept from compiling the same.
  void OnPool(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options, const Asker& asker,
              Made made);
  absl::StatusOr<Cache::Entry> LoadOrCompile(const ProgramId& id, const v1::Graph& graph,
                                             const compiler::Options& options, const Asker& asker, absl::Time asked,
                                             std::shared_ptr<Code>& code);
  absl::StatusOr<Cache::Entry> Compile(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options,
                                       const Asker& asker, absl::Time asked, std::shared_ptr<Code>& code);

  static CodeCache::Entry EntryOf(std::shared_ptr<Code> code);
  // It has waited since `asked`.
  absl::StatusOr<CodeCache::Entry> MakeCode(const ProgramId& id, const v1::Graph& graph,
                                            const compiler::Options& options, const Control& control, absl::Time asked);
  // By the compiler, or by a search.
  absl::StatusOr<CompiledProgram> CompileOrSearch(const ProgramId& id, const v1::Graph& graph,
                                                  const compiler::Options& options, const Control& control,
                                                  CompileStages& stages);
  void Publish(const ProgramId& id, const TrustDomain& domain, const compiler::Options& options,
               const CompiledProgram& program, StoredProgram& stored, bool replaces);
  // None if there is no such program, or none that can be loaded, or none that its tenant may know of. `sent`: it
  // has sent the graph. `again`: the disk was looked at before. Where there is none, the asker is still there: if it
  // has left meanwhile, CALL_CANCELLED (MayLeave).
  absl::StatusOr<std::optional<Cache::Entry>> Load(const ProgramId& id, const compiler::Options& options,
                                                   const Asker& asker, bool sent, bool again = false);
  // What is kept under `domain`, which is the id's or what it shares.
  absl::StatusOr<std::optional<Cache::Entry>> LoadOf(const ProgramId& id, const TrustDomain& domain,
                                                     const compiler::Options& options, const Asker& asker, bool again);

  // Whether code of a program that is not loaded may be somewhere.
  bool MayBeElsewhere(const ProgramId& id) const { return disk_ != nullptr || share_code_ || id.shares(); }

  // -- Code that tenants share (shared_code.cc)
  // Where sharing is hidden, with what is shared for the very bytes of this graph.
  static ProgramId AsSent(const ProgramId& id, const v1::Graph& graph);
  bool MaySeeShared(const ProgramId& id, const compiler::Options& options, bool sent) const;
  // From memory or disk; null if there is none.
  std::shared_ptr<Code> FindShared(const ProgramId& id, const compiler::Options& options);
  // Compiles for all that share, or seems to.
  absl::StatusOr<Cache::Entry> CompileShared(const ProgramId& id, const v1::Graph& graph,
                                             const compiler::Options& options, const Asker& asker, absl::Time asked);
  // For others that share, and for the tenant by its hash.
  void Share(const ProgramId& id, const compiler::Options& options, std::shared_ptr<Code> code, StoredProgram& stored);
  // Touches the entries of what has been used since it was last called.
  void TouchUsed();
  // On the request's device or on those that it names.
  absl::StatusOr<std::shared_ptr<const runtime::Program>> LoadOn(const ProgramId& id,
                                                                 const CompiledProgram& program) const;
  // Loaded and paid for.
  absl::StatusOr<Cache::Entry> Keep(const ProgramId& id, const CompiledProgram& program, std::string graph);
  // The same of what has just been compiled, with the stages of that.
  absl::StatusOr<Cache::Entry> KeepNew(const ProgramId& id, const Code& code);

  const CompileFn compile_;
  CompilePool* const pool_;
  const uint64_t limit_bytes_;
  const bool share_code_;
  ProgramDisk* const disk_;
  const FindDeviceFn find_;
  TuningQueue* const tuning_queue_;
  std::unique_ptr<CompilePool> loads_;
  std::atomic<uint64_t> compiles_{0};
  Cache cache_;
  CodeCache codes_;
  Presented presented_;
  mutable absl::Mutex forgotten_mutex_;
  std::set<TrustDomain> forgotten_ ABSL_GUARDED_BY(forgotten_mutex_);
  DropFn also_drop_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_PROGRAM_STORE_H_
