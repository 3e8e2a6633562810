// The accuracy table: for each function the greatest error that compiled
// programs make, over all 2^32 float32 or a stratified sample, with FMA
// contraction and without.
//
//   ./dev bench accuracy [--write docs/accuracy.md --machine "2 cores of …"]
//
// Ends with status 1 if a bound of docs/ir.md does not hold.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/bench/accuracy.h"

namespace kiln::bench {
namespace {

std::string At(const Function& function, const double* arguments) {
  const char* format = function.wide ? "%.17g" : "%.9g";
  auto number = [&](double value) {
    char text[40];
    std::snprintf(text, sizeof(text), format, value);
    return std::string(text);
  };
  return function.arguments == 1 ? number(arguments[0])
                                 : absl::StrCat(number(arguments[0]), ", ", number(arguments[1]));
}

std::string Samples(uint64_t samples) {
  if (samples == uint64_t{1} << 32) return "all 2^32";
  return samples >= 1'000'000 ? absl::StrFormat("%.1f million", static_cast<double>(samples) / 1e6)
                              : absl::StrCat(samples);
}

std::string RowOf(const Function& function, const Finding& finding) {
  const auto bound = function.bound == 0 ? "" : absl::StrFormat("%g", function.bound);
  return absl::StrFormat("| %s | %s | %s | %.3f | %s | %.3f | %s | %s |\n", function.name,
                         function.wide ? "float64" : "float32", bound, finding.worst[0], At(function, finding.at[0]),
                         finding.worst[1], At(function, finding.at[1]), Samples(finding.samples));
}

constexpr char kHead[] =
    "| function | dtype | bound | fused: max ulp | at | not fused: max ulp | at | arguments |\n"
    "|---|---|---|---|---|---|---|---|\n";

constexpr char kText[] =
    "# Accuracy\n\n"
    "What `./dev bench accuracy` printed: the greatest error of programs that the CPU target compiled, in units in the "
    "last place of the true value (a correctly rounded result is at most 0.5 away), and the argument where it occurs. "
    "Compared with glibc's float64 functions where the program is float32, its long double functions where it is "
    "float64. \"Fused\" and \"not fused\": with `contraction`, the default, and without. NaN, infinities and the sign "
    "of zero count: one that is wrong would show as `inf`. Where no bound is given the function is a composition of "
    "the C++ client's.\n\n"
    "float32 functions of one argument are tried on every float32, or with `--share=N` on every Nth. The others are "
    "sampled: every exponent and sign "
    "in turn with random fractions, arguments close to multiples of pi/2, all pairs of 64 special values, and for pow "
    "pairs whose result is spread evenly over all exponents.\n\n";

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  CLI::App app{"Measures the greatest error of each function of the CPU target."};
  bool smoke = false;
  uint64_t share = 1;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string path, machine = "this machine", only;
  app.add_flag("--smoke", smoke, "One argument in 4099, as a test");
  app.add_option("--share", share, "Try one argument in so many")->check(CLI::PositiveNumber);
  app.add_option("--threads", threads, "Threads")->check(CLI::PositiveNumber);
  app.add_option("--only", only, "The function of this name alone");
  app.add_option("--write", path, "Also write the table, with its explanation, to this file");
  app.add_option("--machine", machine, "What the file says it was measured on");
  CLI11_PARSE(app, argc, argv);
  if (smoke) share = 4099;

  std::string table = kiln::bench::kHead;
  std::printf("%s", kiln::bench::kHead);
  bool good = true;
  for (const kiln::bench::Function& function : kiln::bench::Functions()) {
    if (!only.empty() && function.name != only) continue;
    const kiln::bench::Finding finding = kiln::bench::Examine(function, share, threads);
    const std::string row = kiln::bench::RowOf(function, finding);
    std::printf("%s", row.c_str());
    std::fflush(stdout);
    table += row;
    if (function.bound != 0)
      good = good && finding.worst[0] <= function.bound + 1e-6 && finding.worst[1] <= function.bound + 1e-6;
  }
  if (!path.empty()) {
    std::ofstream(path) << kiln::bench::kText << "Machine: " << machine
                        << ". Date: " << absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone()) << ".\n\n"
                        << table;
  }
  if (!good) std::printf("a bound does not hold\n");
  return good ? 0 : 1;
}
