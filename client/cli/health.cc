// kiln health: for scripts; the exit status is the answer.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/text/json_text.h"

namespace kiln::cli {
namespace {

absl::Status Health(Cli& cli, const std::string& service, bool json) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_RETURN_IF_ERROR(client->Health(service));
  if (json) {
    std::fputs(JsonText({{"server", cli.server}, {"service", service}, {"serves", true}}).c_str(), stdout);
    return absl::OkStatus();
  }
  std::printf("%s serves%s%s\n", cli.server.c_str(), service.empty() ? "" : " ", service.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddHealth(CLI::App& app, Cli& cli) {
  auto service = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("health", "Ask whether the server serves; exits with 0 if so");
  command->footer(
      "Examples:\n"
      "  kiln health && echo up\n"
      "  kiln health CPU:0      one device");
  command->add_option("service", *service, "A device or service; the whole server if not given");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "The same as JSON; where nothing serves, an error and the exit status say so");
  command->callback([service, json, &cli] {
    cli.action = [service, json](Cli& running) { return Health(running, *service, *json); };
  });
}

}  // namespace kiln::cli
