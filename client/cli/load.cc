// kiln load: what a server does under a load of many clients.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/load/generator.h"
#include "client/load/mix.h"
#include "client/load/plot.h"
#include "client/load/report.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string graph, mix;
  std::vector<std::string> tenants, classes;
  std::string of_graph;  // fields of its class
  std::vector<double> rates;
  double seconds = 10, warm_up = 1, drain = 10;
  uint64_t seed = 1;
  bool json = false;
  std::string plot;
};

absl::StatusOr<load::Mix> MixOf(const Flags& flags) {
  load::Mix mix;
  if (!flags.mix.empty()) {
    std::ifstream file(flags.mix);
    if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", flags.mix));
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    KILN_ASSIGN_OR_RETURN(mix, load::ParseMix(text, flags.mix));
  }
  for (const std::string& line : flags.tenants) {
    KILN_RETURN_IF_ERROR(load::AddLine("tenant " + line, "--tenant " + line, mix));
  }
  for (const std::string& line : flags.classes) {
    KILN_RETURN_IF_ERROR(load::AddLine("class " + line, "--class " + line, mix));
  }
  if (!flags.graph.empty()) {
    const std::string name = load::NameOf(flags.graph);
    KILN_RETURN_IF_ERROR(load::AddLine(absl::StrCat("class ", name, " ", flags.of_graph), flags.graph, mix));
    mix.classes.back().graph = flags.graph;
  }
  KILN_RETURN_IF_ERROR(load::CheckMix(mix));
  return mix;
}

absl::Status Load(const Cli& cli, const Flags& flags) {
  // Debian's Abseil looks for cycles of locks through one table that all threads share.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  KILN_ASSIGN_OR_RETURN(const load::Mix mix, MixOf(flags));
  KILN_ASSIGN_OR_RETURN(const auto generator, load::Generator::Make(cli.server, cli.Options(), mix, flags.seed));

  const std::vector<double> rates = flags.rates.empty() ? std::vector<double>{mix.rate()} : flags.rates;
  std::vector<load::StepResult> results;
  for (const double rate : rates) {
    load::StepResult& result = results.emplace_back();
    result.rate = rate;
    result.step.scale = rate / mix.rate();
    result.step.length = absl::Seconds(flags.seconds);
    result.step.warm_up = absl::Seconds(flags.warm_up);
    result.step.drain = absl::Seconds(flags.drain);
    result.step.seed = flags.seed;
    result.classes = generator->Run(result.step);
    if (flags.json) continue;
    std::puts(load::StepText(result).c_str());
    std::fflush(stdout);
  }
  std::fputs(flags.json ? load::ToJson(results).c_str() : load::CurveText(results).c_str(), stdout);
  if (flags.plot.empty()) return absl::OkStatus();
  std::ofstream file(flags.plot);
  file << load::PlotSvg(results);
  file.close();
  if (!file) return absl::InvalidArgumentError(absl::StrCat("cannot write ", flags.plot));
  return absl::OkStatus();
}

}  // namespace

void AddLoad(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("load", "Send requests by a schedule, whether or not earlier ones return");
  command->footer(
      "Examples:\n"
      "  kiln load add.uop                                       100 requests a second for 10 s\n"
      "  kiln load add.uop --with \"rate=2000 deadline=20ms\"      2000, of which each has 20 ms\n"
      "  kiln load add.uop --rates 500,1000,2000 --plot l.svg    a step each: where does goodput stop growing?\n"
      "  kiln load --mix day.load --seconds 60 --json            several classes and tenants, from a file\n"
      "\n"
      "A mix has a line for each tenant and for each class of requests:\n"
      "  tenant web    token_file=web.token connections=4\n"
      "  tenant batch  token_file=batch.token\n"
      "  class lookup  tenant=web   graph=lookup.uop rate=2000 deadline=20ms\n"
      "  class retrain tenant=batch graph=step.uop   rate=20   arrivals=constant\n"
      "  class feed    tenant=batch kind=upload bytes=4M rate=5\n"
      "  class fresh   tenant=batch kind=compile graph=model.uop rate=1     {n} in the text: another number each time\n"
      "Fields: kind, graph, tenant, rate (100), arrivals (poisson; constant), deadline (none), outstanding (256),\n"
      "bytes (1M, of an upload), arguments (handles; inline).\n"
      "\n"
      "Latency counts from when a request was due. At most `outstanding` are under way at once; what is due beyond\n"
      "that is \"held back\" and waits, which its latency shows. docs/load.md says how to read the figures.");
  command->add_option("graph", flags->graph, "A graph to run, as a class of its own: .uop, .txtpb or .pb");
  command->add_option("--with", flags->of_graph, "Fields of that class: \"rate=2000 deadline=20ms\"");
  command->add_option("--mix", flags->mix, "File of tenants and classes");
  command->add_option("--tenant", flags->tenants, "One more: \"web token_file=web.token\"")->allow_extra_args(false);
  command->add_option("--class", flags->classes, "One more: \"lookup graph=l.uop rate=50\"")->allow_extra_args(false);
  command
      ->add_option("--rates", flags->rates,
                   "Requests a second of all classes together, in their proportions: a step each")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--seconds", flags->seconds, "Of each step")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--warm-up", flags->warm_up, "Seconds before that, which do not count")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--drain", flags->drain, "Seconds for which the last answers are waited for")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Of schedules and values; from 1 on")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "All figures, with the histograms, and no tables");
  command->add_option("--plot", flags->plot, "File for pictures: latency by percentile, goodput by rate; SVG");
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Load(running, *flags); }; });
}

}  // namespace kiln::cli
