// kiln top, kiln tenants and kiln sessions: who uses the server, now.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/state_text.h"
#include "kiln/v1/debug_service.pb.h"

namespace kiln::cli {
namespace {

struct Flags {
  bool once = false;
  bool json = false;
  double seconds = 1;
};

volatile std::sig_atomic_t stop = 0;

// Keys come one by one and are not shown, on a screen of its own; all is as it was when this ends.
class Screen {
 public:
  Screen() {
    tcgetattr(STDIN_FILENO, &before_);
    termios now = before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &now);
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stop = 1; });
    std::fputs("\x1b[?1049h\x1b[?25l", stdout);
  }
  ~Screen() {
    std::fputs("\x1b[?25h\x1b[?1049l", stdout);
    std::fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  // In place of what was there; each line forgets what was right of it.
  static void Show(const std::string& text) {
    std::printf("\x1b[H%s\x1b[J", absl::StrReplaceAll(text, {{"\n", "\x1b[K\r\n"}}).c_str());
    std::fflush(stdout);
  }
  // 0 if none has come within the time.
  static char Key(int millis) {
    pollfd keyboard = {STDIN_FILENO, POLLIN, 0};
    char key = 0;
    if (poll(&keyboard, 1, millis) <= 0) return 0;
    return read(STDIN_FILENO, &key, 1) == 1 ? key : 'q';
  }

 private:
  termios before_ = {};
};

absl::StatusOr<v1::StateResponse> Ask(client::Client& client) { return client.State(v1::StateRequest()); }

absl::Status Live(client::Client& client, const Flags& flags) {
  const Screen screen;
  auto order = StateOrder::kTime;
  for (;;) {
    winsize size = {};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    KILN_ASSIGN_OR_RETURN(const v1::StateResponse state, Ask(client));
    const size_t lines = size.ws_row > 4 ? size.ws_row - 2u : 0;
    const std::string keys =
        absl::StrCat("q: quit   s: order (now by ", kStateOrders[static_cast<size_t>(order)], ")   space: again");
    Screen::Show(absl::StrCat(TopText(state, order, lines, size.ws_col), keys));
    const char key = Screen::Key(static_cast<int>(1000 * flags.seconds));
    if (key == 'q' || stop != 0) return absl::OkStatus();
    if (key == 's') order = static_cast<StateOrder>((static_cast<size_t>(order) + 1) % std::size(kStateOrders));
  }
}

absl::Status Top(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  if (!flags.once && !flags.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) return Live(*client, flags);
  KILN_ASSIGN_OR_RETURN(const v1::StateResponse state, Ask(*client));
  std::fputs(flags.json ? MessageJson(state).c_str() : TopText(state, StateOrder::kTime, 0, 0).c_str(), stdout);
  return absl::OkStatus();
}

// What of a tenant is not in its row of `kiln top`.
void PrintQuotas(const v1::StateResponse& state) {
  for (const v1::StateResponse::Tenant& tenant : state.tenants()) {
    for (const v1::UsageResponse::QuotaUse& quota : tenant.quotas()) {
      if (quota.limit() == 0) continue;
      std::printf("%s has %s of %s %s\n", Shown(tenant.name()).c_str(), absl::StrCat(quota.used()).c_str(),
                  absl::StrCat(quota.limit()).c_str(), quota.name().c_str());
    }
  }
}

absl::Status Tenants(Cli& cli, bool json) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::StateResponse state, Ask(*client));
  if (json) {
    v1::StateResponse shown;
    shown.set_now_ns(state.now_ns());
    shown.set_whole(state.whole());
    *shown.mutable_tenants() = state.tenants();
    shown.set_tenants_left_out(state.tenants_left_out());
    std::fputs(MessageJson(shown).c_str(), stdout);
    return absl::OkStatus();
  }
  std::fputs(TenantsText(state, StateOrder::kName).c_str(), stdout);
  PrintQuotas(state);
  return absl::OkStatus();
}

absl::Status Sessions(Cli& cli, bool json) {
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const v1::StateResponse state, Ask(*client));
  if (json) {
    v1::StateResponse shown;
    shown.set_now_ns(state.now_ns());
    shown.set_whole(state.whole());
    *shown.mutable_sessions() = state.sessions();
    shown.set_sessions_left_out(state.sessions_left_out());
    *shown.mutable_streams() = state.streams();
    shown.set_streams_left_out(state.streams_left_out());
    std::fputs(MessageJson(shown).c_str(), stdout);
    return absl::OkStatus();
  }
  std::fputs(absl::StrCat(SessionsText(state), "\n", StreamsText(state)).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddTop(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("top", "Watch who uses the server: devices, tenants, programs");
  auto flags = std::make_shared<Flags>();
  command->add_flag("--once", flags->once, "Print it once; so is done where there is no terminal");
  command->add_flag("--json", flags->json, "All of it as JSON, once: kiln.v1.StateResponse");
  command->add_option("--every", flags->seconds, "Seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->footer(
      "A tenant's bar is its part of what was used of the device in the last second; the mark | is where its weight\n"
      "would put it. \"next waits\" is how long somebody new would wait. Keys: q ends it, s changes the order.\n"
      "With tenants you see what is yours; with the right to administer, all (docs/operations.md).\n"
      "Examples:\n"
      "  kiln top\n"
      "  kiln top --once | head -20\n"
      "  kiln top --json | jq '.tenants[] | {name, waiting}'");
  command->callback([&cli, flags] { cli.action = [flags](Cli& asked) { return Top(asked, *flags); }; });
}

void AddTenants(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("tenants", "Show tenants: their shares of devices, memory and quotas");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As JSON: the fields `tenants` of kiln.v1.StateResponse");
  command->footer(
      "A line for each device that a tenant uses; \"due\" is what its weight entitles it to, among those who asked.\n"
      "Examples:\n"
      "  kiln tenants\n"
      "  kiln tenants --json | jq '.tenants[] | select(.refusals != \"0\") | .name'");
  command->callback([&cli, json] { cli.action = [json](Cli& asked) { return Tenants(asked, *json); }; });
}

void AddSessions(CLI::App& app, Cli& cli) {
  CLI::App* command = app.add_subcommand("sessions", "Show sessions and streams of commands: who holds what memory");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As JSON: the fields `sessions` and `streams` of kiln.v1.StateResponse");
  command->footer(
      "A session's name here is no token: nobody can use it. \"-\" holds what a tenant's calls make without a "
      "session;\n"
      "\"kept\": a stream keeps the lease from running out.\n"
      "Examples:\n"
      "  kiln sessions\n"
      "  kiln sessions --json | jq '.sessions[0]'     the one with most memory");
  command->callback([&cli, json] { cli.action = [json](Cli& asked) { return Sessions(asked, *json); }; });
}

}  // namespace kiln::cli
