// Compilation in processes of its own: what ends one of them, or keeps it busy for ever, is not the server's end.
//
// A worker is a child of the zygote (zygote.h), locked in (sandbox.h), and compiles one job at a time, all of one trust
// domain. A deadline, a caller that has gone, or too long a time is a kill. What comes back is read as a stranger's.
// All of this folder is tested by tests/hostile/compile_workers_test, and through a server by
// tests/python/server/compile_workers_test.py.
#ifndef KILN_SERVER_COMPILE_WORKER_COMPILE_WORKERS_H_
#define KILN_SERVER_COMPILE_WORKER_COMPILE_WORKERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/compile_worker/job_pieces.h"
#include "server/compile_worker/quarantine.h"
#include "server/compile_worker/sealed_memory.h"
#include "server/compile_worker/worker_memory.h"
#include "server/compile_worker/zygote_process.h"
#include "server/engine/programs/compile_fn.h"
#include "server/metrics/metrics.h"

namespace kiln::v1 {
class CompileJob;
class CompileJobResult;
}  // namespace kiln::v1

namespace kiln::server {

struct CompileWorkersOptions {
  // The program that is a zygote if it is called with kZygoteFlag and memory_bytes.
  std::string binary = "/proc/self/exe";
  // What a worker may take beside what the zygote has, and all together (worker_memory.h); 0: as much as there is.
  uint64_t memory_bytes = 0;
  uint64_t all_memory_bytes = 0;
  // Workers that wait for their next job, and how long one does before it is ended.
  uint32_t idle = 2;
  absl::Duration max_idle = absl::Minutes(1);
  // Of one job.
  absl::Duration max_time = absl::Minutes(2);
  uint64_t max_result_bytes = uint64_t{1} << 30;
  // After so many jobs, or with more resident memory, a worker is replaced.
  uint32_t jobs = 256;
  uint64_t max_resident_bytes = uint64_t{512} << 20;
  // Where those that are no more are counted; may be null.
  std::shared_ptr<Metrics> metrics;
  // Hears of each graph that ended its worker, by its name (FaultName) and what became of it. On the thread of its
  // caller, who waits meanwhile. May be null.
  std::function<void(const v1::Graph& graph, absl::string_view name, absl::string_view what)> on_fault;
};

struct CompileWorkersStats {
  uint64_t born = 0;
  uint64_t jobs = 0;
  uint64_t killed = 0;   // for a deadline, a caller that has gone, their time, or what all have of memory
  uint64_t crashed = 0;  // ended, or answered nonsense
};

// Safe from any thread.
class CompileWorkers {
 public:
  // Starts the zygote; `warm` is compiled in it once, so that workers need not warm up. UNAVAILABLE if there is none.
  static absl::StatusOr<std::unique_ptr<CompileWorkers>> Start(const CompileWorkersOptions& options,
                                                               const v1::CompileJob& warm);
  ~CompileWorkers();

  // A CompileFn. Blocks, on the caller's thread, until there is an answer or nobody waits for it. Beside the compiler's
  // errors: those of LaunchControl::Check; GRAPH_TOO_LARGE for more than max_time; OUT_OF_MEMORY where all workers
  // together have too much; COMPILER_FAULT.
  absl::StatusOr<CompiledProgram> Compile(const v1::Graph& graph, const v1::Target& target,
                                          const compiler::Options& options, compiler::CompileObserver* observer,
                                          const CompileFor& whom);

  // A GradientFn, likewise.
  absl::StatusOr<v1::GradientResponse> Gradient(const v1::GradientRequest& request, const compiler::Limits& limits,
                                                const CompileFor& whom);

  // A ChooseForFn, likewise.
  absl::StatusOr<compiler::Choices> Choose(const v1::Graph& kernel, const v1::Target& target,
                                           const compiler::Limits& limits, const std::string& from, uint32_t most,
                                           const CompileFor& whom);

  // Ends the workers that at `now` have waited for max_idle. A timer calls it; the zygote stays, so the next one is
  // there as soon.
  void EndIdle(absl::Time now);

  CompileWorkersStats stats() const;

 private:
  struct Worker {
    Worker(WorkerMemory& all, uint64_t its_number, const TrustDomain& whose)
        : memory(all), number(its_number), domain(whose) {
      memory.Add(number, domain);
    }
    ~Worker();  // kills it
    WorkerMemory& memory;
    const uint64_t number;
    const TrustDomain domain;
    Descriptor socket, process;  // the latter is a pidfd
    bool introduced = false;     // it has said which its /proc/PID/statm is
    Descriptor memory_file;
    uint32_t jobs = 0;
    absl::Time idle_since;
  };

  CompileWorkers(CompileWorkersOptions options, std::string warm)
      : options_(std::move(options)),
        zygote_(options_.binary, options_.memory_bytes, std::move(warm)),
        memory_(options_.all_memory_bytes) {}

  absl::StatusOr<std::unique_ptr<Worker>> Take(const CompileFor& whom);
  void PutBack(std::unique_ptr<Worker> worker);
  void EndIdleUntilStopped();
  // Has a worker do the job, and hands what it answered to `take`.
  absl::Status Do(JobPieces& job, const CompileFor& whom, absl::FunctionRef<absl::Status(v1::CompileJobResult)> take);
  void Count(WorkerExit cause) const {
    if (options_.metrics != nullptr) options_.metrics->compile_worker_exits.Add(1, cause);
  }
  // Until the worker has answered, is gone, or is not wanted any more: then why.
  absl::Status Wait(const Worker& worker, const runtime::hal::LaunchControl& control, absl::Time end);
  // OUT_OF_MEMORY if the worker is to end for what all have together.
  absl::Status LookAtMemory(const Worker& worker);

  const CompileWorkersOptions options_;
  ZygoteProcess zygote_;
  Quarantine quarantine_;
  WorkerMemory memory_;
  mutable absl::Mutex mutex_;
  Bell bell_;                                                          // for who ends them
  std::vector<std::unique_ptr<Worker>> idle_ ABSL_GUARDED_BY(mutex_);  // who waits longest first
  CompileWorkersStats stats_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread timer_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_COMPILE_WORKER_COMPILE_WORKERS_H_
