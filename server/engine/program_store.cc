#include "server/engine/program_store.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "runtime/exec/load.h"
#include "server/engine/program_key.h"

namespace kiln::server {
namespace {

bool EndedByItsCaller(const absl::Status& status) {
  return status.code() == absl::StatusCode::kCancelled || status.code() == absl::StatusCode::kDeadlineExceeded;
}

Digest CodeKey(const ProgramId& id, const compiler::Options& options) {
  return ProgramKey(id.graph_hash, id.target, options, /*device=*/"");
}

}  // namespace

absl::Status NeedGraph(const ProgramId& id) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NEED_GRAPH);
  detail.set_field("graph_hash");
  return MakeError(detail, absl::StrCat("no program for graph ", absl::BytesToHexString(id.graph_hash.view()), " on ",
                                        id.device->name(), " with these options; send the graph once"));
}

ProgramStore::ProgramStore(uint64_t limit_bytes, CompileFn compile, CompilePool* pool, bool share_code)
    : compile_(std::move(compile)),
      pool_(pool),
      share_code_(share_code),
      cache_(limit_bytes),
      codes_(limit_bytes / 4) {}

ProgramStore::Program ProgramStore::Find(const ProgramId& id) {
  Program program = cache_.Find(id.key);
  if (program == nullptr) return nullptr;
  // The key is a digest of the graph's hash among other things.
  KILN_CHECK(program->graph_hash == id.graph_hash);
  program->hits.fetch_add(1, std::memory_order_relaxed);
  return program;
}

void ProgramStore::GetOrCompile(const ProgramId& id, const v1::Graph& graph, const compiler::Options& options,
                                const Control& control, Callback callback) {
  if (absl::Status wanted = control.Check(); !wanted.ok()) {
    return callback(std::move(wanted), runtime::CacheOutcome::kComputed);
  }
  cache_.GetOrStart(
      id.key,
      [this, id, &graph, options, control](Cache::Finish finish) {
        pool_->Schedule([this, id, &graph, options, control, finish = std::move(finish)]() mutable {
          // It may have waited in the pool's queue for long.
          if (absl::Status wanted = control.Check(); !wanted.ok()) return finish(std::move(wanted));
          finish(Make(id, graph, options));
        });
      },
      [this, id, &graph, options, control, callback = std::move(callback)](Cache::Result result,
                                                                           runtime::CacheOutcome how) mutable {
        if (!result.ok() && how == runtime::CacheOutcome::kJoined && EndedByItsCaller(result.status())) {
          return GetOrCompile(id, graph, options, control, std::move(callback));
        }
        if (result.ok() && how == runtime::CacheOutcome::kHit) (*result)->hits.fetch_add(1, std::memory_order_relaxed);
        callback(std::move(result), how);
      });
}

bool ProgramStore::LoadCompiled(const ProgramId& id, const compiler::Options& options, Callback& callback) {
  if (!share_code_) return false;
  std::shared_ptr<Code> code = codes_.Find(CodeKey(id, options));
  if (code == nullptr) return false;
  cache_.GetOrStart(
      id.key,
      [this, id, code = std::move(code)](Cache::Finish finish) {
        pool_->Schedule([id, code, finish = std::move(finish)]() mutable { finish(Load(id, *code, absl::Now())); });
      },
      [this, id, options, callback = std::move(callback)](Cache::Result result, runtime::CacheOutcome how) mutable {
        // Another's compilation, that ended because its caller went away.
        if (!result.ok() && how == runtime::CacheOutcome::kJoined && EndedByItsCaller(result.status()) &&
            LoadCompiled(id, options, callback)) {
          return;
        }
        callback(std::move(result), how);
      });
  return true;
}

absl::StatusOr<ProgramStore::CodeCache::Entry> ProgramStore::Compile(const ProgramId& id, const v1::Graph& graph,
                                                                     const compiler::Options& options) const {
  auto code = std::make_shared<Code>();
  KILN_ASSIGN_OR_RETURN(code->executable, compile_(graph, id.device->target(), options, nullptr));
  code->graph = graph.SerializeAsString();
  const uint64_t bytes = sizeof(Code) + code->graph.size() + code->executable.ByteSizeLong();
  return CodeCache::Entry{std::move(code), bytes};
}

absl::StatusOr<ProgramStore::Cache::Entry> ProgramStore::Make(const ProgramId& id, const v1::Graph& graph,
                                                              const compiler::Options& options) {
  const absl::Time begin = absl::Now();
  if (!share_code_) {
    KILN_ASSIGN_OR_RETURN(const CodeCache::Entry code, Compile(id, graph, options));
    return Load(id, *code.value, begin);
  }
  // This thread is the pool's own, so it may wait for another's compilation.
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<Code> code,
                        codes_.GetOrCompute(CodeKey(id, options), [&] { return Compile(id, graph, options); }));
  return Load(id, *code, begin);
}

absl::StatusOr<ProgramStore::Cache::Entry> ProgramStore::Load(const ProgramId& id, const Code& code, absl::Time begin) {
  auto stored = std::make_shared<StoredProgram>();
  KILN_ASSIGN_OR_RETURN(stored->program, runtime::Load(code.executable, *id.device));
  stored->graph_hash = id.graph_hash;
  stored->graph = code.graph;
  stored->compile_us = static_cast<uint64_t>(absl::ToInt64Microseconds(absl::Now() - begin));
  stored->kernels = static_cast<uint32_t>(code.executable.kernels_size());
  stored->bytes = sizeof(StoredProgram) + stored->graph.size() + stored->program->memory_bytes();
  const uint64_t bytes = stored->bytes;
  return Cache::Entry{std::move(stored), bytes};
}

std::vector<ProgramStore::Program> ProgramStore::List() const {
  std::vector<Program> programs;
  for (auto& [key, program] : cache_.List()) programs.push_back(std::move(program));
  return programs;
}

}  // namespace kiln::server
