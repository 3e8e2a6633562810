#include "server/engine/program_store.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "runtime/exec/load.h"

namespace kiln::server {
namespace {

bool EndedByItsCaller(const absl::Status& status) {
  return status.code() == absl::StatusCode::kCancelled || status.code() == absl::StatusCode::kDeadlineExceeded;
}

}  // namespace

absl::Status NeedGraph(const ProgramId& id) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NEED_GRAPH);
  detail.set_field("graph_hash");
  return MakeError(detail, absl::StrCat("no program for graph ", absl::BytesToHexString(id.graph_hash.view()), " on ",
                                        id.device->name(), " with these options; send the graph once"));
}

ProgramStore::ProgramStore(uint64_t limit_bytes, CompileFn compile, CompilePool* pool)
    : compile_(std::move(compile)), pool_(pool), cache_(limit_bytes) {}

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

absl::StatusOr<ProgramStore::Cache::Entry> ProgramStore::Make(const ProgramId& id, const v1::Graph& graph,
                                                              const compiler::Options& options) const {
  const absl::Time begin = absl::Now();
  KILN_ASSIGN_OR_RETURN(const v1::Executable executable, compile_(graph, id.device->target(), options, nullptr));
  auto stored = std::make_shared<StoredProgram>();
  KILN_ASSIGN_OR_RETURN(stored->program, runtime::Load(executable, *id.device));
  stored->graph_hash = id.graph_hash;
  stored->graph = graph.SerializeAsString();
  stored->compile_us = static_cast<uint64_t>(absl::ToInt64Microseconds(absl::Now() - begin));
  stored->kernels = static_cast<uint32_t>(executable.kernels_size());
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
