// What the subcommands of `kiln` share.
//
// A subcommand is one file with one function that adds it to the command line. What
// it is to do, it leaves in Cli::action as a closure over its flags.
#ifndef KILN_CLIENT_CLI_COMMAND_H_
#define KILN_CLIENT_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "kiln/v1/graph.pb.h"

namespace CLI {
class App;
}

namespace kiln::cli {

struct Cli {
  // Flags of every subcommand.
  std::string server = "localhost:7437";
  std::string device;
  double timeout_seconds = 0;  // 0: none
  client::CredentialOptions credentials = client::CredentialOptions::FromEnvironment();

  // Set by the subcommand that was called.
  std::function<absl::Status(Cli&)> action;
  // The graph the action is about, once it is read: errors quote its nodes.
  v1::Graph graph;

  // As these flags say.
  client::ClientOptions Options() const;
  absl::StatusOr<std::unique_ptr<client::Client>> Connect() const;
};

void AddBench(CLI::App& app, Cli& cli);
void AddCache(CLI::App& app, Cli& cli);
void AddDevices(CLI::App& app, Cli& cli);
void AddEvict(CLI::App& app, Cli& cli);
void AddExplain(CLI::App& app, Cli& cli);
void AddGradient(CLI::App& app, Cli& cli);
void AddGraph(CLI::App& app, Cli& cli);
void AddHealth(CLI::App& app, Cli& cli);
void AddImport(CLI::App& app, Cli& cli);
void AddLoad(CLI::App& app, Cli& cli);
void AddPlay(CLI::App& app, Cli& cli);
void AddPrograms(CLI::App& app, Cli& cli);
void AddSessions(CLI::App& app, Cli& cli);
void AddTenants(CLI::App& app, Cli& cli);
void AddTime(CLI::App& app, Cli& cli);
void AddTop(CLI::App& app, Cli& cli);
void AddTrace(CLI::App& app, Cli& cli);
void AddTune(CLI::App& app, Cli& cli);
void AddRun(CLI::App& app, Cli& cli);
void AddUsage(CLI::App& app, Cli& cli);

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_COMMAND_H_
