// kiln bench: how long a warm call takes, seen from here and in the kernels.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "client/cli/command.h"
#include "client/cli/inputs.h"
#include "client/cli/text/json_text.h"
#include "client/cli/text/table.h"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string graph;
  InputFlags inputs;
  int repeat = 200;
  int warm_up = 10;
  std::vector<int> concurrency;
  bool json = false;
};

double Percentile(std::vector<double> values, double share) {
  const size_t place = std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[place];
}

// Of several times, in microseconds.
struct Times {
  double least = 0, p50 = 0, p99 = 0;
};

Times TimesOf(const std::vector<double>& micros) {
  return {Percentile(micros, 0), Percentile(micros, 0.5), Percentile(micros, 0.99)};
}

Row TimeRow(const std::string& name, const Times& times) {
  return {name, MicrosText(times.least), MicrosText(times.p50), MicrosText(times.p99)};
}

Json TimeJson(const Times& times) { return {{"min", times.least}, {"p50", times.p50}, {"p99", times.p99}}; }

// Of so many callers at once.
struct Swept {
  int callers = 0;
  double calls_per_second = 0;
  Times times;
};

// Of a kernel's estimated work; 0 where nothing is known.
struct Rates {
  double gflops = 0, gbytes = 0;
};

// All that was measured; it is shown as tables, or as JSON.
struct Measured {
  Times call, server, kernels;
  Rates rates;
  std::vector<Swept> sweep;
};

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

// For each number of callers: all of them call at once, each `repeat` times.
absl::Status Sweep(const client::Program& program, const client::Arguments& arguments, const Flags& flags,
                   std::vector<Swept>& sweep) {
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
    sweep.push_back({number, static_cast<double>(all.size()) / seconds, TimesOf(all)});
  }
  return absl::OkStatus();
}

void PrintTables(const Measured& measured, const v1::CompileResponse& compiled, int repeat) {
  std::printf("compile %s%s, %u kernels; then %d calls by hash\n",
              MicrosText(static_cast<double>(compiled.compile_us())).c_str(), compiled.from_cache() ? " (earlier)" : "",
              compiled.kernels(), repeat);
  if (!measured.sweep.empty()) {
    std::vector<Row> rows = {{"callers", "calls/s", "p50", "p99"}};
    for (const Swept& each : measured.sweep) {
      rows.push_back({absl::StrCat(each.callers), absl::StrFormat("%.0f", each.calls_per_second),
                      MicrosText(each.times.p50), MicrosText(each.times.p99)});
    }
    std::fputs(TableText(rows).c_str(), stdout);
    return;
  }
  std::fputs(TableText({{"", "min", "p50", "p99"},
                        TimeRow("call, seen from here", measured.call),
                        TimeRow("  in the server", measured.server),
                        TimeRow("    in kernels", measured.kernels)})
                 .c_str(),
             stdout);
  if (measured.rates.gflops > 0 || measured.rates.gbytes > 0)
    absl::PrintF("estimated %.4g GFLOP/s, %.4g GB/s at p50\n", measured.rates.gflops, measured.rates.gbytes);
}

void PrintJson(const Measured& measured, const client::Program& program, int repeat) {
  const v1::CompileResponse& compiled = program.compiled();
  Json all = {{"hash", absl::BytesToHexString(program.hash())},
              {"compile_us", compiled.compile_us()},
              {"from_cache", compiled.from_cache()},
              {"kernels", compiled.kernels()},
              {"repeat", repeat},
              {"call_us", TimeJson(measured.call)},
              {"server_us", TimeJson(measured.server)},
              {"kernels_us", TimeJson(measured.kernels)},
              {"gflops", measured.rates.gflops},
              {"gbytes_per_second", measured.rates.gbytes},
              {"concurrency", Json::array()}};
  for (const Swept& each : measured.sweep) {
    all["concurrency"].push_back(
        {{"callers", each.callers}, {"calls_per_second", each.calls_per_second}, {"call_us", TimeJson(each.times)}});
  }
  std::fputs(JsonText(all).c_str(), stdout);
}

absl::Status Bench(Cli& cli, const Flags& flags) {
  KILN_RETURN_IF_ERROR(ReadUnlessHash(cli, flags.graph));
  KILN_ASSIGN_OR_RETURN(const auto client, cli.Connect());
  KILN_ASSIGN_OR_RETURN(const client::Program program, OpenProgram(cli, *client, flags.graph));
  InputFlags inputs = flags.inputs;
  inputs.random = !inputs.zeros;
  KILN_ASSIGN_OR_RETURN(const auto buffers, MakeInputs(*client, program, inputs));
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
  Measured measured = {TimesOf(call), TimesOf(server), TimesOf(kernels), {}, {}};
  const v1::Cost& cost = compiled.cost();
  if (const double seconds = measured.kernels.p50 * 1e-6; seconds > 0) {
    measured.rates.gflops = static_cast<double>(cost.flops()) / seconds * 1e-9;
    measured.rates.gbytes = static_cast<double>(cost.bytes_read() + cost.bytes_written()) / seconds * 1e-9;
  }
  if (!flags.concurrency.empty()) KILN_RETURN_IF_ERROR(Sweep(program, arguments, flags, measured.sweep));
  if (flags.json) {
    PrintJson(measured, program, flags.repeat);
  } else {
    PrintTables(measured, compiled, flags.repeat);
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
      "  kiln bench 6f0c2b                     a program that the server has (kiln programs)\n"
      "  kiln bench model.pb --concurrency 1,4,16,64   calls a second, by how many call at once");
  command->add_option("graph", flags->graph, kGraphOrHash)->required();
  AddInputFlags(*command, flags->inputs);
  command->add_option("--repeat", flags->repeat, "Calls that count")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--warm-up", flags->warm_up, "Calls before them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--json", flags->json, "The same as JSON");
  command->add_option("--concurrency", flags->concurrency, "Numbers of callers at once; each makes --repeat calls")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024));
  command->callback([flags, &cli] { cli.action = [flags](Cli& running) { return Bench(running, *flags); }; });
}

}  // namespace kiln::cli
