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
void AddCompletions(CLI::App& app, Cli& cli);
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

// Whether a shell asks what comes next (`kiln completions --words WORD…`), which is then printed. The words are not
// parsed: they are not whole.
bool AnswerShell(const CLI::App& app, int argc, const char* const* argv);

// The bytes of the hash of which `text` is the beginning, or all 64 digits: the programs that the server has are looked
// through. BAD_ARGUMENT if it is none's, or several programs'.
absl::StatusOr<std::string> FindHash(client::Client& client, const std::string& text);

// Whether it may be one: 4 to 64 of the digits 0 to 9 and a to f. Files of graphs have names with a point.
bool IsHashPrefix(const std::string& text);

// What most commands take: a graph's file, or the hash of a program that the server has. The first reads a file into
// Cli::graph, and asks no server; the second compiles that, or looks for the hash.
inline constexpr char kGraphOrHash[] =
    "A graph's file: .uop, .txtpb or .pb; or the hash of a program that the server has: its first digits will do";
absl::Status ReadUnlessHash(Cli& cli, const std::string& word);
absl::StatusOr<client::Program> OpenProgram(const Cli& cli, client::Client& client, const std::string& word,
                                            const v1::CompileOptions& options = {});

}  // namespace kiln::cli

#endif  // KILN_CLIENT_CLI_COMMAND_H_
