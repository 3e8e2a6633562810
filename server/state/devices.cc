// The state of devices, and of tenants at them. Tested by state_test and tests/e2e/state_test.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "kiln/v1/target.pb.h"
#include "runtime/hal/guarantees.h"
#include "server/engine/engine.h"
#include "server/fair/owner.h"
#include "server/state/collecting.h"

namespace kiln::server {
namespace {

constexpr size_t kSecond = 1, kMinute = 60;

std::string HashText(const Digest& hash) { return hash == Digest() ? "" : absl::BytesToHexString(hash.view()); }

double PartOf(double some, double all) { return all > 0 ? some / all : 0; }

const TenantRules* RulesOf(const Collecting& from) {
  return from.whole() ? nullptr : &from.engine.rules().Of(from.viewer.account->name())->get();
}

void AddRunning(const Collecting& from, const LineLook& line, v1::StateResponse::Device& device) {
  const size_t most = from.MostOf(kMaxRunning);
  uint32_t left_out = 0;
  for (const LineLook::Run& run : line.running) {
    if (!from.Shows(run.account)) continue;
    if (static_cast<size_t>(device.running_size()) == most) {
      ++left_out;
      continue;
    }
    v1::StateResponse::Run& row = *device.add_running();
    if (run.account != nullptr) row.set_tenant(run.account->name());
    row.set_graph_hash(HashText(run.program));
    row.set_seconds(std::max(0.0, absl::ToDoubleSeconds(from.now - run.began)));
    row.set_devices(static_cast<uint32_t>(run.devices));
  }
  device.set_running_left_out(left_out);
}

// What only who sees all may know.
void AddWhole(const Collecting& from, size_t number, v1::StateResponse::Device& device) {
  const LineLook& line = from.lines[number];
  const runtime::hal::DeviceStats stats = from.engine.devices()[number]->stats();
  device.set_memory_in_use_bytes(stats.memory.in_use_bytes);
  device.set_memory_cached_bytes(stats.memory.cached_bytes);
  device.set_memory_peak_bytes(stats.memory.peak_bytes);
  device.set_waiting(line.waiting);
  device.set_in_flight(line.running.size());
  device.set_queue_entries(stats.queue_depth);
  device.set_predicted_wait_seconds(static_cast<double>(line.predicted_wait_ns) / 1e9);
  uint64_t measured_ns = 0;
  for (const uint64_t each : line.measured_ns) measured_ns += each;
  device.set_busy_seconds_total(static_cast<double>(measured_ns) / 1e9);
  const ShareHistory::Used second = from.history.Over(number, kSecond), minute = from.history.Over(number, kMinute);
  device.set_busy_second(PartOf(second.all, second.seconds));
  device.set_busy_minute(PartOf(minute.all, minute.seconds));
  device.set_launches(stats.launches);
}

// What a payer had of a device in the last samples, and what its weight entitles it to.
struct Span {
  ShareHistory::Used used;
  double weights = 0;  // of all who had some, or wait

  double of(size_t payer) const { return payer < used.by_payer.size() ? used.by_payer[payer] : 0; }
};

uint32_t WeightOf(const Account* account) { return account == nullptr ? 1 : std::max(1u, account->weight()); }

Span SpanOf(const Collecting& from, size_t device, size_t samples) {
  Span span = {from.history.Over(device, samples)};
  for (size_t i = 0; i < from.accounts.size(); ++i) {
    if (span.of(PayerOf(from.accounts[i])) > 0 || from.lines[device].waiting_of[i] > 0)
      span.weights += WeightOf(from.accounts[i]);
  }
  return span;
}

// What waits there of one of the accounts; of nobody, what is no tenant's.
size_t WaitingOf(const Collecting& from, size_t number, size_t device) {
  const LineLook& line = from.lines[device];
  if (from.accounts[number] != nullptr) return line.waiting_of[number];
  size_t others = line.waiting;
  for (size_t i = 0; i < from.accounts.size(); ++i) {
    if (from.accounts[i] != nullptr) others -= std::min(others, line.waiting_of[i]);
  }
  return others;
}

struct Spans {
  Span second, minute;
};

void AddShare(const Collecting& from, const std::vector<Spans>& spans, size_t number, size_t device,
              v1::StateResponse::Tenant& tenant) {
  const Account* const account = from.accounts[number];
  const size_t payer = PayerOf(account);
  const LineLook& line = from.lines[device];
  const auto& [second, minute] = spans[device];
  v1::StateResponse::Share& share = *tenant.add_shares();
  share.set_device(std::string(from.engine.devices()[device]->name()));
  share.set_busy_second(PartOf(second.of(payer), second.used.seconds));
  share.set_busy_minute(PartOf(minute.of(payer), minute.used.seconds));
  share.set_busy_seconds_total(static_cast<double>(line.measured_ns[payer]) / 1e9);
  const size_t waiting = WaitingOf(from, number, device);
  share.set_waiting(waiting);
  tenant.set_waiting(tenant.waiting() + waiting);
  for (const LineLook::Run& run : line.running) {
    if (run.account == account) tenant.set_running(tenant.running() + 1);
  }
  if (!from.whole()) return;
  const auto entitled = [&](const Span& span) {
    const bool takes_part = span.of(payer) > 0 || waiting > 0;
    return takes_part ? PartOf(WeightOf(account), span.weights) : 0;
  };
  share.set_share_second(PartOf(second.of(payer), second.used.all));
  share.set_share_minute(PartOf(minute.of(payer), minute.used.all));
  share.set_entitled_second(entitled(second));
  share.set_entitled_minute(entitled(minute));
}

void AddMemory(const char* kind, uint64_t bytes, v1::StateResponse::Tenant& tenant) {
  v1::StateResponse::Memory& row = *tenant.add_memory();
  row.set_kind(kind);
  row.set_bytes(bytes);
}

void AddAccount(const Collecting& from, const Account& account, v1::StateResponse::Tenant& tenant) {
  tenant.set_name(account.name());
  tenant.set_interactive(account.interactive());
  tenant.set_refusals(account.refusals());
  tenant.set_sessions(static_cast<uint32_t>(account.used(Quota::kSessions)));
  const TenantRules& rules = from.engine.rules().Of(account.name())->get();
  for (const auto& device : from.engine.devices(&rules)) {
    if (!rules.MayUse(device->name())) continue;
    const runtime::hal::Guarantees::Part part = device->allocator().guarantees().Of(&account);
    v1::StateResponse::Memory& row = *tenant.add_memory();
    row.set_device(std::string(device->name()));
    row.set_kind("buffers");
    row.set_bytes(part.used);
    row.set_guaranteed_bytes(part.guaranteed);
  }
  AddMemory("messages", account.used(Quota::kHostBytes), tenant);
  AddMemory("programs", account.used(Quota::kProgramBytes), tenant);
  AddMemory("shared", account.used(Quota::kRegionBytes), tenant);
  AddMemory("disk", account.used(Quota::kDiskBytes), tenant);
  for (size_t i = 0; i < kQuotas; ++i) {
    const auto quota = static_cast<Quota>(i);
    v1::UsageResponse::QuotaUse& use = *tenant.add_quotas();
    use.set_name(std::string(QuotaName(quota)));
    use.set_limit(account.limit(quota));
    use.set_used(account.used(quota));
    use.set_window_seconds(static_cast<uint32_t>(absl::ToInt64Seconds(QuotaWindow(quota))));
  }
}

}  // namespace

void AddDevices(const Collecting& from, v1::StateResponse& state) {
  const size_t most = from.MostOf(kMaxRows);
  const auto devices = from.engine.devices();
  for (size_t number = 0; number < devices.size(); ++number) {
    runtime::hal::Device& device = *devices[number];
    if (!Engine::MayUse(RulesOf(from), device.name())) continue;
    if (static_cast<size_t>(state.devices_size()) == most) {
      state.set_devices_left_out(state.devices_left_out() + 1);
      continue;
    }
    v1::StateResponse::Device& row = *state.add_devices();
    row.set_name(std::string(device.name()));
    row.set_kind(v1::Target::Kind_Name(device.target().kind()));
    row.set_description(std::string(device.description()));
    const absl::Status health = device.health();
    row.set_up(health.ok());
    if (!health.ok()) row.set_fault(std::string(health.message()));
    row.set_memory_limit_bytes(device.stats().memory.limit_bytes);
    AddRunning(from, from.lines[number], row);
    if (from.whole()) AddWhole(from, number, row);
  }
}

void AddTenants(const Collecting& from, v1::StateResponse& state) {
  std::vector<Spans> spans;
  for (size_t device = 0; device < from.lines.size(); ++device)
    spans.push_back({SpanOf(from, device, kSecond), SpanOf(from, device, kMinute)});
  const bool has_tenants = from.accounts.size() > 1;
  const size_t most = from.MostOf(kMaxRows);
  for (size_t number = 0; number < from.accounts.size(); ++number) {
    const Account* const account = from.accounts[number];
    if (static_cast<size_t>(state.tenants_size()) == most) {
      state.set_tenants_left_out(static_cast<uint32_t>(from.accounts.size() - number));
      return;
    }
    v1::StateResponse::Tenant row;
    row.set_weight(WeightOf(account));
    double had = 0;
    for (size_t device = 0; device < from.lines.size(); ++device) {
      if (!Engine::MayUse(RulesOf(from), from.engine.devices()[device]->name())) continue;
      AddShare(from, spans, number, device, row);
      had += row.shares().rbegin()->busy_seconds_total();
    }
    if (account != nullptr) AddAccount(from, *account, row);
    // With tenants, nobody else comes in; but the server may have done something for itself.
    if (account == nullptr && has_tenants && had == 0) continue;
    *state.add_tenants() = std::move(row);
  }
}

void AddHistory(const Collecting& from, v1::StateResponse& state) {
  const size_t samples = std::min<size_t>(from.asked.history_seconds(), ShareHistory::kSamples);
  if (samples == 0) return;
  struct Row {
    double had = 0;
    size_t device = 0;
    const Account* account = nullptr;
  };
  std::vector<Row> rows;
  for (size_t device = 0; device < from.lines.size(); ++device) {
    const Span span = {from.history.Over(device, samples)};
    for (const Account* account : from.accounts) {
      if (const double had = span.of(PayerOf(account)); had > 0) rows.push_back({had, device, account});
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.had > b.had; });
  const size_t most = std::min(rows.size(), from.MostOf(kMaxRunning));
  state.set_history_left_out(static_cast<uint32_t>(rows.size() - most));
  rows.resize(most);
  for (const Row& row : rows) {
    v1::StateResponse::History& history = *state.add_history();
    history.set_device(std::string(from.engine.devices()[row.device]->name()));
    if (row.account != nullptr) history.set_tenant(row.account->name());
    const std::vector<float> parts = from.history.PartsOf(row.device, PayerOf(row.account), samples);
    history.mutable_busy()->Assign(parts.begin(), parts.end());
  }
}

}  // namespace kiln::server
