// kiln usage: what a tenant has, and may have.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/table.h"

namespace kiln::cli {
namespace {

std::string Shown(const v1::UsageResponse::QuotaUse& quota, uint64_t value) {
  const std::string& name = quota.name();
  return absl::StrContains(name, "bytes") ? BytesText(static_cast<double>(value)) : absl::StrCat(value);
}

absl::Status Usage(Cli& cli, bool all_tenants, bool everything, bool json) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::UsageResponse response, client->Usage(all_tenants));
  if (json) {
    std::fputs(MessageJson(response).c_str(), stdout);
    return absl::OkStatus();
  }
  if (response.tenants().empty()) std::puts("this server has no tenants, and counts for none");
  for (const v1::UsageResponse::TenantUse& tenant : response.tenants()) {
    std::vector<Row> rows = {{"tenant " + tenant.name(), "used", "limit"}};
    for (const v1::UsageResponse::QuotaUse& quota : tenant.quotas()) {
      if (!everything && quota.used() == 0 && quota.limit() == 0) continue;
      rows.push_back(
          {quota.name(), Shown(quota, quota.used()), quota.limit() == 0 ? "none" : Shown(quota, quota.limit())});
    }
    for (const v1::UsageResponse::DeviceUse& device : tenant.devices()) {
      rows.push_back({device.name(), BytesText(static_cast<double>(device.used_bytes())),
                      device.guaranteed_bytes() == 0
                          ? ""
                          : absl::StrCat(BytesText(static_cast<double>(device.guaranteed_bytes())), " guaranteed")});
    }
    std::fputs(TableText(rows).c_str(), stdout);
  }
  return absl::OkStatus();
}

}  // namespace

void AddUsage(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("usage", "Show what your tenant has, and may have");
  auto all_tenants = std::make_shared<bool>(false), everything = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  command->add_flag("--all_tenants", *all_tenants, "Of every tenant: needs the right to administer");
  command->add_flag("--everything", *everything, "Also what has neither a limit nor a use");
  command->add_flag("--json", *json, "All of it as JSON: kiln.v1.UsageResponse");
  command->footer("Examples:\n  kiln usage\n  kiln usage --all_tenants --everything");
  command->callback([&cli, all_tenants, everything, json] {
    cli.action = [all_tenants, everything, json](Cli& asked) { return Usage(asked, *all_tenants, *everything, *json); };
  });
}

}  // namespace kiln::cli
