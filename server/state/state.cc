#include "server/state/state.h"

#include <pthread.h>

#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "compiler/options/version.h"
#include "server/build_id.h"
#include "server/engine/engine.h"
#include "server/state/collecting.h"

namespace kiln::server {
namespace {

// Who is shown, and how all are called.
void FindAccounts(const StateViewer& viewer, Collecting& from) {
  // Callers that are no tenant's.
  if (from.whole()) from.accounts.push_back(nullptr);
  for (const auto& [name, account] : from.engine.accounts().All()) {
    from.by_number.emplace(OwnerNumber(account), name);
    from.by_flow.emplace(reinterpret_cast<uintptr_t>(account), name);
    if (from.Shows(account)) from.accounts.push_back(account);
  }
}

}  // namespace

ServerState::ServerState(const Options& options, Engine* engine)
    : engine_(engine),
      begin_(SteadyNow()),
      options_(options),
      build_(BuildId()),
      history_(engine->devices().size()),
      slow_calls_(options.slow_after) {
  SampleShares(begin_);
  if (options_.period == absl::InfiniteDuration()) return;
  sampler_ = std::thread([this] { SampleUntilStopped(); });
  pthread_setname_np(sampler_.native_handle(), "kiln-state");
}

ServerState::~ServerState() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (sampler_.joinable()) sampler_.join();
}

void ServerState::SampleShares(absl::Time now) {
  std::vector<std::vector<uint64_t>> measured_ns;
  for (const auto& device : engine_->devices()) measured_ns.push_back(engine_->turns().Look(*device).measured_ns);
  history_.Add(now, measured_ns);
}

void ServerState::SampleUntilStopped() {
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.period)) return;
    }
    SampleShares(SteadyNow());
  }
}

v1::StateResponse ServerState::Collect(const v1::StateRequest& asked, const StateViewer& viewer) const {
  v1::StateResponse state;
  Collecting from = {*engine_, history_, viewer, asked, SteadyNow(), {}, {}, {}, {}};
  FindAccounts(viewer, from);
  for (const auto& device : engine_->devices()) from.lines.push_back(engine_->turns().Look(*device, from.accounts));

  state.set_now_ns(absl::ToUnixNanos(from.now));
  state.mutable_server()->set_version(std::string(compiler::kCompilerVersion));
  state.mutable_server()->set_build(build_);
  state.mutable_server()->set_up_seconds(absl::ToDoubleSeconds(from.now - begin_));
  state.set_whole(from.whole());
  state.set_tenant(viewer.tenant);
  AddDevices(from, state);
  AddTenants(from, state);
  AddHistory(from, state);
  AddSessions(from, state);
  AddCompiler(from, state);
  AddPrograms(from, state);
  AddSlowCalls(from, slow_calls_, state);
  if (from.whole() && options_.audit_lost != nullptr) state.set_audit_lines_lost(options_.audit_lost());
  if (from.whole() && options_.access_lost != nullptr) state.set_access_lines_lost(options_.access_lost());
  return state;
}

}  // namespace kiln::server
