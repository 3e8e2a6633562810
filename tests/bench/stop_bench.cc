// How long work goes on after it was told to stop, by what it is in the middle of.
//
// Each is at it for a random time of up to 50 ms, then it is cancelled, or its deadline passes; the time from there
// until the device has ended the run, or the caller has its answer, is one figure (tests/bench/stop/stops.h). Fails if
// one place takes more than 10 ms for one in a hundred, unless it is only asked to report. What a compile worker is in
// the middle of never ends: the bench is its own worker.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "compiler/search/choose.h"
#include "server/compile_worker/zygote.h"
#include "tests/bench/stop/places.h"
#include "tests/bench/stop/stops.h"

namespace kiln::bench {
namespace {

int Main(int argc, char** argv) {
  CLI::App app{"How long runs go on after a stop"};
  StopOptions options;
  uint32_t threads = 0;
  bool report_only = false;
  app.add_option("--runs", options.runs, "stops of each kind of each place");
  app.add_option("--only", options.only, "a part of the names of the rows that are wanted");
  app.add_option("--threads", threads, "of the device that kernels run on; 0: one a core");
  app.add_flag("--report_only", report_only, "status 0 whatever they take");
  app.add_flag("--smoke", options.smoke, "two stops of each, to see that it works");
  CLI11_PARSE(app, argc, argv);
  if (options.smoke) options.runs = 2;
  Stops stops(options);
  stops.PrintHead();
  RunRows(stops, threads);
  DeviceRows(stops);
  RequestRows(stops);
  CompileRows(stops);
  LoadRows(stops);
  TransferRows(stops);
  for (const std::string& fault : stops.faults()) std::printf("\n%s\n", fault.c_str());
  if (!stops.any()) std::printf("\nno row has \"%s\" in its name\n", options.only.c_str());
  return stops.any() && (stops.faults().empty() || options.smoke || report_only) ? 0 : 1;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  uint64_t memory_bytes = 0;
  if (argc == 3 && std::string(argv[1]) == kiln::server::kZygoteFlag && absl::SimpleAtoi(argv[2], &memory_bytes))
    return kiln::server::RunZygote({kiln::bench::CompileInWorker, nullptr, kiln::compiler::Choose}, memory_bytes);
  return kiln::bench::Main(argc, argv);
}
