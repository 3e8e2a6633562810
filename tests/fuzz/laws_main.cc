// The law fuzzer for as long as asked: prints each fault with its seed, and at
// the end how often each rule and pass was met. Exit status 1 if there was a fault,
// or too little was done to say so.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/time/clock.h"
#include "tests/fuzz/laws.h"

int main(int argc, char** argv) {
  CLI::App app("Checks the laws of rules, reductions and passes on random cases.");
  double seconds = 60;
  uint64_t seed = 0;
  uint64_t least = 1;
  int max_faults = 10;
  app.add_option("--seconds", seconds, "How long to run");
  app.add_option("--seed", seed, "The first seed; each case takes the next one");
  app.add_option("--least", least, "Fail if fewer seeds are done by then");
  app.add_option("--faults", max_faults, "Stop after so many");
  CLI11_PARSE(app, argc, argv);

  kiln::testing::LawFuzzer fuzzer;
  const uint64_t first = seed;
  int faults = 0;
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  for (; absl::Now() < end && faults < max_faults; ++seed) {
    for (const auto& [law, check] : {std::pair{"rules", &kiln::testing::LawFuzzer::CheckExpression},
                                     std::pair{"reductions", &kiln::testing::LawFuzzer::CheckReduce},
                                     std::pair{"passes", &kiln::testing::LawFuzzer::CheckPasses}}) {
      // A program takes as long as many expressions.
      if (law[0] == 'p' && seed % 16 != 0) continue;
      const std::string fault = (fuzzer.*check)(seed);
      if (fault.empty()) continue;
      ++faults;
      std::printf("FAULT of %s, seed %llu:\n%s\n", law, static_cast<unsigned long long>(seed), fault.c_str());
    }
  }
  for (const auto& [name, count] : fuzzer.met())
    std::printf("%12lld  %s\n", static_cast<long long>(count), name.c_str());
  std::printf("seeds %llu to %llu, %d faults\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(seed) - 1, faults);
  return faults == 0 && seed - first >= least ? 0 : 1;
}
