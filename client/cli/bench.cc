// kiln bench: how long a warm call takes, seen from here and in the kernels.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/text/graph_file.h"
#include "client/cli/text/table.h"

namespace kiln::cli {
namespace {

struct Flags {
  std::string graph;
  InputFlags inputs;
  int repeat = 200;
  int warm_up = 10;
  std::vector<int> concurrency;
};

double Percentile(std::vector<double> values, double share) {
  const size_t place = std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[place];
}

Row TimeRow(const std::string& name, const std::vector<double>& micros) {
  return {name, MicrosText(Percentile(micros, 0)), MicrosText(Percentile(micros, 0.5)),
          MicrosText(Percentile(micros, 0.99))};
}

// What each of several callers at once sees: its calls in microseconds, and why it stopped before it had made all.
struct Caller {
  std::vector<double> micros;
  absl::Status status;
};

void CallAgainAndAgain(const client::Program& program, const client::Arguments& arguments, int calls, Caller& caller) {
  for (int i = 0; i < calls; ++i) {
    const absl::Time begin = SteadyNow();
    caller.status = program.Run(arguments).status();
    if (!caller.status.ok()) return;
    caller.micros.push_back(absl::ToDoubleMicroseconds(SteadyNow() - begin));
  }
}

// A row for each number of callers: all of them call at once, each `repeat` times.
absl::Status Sweep(const client::Program& program, const client::Arguments& arguments, const Flags& flags) {
  std::vector<Row> rows = {{"callers", "calls/s", "p50", "p99"}};
  for (const int number : flags.concurrency) {
    std::vector<Caller> callers(static_cast<size_t>(number));
    const absl::Time begin = SteadyNow();
    std::vector<std::thread> threads;
    for (Caller& caller : callers)
      threads.emplace_back([&] { CallAgainAndAgain(program, arguments, flags.repeat, caller); });
    for (std::thread& thread : threads) thread.join();
    const double seconds = absl::ToDoubleSeconds(SteadyNow() - begin);
    std::vector<double> all;
    for (const Caller& caller : callers) {
      KILN_RETURN_IF_ERROR(caller.status);
      all.insert(all.end(), caller.micros.begin(), caller.micros.end());
    }
    rows.push_back({absl::StrCat(number), absl::StrFormat("%.0f", static_cast<double>(all.size()) / seconds),
                    MicrosText(Percentile(all, 0.5)), MicrosText(Percentile(all, 0.99))});
  }
  std::fputs(TableText(rows).c_str(), stdout);
  return absl::OkStatus();
}

absl::Status Bench(Cli& cli, const Flags& flags) {
  KILN_ASSIGN_OR_RETURN(cli.graph, ReadGraph(flags.graph));
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const client::Program program, client->Compile(cli.graph));
  InputFlags inputs = flags.inputs;
  inputs.random = !inputs.zeros;
  KILN_ASSIGN_OR_RETURN(const auto buffers, MakeInputs(*client, cli.graph, program.signature(), inputs));
  const client::Arguments arguments = AsArguments(buffers);

  std::vector<double> call, server, kernels;
  for (int i = 0; i < flags.warm_up + flags.repeat; ++i) {
    const absl::Time begin = SteadyNow();
    KILN_ASSIGN_OR_RETURN(const client::RunResults run, program.Run(arguments, {.want_timing = true}));
    if (i < flags.warm_up) continue;
    call.push_back(absl::ToDoubleMicroseconds(SteadyNow() - begin));
    server.push_back(run.timing.total_us());
    kernels.push_back(run.timing.device_us());
  }

  const v1::CompileResponse& compiled = program.compiled();
  std::printf("compile %s%s, %u kernels; then %d calls by hash\n",
              MicrosText(static_cast<double>(compiled.compile_us())).c_str(), compiled.from_cache() ? " (earlier)" : "",
              compiled.kernels(), flags.repeat);
  if (!flags.concurrency.empty()) return Sweep(program, arguments, flags);
  std::fputs(TableText({{"", "min", "p50", "p99"},
                        TimeRow("call, seen from here", call),
                        TimeRow("  in the server", server),
                        TimeRow("    in kernels", kernels)})
                 .c_str(),
             stdout);
  const double seconds = Percentile(kernels, 0.5) * 1e-6;
  const v1::Cost& cost = compiled.cost();
  if (seconds > 0 && (cost.flops() > 0 || cost.bytes_read() > 0)) {
    absl::PrintF("estimated %.4g GFLOP/s, %.4g GB/s at p50\n", static_cast<double>(cost.flops()) / seconds * 1e-9,
                 static_cast<double>(cost.bytes_read() + cost.bytes_written()) / seconds * 1e-9);
  }
  return absl::OkStatus();
}

}  // namespace

void AddBench(CLI::App& app, Cli& cli) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("bench", "Time warm calls of a graph");
  command->footer(
      "Examples:\n"
      "  kiln bench matmul.uop                 random inputs that stay on the device\n"
      "  kiln bench model.pb -i x=x.npy --repeat 1000\n"
      "  kiln bench model.pb --concurrency 1,4,16,64   calls a second, by how many call at once");
  command->add_option("graph", flags->graph, "The graph: .uop, .txtpb or .pb")->required();
  AddInputFlags(*command, flags->inputs);
  command->add_option("--repeat", flags->repeat, "Calls that count")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--warm-up", flags->warm_up, "Calls before them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--concurrency", flags->concurrency, "Numbers of callers at once; each makes --repeat calls")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024));
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Bench(running, *flags); }; });
}

}  // namespace kiln::cli
