// kiln trace: where the time of recent calls went, for Perfetto.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/text/chrome_trace.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string file = "trace.json";
  double seconds = 0;
  double kernels = 0;
};

absl::Status Trace(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  v1::TraceRequest request;
  request.set_seconds(flags.seconds);
  if (flags.kernels > 0) {
    request.set_launch_seconds(flags.kernels);
    KILN_RETURN_IF_ERROR(client->Trace(request).status());
    std::printf("kernels are timed for %g seconds\n", flags.kernels);
    std::fflush(stdout);
    absl::SleepFor(absl::Seconds(flags.kernels));
    request.set_launch_seconds(0);
  }
  KILN_ASSIGN_OR_RETURN(const v1::TraceResponse trace, client->Trace(request));
  std::ofstream file(flags.file);
  file << ChromeTrace(trace);
  file.close();
  if (!file) return MakeError(v1::BAD_ARGUMENT, absl::StrCat("cannot write ", flags.file));
  std::printf("%s: %d calls and %d runs; open it at https://ui.perfetto.dev\n", flags.file.c_str(), trace.calls_size(),
              trace.runs_size());
  return absl::OkStatus();
}

}  // namespace

void AddTrace(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("trace", "Write where the time of recent calls went, for Perfetto");
  auto flags = std::make_shared<Flags>();
  command->add_option("-o", flags->file, "The file to write")->capture_default_str();
  command->add_option("--seconds", flags->seconds, "Only what ended in the last so many; else all that is kept")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--kernels", flags->kernels,
                   "First wait for so many seconds, in which each kernel is timed: needs the right to administer")
      ->check(CLI::Range(0.0, 60.0));
  command->footer(
      "Examples:\n"
      "  kiln trace                 all that the server has kept, as trace.json\n"
      "  kiln trace -o slow.json --seconds 2\n"
      "  kiln trace --kernels 5     with single kernels, of the next five seconds");
  command->callback([&cli, flags] { cli.action = [flags](Cli& asked) { return Trace(asked, *flags); }; });
}

}  // namespace kiln::cli
