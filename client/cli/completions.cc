// kiln completions: for shells, so that they complete its words.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "client/cli/command.h"
#include "client/cli/shell/scripts.h"
#include "client/cli/shell/words.h"

namespace kiln::cli {

void AddCompletions(CLI::App& app, Cli& cli) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completions", "Have a shell complete commands and options");
  command->footer(
      "Examples:\n"
      "  source <(kiln completions bash)                                for this shell; in ~/.bashrc for all\n"
      "  kiln completions zsh > ~/.zfunc/_kiln                          where fpath has ~/.zfunc\n"
      "  kiln completions fish > ~/.config/fish/completions/kiln.fish");
  command->add_option("shell", *shell, absl::StrJoin(Shells(), ", "))->required()->check(CLI::IsMember(Shells()));
  command->callback([shell, &cli] {
    cli.action = [shell](Cli&) {
      std::fputs(CompletionScript(*shell).c_str(), stdout);
      return absl::OkStatus();
    };
  });
}

bool AnswerShell(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 3 || absl::string_view(argv[1]) != "completions" || absl::string_view(argv[2]) != "--words") return false;
  for (const std::string& each : Completions(app, std::vector<std::string>(argv + 3, argv + argc)))
    std::puts(each.c_str());
  return true;
}

}  // namespace kiln::cli
