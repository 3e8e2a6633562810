// kiln devices: what the server computes on.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/table.h"

namespace kiln::cli {
namespace {

absl::Status Devices(Cli& cli) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::ListDevicesResponse response, client->Devices());
  std::vector<Row> rows = {{"device", "health", "arch", "memory", "in use", "cached", "buffers", "description"}};
  for (const v1::Device& device : response.devices()) {
    rows.push_back({device.name(), v1::Device::Health_Name(device.health()), device.target().arch(),
                    BytesText(static_cast<double>(device.memory_total_bytes())),
                    BytesText(static_cast<double>(device.memory_in_use_bytes())),
                    BytesText(static_cast<double>(device.memory_cached_bytes())), absl::StrCat(device.buffers()),
                    device.description()});
  }
  std::fputs(TableText(rows).c_str(), stdout);
  std::printf("server %s at %s, protocol %u to %u, features: %s\n", response.server_version().c_str(),
              cli.server.c_str(), response.protocol_min(), response.protocol_max(),
              absl::StrJoin(response.features(), ", ").c_str());
  return absl::OkStatus();
}

}  // namespace

void AddDevices(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("devices", "List the server's devices, their memory and health");
  command->footer("Example:\n  kiln devices --server gpu-host:7437");
  command->callback([&cli] { cli.action = Devices; });
}

}  // namespace kiln::cli
