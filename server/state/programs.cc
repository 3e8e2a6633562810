// The state of programs, of what compiles them, and of calls that were slow. Tested by state_test and
// tests/e2e/state_test.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "server/engine/engine.h"
#include "server/state/call_row.h"
#include "server/state/collecting.h"

namespace kiln::server {
namespace {

// Whose programs are whose.
absl::flat_hash_map<TrustDomain, std::string> Domains(const Collecting& from) {
  absl::flat_hash_map<TrustDomain, std::string> domains;
  for (const Account* account : from.accounts) {
    if (account != nullptr) domains.emplace(from.engine.sessions().DomainOf(account->name()), account->name());
  }
  return domains;
}

void Fill(const StoredProgram& stored, absl::Time now, v1::StateResponse::Program& row) {
  row.set_graph_hash(absl::BytesToHexString(stored.graph_hash.view()));
  row.set_device(std::string(stored.device->name()));
  row.set_hits(stored.hits.load(std::memory_order_relaxed));
  row.set_compile_seconds(static_cast<double>(stored.compile_us) / 1e6);
  row.set_bytes(stored.bytes);
  row.set_kernels(stored.kernels);
  row.set_runs(stored.runs.load(std::memory_order_relaxed));
  row.set_device_seconds(static_cast<double>(stored.device_ns.load(std::memory_order_relaxed)) / 1e9);
  row.set_flops(stored.cost().flops());
  row.set_bytes_read(stored.cost().bytes_read());
  row.set_bytes_written(stored.cost().bytes_written());
  if (const int64_t last = stored.last_run_ns.load(std::memory_order_relaxed); last != 0)
    row.set_idle_seconds(std::max(0.0, static_cast<double>(absl::ToUnixNanos(now) - last) / 1e9));
}

}  // namespace

void AddCompiler(const Collecting& from, v1::StateResponse& state) {
  const CompilePool::Look look = from.engine.compiling();
  v1::StateResponse::Compiler& compiler = *state.mutable_compiler();
  compiler.set_threads(static_cast<uint32_t>(look.threads));
  if (from.whole()) {
    compiler.set_waiting(look.waiting);
    compiler.set_compiled(from.engine.program_stats().compiles);
  }
  for (const CompilePool::Running& running : look.running) {
    if (!from.whole() && running.tenant != reinterpret_cast<uintptr_t>(from.viewer.account)) continue;
    v1::StateResponse::Compiling& row = *compiler.add_running();
    if (const auto name = from.by_flow.find(running.tenant); name != from.by_flow.end()) row.set_tenant(name->second);
    row.set_seconds(std::max(0.0, absl::ToDoubleSeconds(from.now - running.since)));
  }
}

void AddPrograms(const Collecting& from, v1::StateResponse& state) {
  const absl::flat_hash_map<TrustDomain, std::string> domains = Domains(from);
  const size_t most = from.MostOf(kMaxPrograms);
  uint32_t left_out = 0;
  for (const ProgramStore::Program& stored : from.engine.AllPrograms()) {
    const auto owner = domains.find(stored->domain);
    if (!from.whole() && owner == domains.end()) continue;
    if (static_cast<size_t>(state.programs_size()) == most) {
      ++left_out;
      continue;
    }
    v1::StateResponse::Program& row = *state.add_programs();
    if (owner != domains.end()) row.set_tenant(owner->second);
    Fill(*stored, from.now, row);
  }
  state.set_programs_left_out(left_out);
}

void AddSlowCalls(const Collecting& from, const SlowCalls& calls, v1::StateResponse& state) {
  state.set_slow_after_seconds(absl::ToDoubleSeconds(calls.after()));
  std::optional<uint32_t> owner;
  if (!from.whole()) owner = OwnerNumber(from.viewer.account);
  std::vector<SlowCall> slow = calls.List(owner);
  // Before that, its name was another's.
  const int64_t since = owner.has_value() ? absl::ToUnixNanos(from.engine.sessions().Since(from.viewer.tenant)) : 0;
  std::erase_if(slow, [since](const SlowCall& call) { return call.record.time.begin_ns < since; });
  const size_t shown = std::min(slow.size(), from.MostOf(SlowCalls::kKept));
  for (size_t i = 0; i < shown; ++i) {
    FillCall(slow[i].record, slow[i].method, from.NameOf(slow[i].record.owner), from.now, *state.add_slow_calls());
  }
  const uint64_t left_out = from.whole() ? calls.seen() - shown : slow.size() - shown;
  state.set_slow_calls_left_out(left_out);
}

}  // namespace kiln::server
