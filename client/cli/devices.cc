// kiln devices: what the server computes on.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/table.h"
#include "client/cli/text/tuning_text.h"

namespace kiln::cli {
namespace {

// One line a change, until interrupted.
absl::Status Watch(Cli& cli) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  return client->WatchDevices([](const v1::Device& device) {
    std::printf("%s %s  in use %s of %s, cached %s, buffers %llu, queued %llu, launches %llu\n", device.name().c_str(),
                v1::Device::Health_Name(device.health()).c_str(),
                BytesText(static_cast<double>(device.memory_in_use_bytes())).c_str(),
                BytesText(static_cast<double>(device.memory_total_bytes())).c_str(),
                BytesText(static_cast<double>(device.memory_cached_bytes())).c_str(),
                static_cast<unsigned long long>(device.buffers()),
                static_cast<unsigned long long>(device.queue_depth()),
                static_cast<unsigned long long>(device.launches()));
    return std::fflush(stdout) == 0;
  });
}

absl::Status Devices(Cli& cli, bool watch, bool json, bool verbose) {
  if (watch) return Watch(cli);
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::ListDevicesResponse response, client->Devices());
  if (json) {
    std::fputs(MessageJson(response).c_str(), stdout);
    return absl::OkStatus();
  }
  std::vector<Row> rows = {{"device", "health", "arch", "memory", "in use", "cached", "buffers", "description"}};
  for (const v1::Device& device : response.devices()) {
    rows.push_back({device.name(), v1::Device::Health_Name(device.health()), device.target().arch(),
                    BytesText(static_cast<double>(device.memory_total_bytes())),
                    BytesText(static_cast<double>(device.memory_in_use_bytes())),
                    BytesText(static_cast<double>(device.memory_cached_bytes())), absl::StrCat(device.buffers()),
                    device.description()});
  }
  std::fputs(TableText(rows).c_str(), stdout);
  if (verbose) std::fputs(TuningText(response).c_str(), stdout);
  for (const v1::Device& device : response.devices()) {
    if (device.peers().empty()) continue;
    std::printf("%s copies without the host from %s\n", device.name().c_str(),
                absl::StrJoin(device.peers(), ", ").c_str());
  }
  for (const v1::AbsentDevices& absent : response.absent()) {
    std::printf("no %s: %s\n", absent.kind().c_str(), absent.reason().c_str());
  }
  std::printf("server %s at %s, protocol %u to %u, features: %s\n", response.server_version().c_str(),
              cli.server.c_str(), response.protocol_min(), response.protocol_max(),
              absl::StrJoin(response.features(), ", ").c_str());
  return absl::OkStatus();
}

}  // namespace

void AddDevices(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("devices", "List the server's devices, their memory and health");
  auto watch = std::make_shared<bool>(false), json = std::make_shared<bool>(false),
       verbose = std::make_shared<bool>(false);
  command->add_flag("--watch", *watch, "Go on: a line whenever a device's health, memory or load changes");
  command->add_flag("--json", *json, "All of it as JSON, once: kiln.v1.ListDevicesResponse")->excludes("--watch");
  command->add_flag("--verbose", *verbose, "Also what the compiler knows of each: vectors, caches, what a core does")
      ->excludes("--watch", "--json");
  command->footer("Examples:\n  kiln devices --server gpu-host:7437\n  kiln devices --watch\n  kiln devices --verbose");
  command->callback([&cli, watch, json, verbose] {
    cli.action = [=](Cli& asked) { return Devices(asked, *watch, *json, *verbose); };
  });
}

}  // namespace kiln::cli
