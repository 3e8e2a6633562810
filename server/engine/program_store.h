// Compiled programs: found by key, else made once.
//
// Whoever asks first for a key that is not there has the program compiled on the
// compile pool; whoever asks meanwhile joins that one compilation. Nobody
// blocks: the answer comes by callback. Where several devices have one target, what
// is compiled for one is kept, and the others only load it.
#ifndef KILN_SERVER_ENGINE_PROGRAM_STORE_H_
#define KILN_SERVER_ENGINE_PROGRAM_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "compiler/observer.h"
#include "compiler/options.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "kiln/v1/target.pb.h"
#include "runtime/cache/program_cache.h"
#include "runtime/exec/program.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"
#include "server/engine/compile_pool.h"

namespace kiln::server {

using runtime::Digest;

// Until when a request is wanted, and whether it still is. Its flag lives until
// the request's callback has returned.
using Control = runtime::hal::LaunchControl;

// The compiler, as the composition root gives it (compiler/compile.h).
using CompileFn = std::function<absl::StatusOr<v1::Executable>(const v1::Graph&, const v1::Target&,
                                                               const compiler::Options&, compiler::CompileObserver*)>;

// Which program on which device.
struct ProgramId {
  Digest key;
  Digest graph_hash;
  runtime::hal::Device* device = nullptr;
  // The device's, TargetFingerprint().
  Digest target;
};

// The failure of a request by hash when the program is not there.
absl::Status NeedGraph(const ProgramId& id);

struct StoredProgram {
  std::shared_ptr<runtime::Program> program;
  Digest graph_hash;
  // The graph it was compiled from, serialized: what Explain starts from.
  std::string graph;
  uint64_t compile_us = 0;
  uint64_t bytes = 0;
  uint32_t kernels = 0;
  // Requests that found it there.
  std::atomic<uint64_t> hits{0};
};

// Safe from any thread.
class ProgramStore {
 public:
  using Program = std::shared_ptr<StoredProgram>;
  // Called exactly once; must not block.
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Program>, runtime::CacheOutcome)>;

  // `pool` outlives all requests. `share_code`: whether devices have a target in
  // common; then a quarter of the limit again holds code to load.
  ProgramStore(uint64_t limit_bytes, CompileFn compile, CompilePool* pool, bool share_code);

  // The program if it is there, else null.
  Program Find(const ProgramId& id);

  // `graph` lives until the callback has returned. The compiler's errors go to
  // all who joined; a compilation that ends because its first caller went away
  // is taken over by those who stay.
  void GetOrCompile(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options,
                    const Control& control, Callback callback);

  // Loads what was compiled for another device of the same target. False if there is
  // no such thing; then `callback` is not called.
  bool LoadCompiled(const ProgramId& id, const compiler::Options& options, Callback& callback);

  // Most recently used first.
  std::vector<Program> List() const;
  runtime::CacheStats stats() const { return cache_.stats(); }

 private:
  using Cache = runtime::ProgramCache<StoredProgram>;

  // What devices of one target share.
  struct Code {
    v1::Executable executable;
    std::string graph;  // serialized
  };
  using CodeCache = runtime::ProgramCache<Code>;

  absl::StatusOr<CodeCache::Entry> Compile(const ProgramId& id, const v1::Graph& graph,
                                           const compiler::Options& options) const;
  absl::StatusOr<Cache::Entry> Make(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options);
  // Its making began at `begin`.
  static absl::StatusOr<Cache::Entry> Load(const ProgramId& id, const Code& code, absl::Time begin);

  const CompileFn compile_;
  CompilePool* const pool_;
  const bool share_code_;
  Cache cache_;
  CodeCache codes_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAM_STORE_H_
