// Engine: programs that go to another server, and come from one. Tested by tests/e2e/carry.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/engine/engine.h"
#include "server/engine/programs/program_key.h"

namespace kiln::server {
namespace {

absl::Status NotServed(const char* rpc, absl::string_view flag) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NOT_IMPLEMENTED);
  detail.set_field(rpc);
  return MakeError(detail, absl::StrCat(rpc, " is not served: the server was started without --", flag));
}

// Where there are tenants, every caller is one.
bool IsTenant(const Session* caller) { return caller != nullptr && !caller->tenant().empty(); }

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramExport>> Engine::Export(const Session* caller, bool all,
                                                              const std::string& whose) {
  if (!exports()) return NotServed("DebugService.Export", "program_cache_dir");
  KILN_RETURN_IF_ERROR(CheckPlaceToCompile(AccountOf(caller)));
  KILN_ASSIGN_OR_RETURN(auto place, carry_places_.Take(whose));
  std::vector<ProgramExport::Whose> owners;
  if (!all || !IsTenant(caller)) {
    owners.push_back({IsTenant(caller) ? caller->tenant() : "", DomainOf(caller)});
  } else {
    for (const auto& [tenant, account] : accounts_.All()) owners.push_back({tenant, sessions_.DomainOf(tenant)});
  }
  std::vector<ProgramExport::InMemory> in_memory;
  for (const ProgramStore::Program& program : store_.List())
    in_memory.push_back({program->domain, program->stored_key, program->compile_us});
  return std::make_unique<ProgramExport>(*options_.disk, LimitsText(options_.limits), std::move(owners),
                                         std::move(in_memory), std::move(place));
}

absl::StatusOr<std::unique_ptr<ProgramImport>> Engine::Import(const SessionPtr& caller, const std::string& whose) {
  if (!exports()) return NotServed("DebugService.Import", "program_cache_dir");
  if (!imports()) return NotServed("DebugService.Import", "program_cache_key_file");
  KILN_RETURN_IF_ERROR(CheckPlaceToCompile(AccountOf(caller.get())));
  KILN_ASSIGN_OR_RETURN(auto place, carry_places_.Take(whose));
  std::vector<v1::Target> targets;
  for (const auto& device : devices_) targets.push_back(device->target());
  const auto find = [this, caller](const std::string& tenant) -> std::optional<ProgramImport::Owner> {
    if (tenant.empty() || !IsTenant(caller.get()))
      return ProgramImport::Owner{DomainOf(caller.get()), AccountOf(caller.get())};
    const auto tenants = accounts_.All();
    if (tenants.find(tenant) == tenants.end()) return std::nullopt;
    return ProgramImport::Owner{sessions_.DomainOf(tenant), accounts_.Of(tenant)};
  };
  return std::make_unique<ProgramImport>(*options_.disk, LimitsText(options_.limits), std::move(targets), find,
                                         std::move(place));
}

void Engine::OnCompileThread(const Control& control, absl::AnyInvocable<void()> job) {
  pool_->Schedule(control, [account = control.account, job = std::move(job)]() mutable {
    const Meter meter(account, Quota::kCompileSeconds);
    job();
  });
}

}  // namespace kiln::server
