// kiln time: what runs take of the device, one after the other; and kiln evict: a program forgotten.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/table.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string graph;
  InputFlags inputs;
  uint32_t repeat = 20;
  bool all = false;
  bool json = false;
};

absl::Status Time(Cli& cli, const Flags& flags) {
  KILN_RETURN_IF_ERROR(ReadUnlessHash(cli, flags.graph));
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const client::Program program, OpenProgram(cli, *client, flags.graph));
  InputFlags inputs = flags.inputs;
  inputs.random = !inputs.zeros;
  KILN_ASSIGN_OR_RETURN(const auto buffers, MakeInputs(*client, program, inputs));
  v1::TimeRequest request;
  request.mutable_execute()->set_graph_hash(program.hash());
  request.mutable_execute()->set_device(cli.device);
  for (const auto& [slot, buffer] : buffers) {
    v1::Argument& argument = *request.mutable_execute()->add_arguments();
    argument.set_slot(slot);
    *argument.mutable_buffer() = buffer.Ref();
  }
  request.set_repeat(flags.repeat);
  KILN_ASSIGN_OR_RETURN(const v1::TimeResponse timed, client->Time(request));
  if (flags.json) {
    std::fputs(MessageJson(timed).c_str(), stdout);
    return absl::OkStatus();
  }
  std::vector<double> micros;
  for (const double seconds : timed.seconds()) micros.push_back(1e6 * seconds);
  if (flags.all) {
    for (const double each : micros) std::printf("%s\n", MicrosText(each).c_str());
    return absl::OkStatus();
  }
  std::sort(micros.begin(), micros.end());
  std::fputs(TableText({{"runs", "min", "median", "max"},
                        {absl::StrCat(micros.size()), MicrosText(micros.front()), MicrosText(micros[micros.size() / 2]),
                         MicrosText(micros.back())}})
                 .c_str(),
             stdout);
  return absl::OkStatus();
}

absl::Status Evict(Cli& cli, const std::string& hash, bool json) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const std::string bytes, FindHash(*client, hash));
  KILN_ASSIGN_OR_RETURN(const v1::EvictResponse evicted, client->Evict(bytes));
  if (json) {
    std::fputs(MessageJson(evicted).c_str(), stdout);
    return absl::OkStatus();
  }
  std::printf("%u from memory, %u from disk\n", evicted.programs(), evicted.entries());
  return absl::OkStatus();
}

}  // namespace

void AddTime(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("time", "Time runs on the device itself, in one call");
  command->footer(
      "What each run took of the device, without network, queues and results; `kiln bench` times whole calls.\n"
      "Examples:\n"
      "  kiln time matmul.uop                 random inputs that stay on the device\n"
      "  kiln time 6f0c2b                     a program that the server has (kiln programs)\n"
      "  kiln time model.pb -i x=x.npy --repeat 100 --all > times.txt");
  command->add_option("graph", flags->graph, kGraphOrHash)->required();
  AddInputFlags(*command, flags->inputs);
  command->add_option("--repeat", flags->repeat, "Runs")->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_flag("--all", flags->all, "A line for each run, in their order");
  command->add_flag("--json", flags->json, "The same as JSON: kiln.v1.TimeResponse");
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Time(running, *flags); }; });
}

void AddEvict(CLI::App& app, Cli& cli) {
  auto hash = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("evict", "Have the server forget a program of yours, in memory and on disk");
  command->add_option("hash", *hash, "The graph's hash, as `kiln programs` shows it, or its first digits")->required();
  command->footer(
      "It is compiled anew when it is next asked for. What runs now, and recordings, keep it.\n"
      "Example:\n"
      "  kiln evict $(kiln graph hash model.pb)");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "The same as JSON: kiln.v1.EvictResponse");
  command->callback(
      [hash, json, &cli] { cli.action = [hash, json](Cli& running) { return Evict(running, *hash, *json); }; });
}

}  // namespace kiln::cli
