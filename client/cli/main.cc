// The `kiln` command: a Kiln server from the shell.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/release.h"
#include "client/cli/command.h"
#include "client/cli/shell/words.h"
#include "client/cli/text/error_text.h"

namespace kiln::cli {

client::ClientOptions Cli::Options() const {
  client::ClientOptions options;
  options.device = device;
  // Nobody at a terminal wants to wait long for a server that is not there.
  options.connect_timeout = absl::Seconds(3);
  options.credentials = credentials;
  if (timeout_seconds > 0) options.call_timeout = absl::Seconds(timeout_seconds);
  return options;
}

absl::StatusOr<std::unique_ptr<client::Client>> Cli::Connect() const {
  return client::Client::Connect(server, Options());
}

namespace {

// What is wrong with a command line, and what was perhaps meant; the exit status. Help and versions are nothing wrong.
int TellMistake(const CLI::App& app, const CLI::ParseError& wrong, const std::vector<std::string>& words) {
  if (app.exit(wrong) == 0) return 0;
  if (const std::string meant = Nearest(app, words); !meant.empty())
    std::fprintf(stderr, "Did you mean %s?\n", meant.c_str());
  return 2;
}

int ExitStatus(const absl::Status& status) {
  const auto detail = DetailOf(status);
  // Else a server has answered, and a device or another server has not.
  const bool nobody = !detail.has_value() || detail->code() == v1::SHUTTING_DOWN;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable: return nobody ? 3 : 1;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied: return 4;
    default: return 1;
  }
}

int Main(int argc, char** argv) {
  Cli cli;
  CLI::App app("Talks to a Kiln server: runs, explains and times UOp graphs.", "kiln");
  app.footer(
      "A graph file is text (.uop: the numbered form; .txtpb: protobuf's) or binary (.pb, .kgraph).\n"
      "Try first, with no server:  kiln graph print model.pb\n"
      "`kiln COMMAND --help` shows examples of each command.\n\n"
      "Exit status: 0 done; 1 refused, or not as it should be; 2 the command line is wrong; 3 no server answers;\n"
      "4 the server does not know you, or you may not.");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(kRelease));
  app.fallthrough();
  app.add_option("--server", cli.server, "host:port of kilnd")->envname("KILN_ADDR")->capture_default_str();
  app.add_option("--device", cli.device, "Such as CPU:0; the server's first if not given");
  app.add_option("--timeout", cli.timeout_seconds, "Seconds any one call may take")->check(CLI::PositiveNumber);
  // A token itself is no flag: everybody on the machine sees those.
  app.add_option("--token_file", cli.credentials.token_file,
                 "File of the token that says who you are; or KILN_TOKEN, the token itself")
      ->envname("KILN_TOKEN_FILE");
  app.add_option("--tls_ca", cli.credentials.tls_ca,
                 "Encrypt; file of those who sign the server's certificate, PEM, or \"system\"")
      ->envname("KILN_TLS_CA");
  app.add_option("--tls_certificate", cli.credentials.tls_certificate, "File of your own certificate, PEM")
      ->envname("KILN_TLS_CERTIFICATE");
  app.add_option("--tls_key", cli.credentials.tls_key, "File of its key, PEM")->envname("KILN_TLS_KEY");
  app.add_flag("--insecure", cli.credentials.insecure,
               "Send the token without encryption to another machine, where something else encrypts");
  AddRun(app, cli);
  AddExplain(app, cli);
  AddBench(app, cli);
  AddGradient(app, cli);
  AddGraph(app, cli);
  AddDevices(app, cli);
  AddPrograms(app, cli);
  AddEvict(app, cli);
  AddTime(app, cli);
  AddHealth(app, cli);
  AddCache(app, cli);
  AddImport(app, cli);
  AddLoad(app, cli);
  AddPlay(app, cli);
  AddSessions(app, cli);
  AddTenants(app, cli);
  AddTop(app, cli);
  AddTrace(app, cli);
  AddTune(app, cli);
  AddUsage(app, cli);
  AddCompletions(app, cli);
  if (AnswerShell(app, argc, argv)) return 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return TellMistake(app, wrong, {argv + 1, argv + argc});
  }

  const absl::Status status = cli.action(cli);
  if (status.ok()) return 0;
  std::fputs(ErrorText(status, cli.graph).c_str(), stderr);
  return ExitStatus(status);
}

}  // namespace
}  // namespace kiln::cli

int main(int argc, char** argv) { return kiln::cli::Main(argc, argv); }
