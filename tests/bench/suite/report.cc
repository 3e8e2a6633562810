#include "tests/bench/suite/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "tests/bench/suite/hand.h"

namespace kiln::bench {
namespace {

struct Unit {
  const char* name;
  double amount;  // of one call, in billions
};

Unit UnitOf(const Row& row) {
  if (row.flops > 0) return {"GF/s", row.flops / 1e9};
  if (row.elements > 0) return {"Gelem/s", row.elements / 1e9};
  return {"GB/s", row.bytes / 1e9};
}

int Digits(double ratio) { return ratio < 0.1 ? 3 : 2; }

}  // namespace

void Report::Add(const Row& row, int threads, std::vector<Party> parties) {
  const Unit unit = UnitOf(row);
  if (rows_.empty()) {
    std::printf("| %s | threads | unit | Kiln | median | best peer | | median | ratio | of medians | others |\n",
                suite_.c_str());
    std::printf("|---|---|---|---|---|---|---|---|---|---|---|\n");
  }
  nlohmann::json json = {{"row", row.name}, {"threads", threads}, {"flops", row.flops}, {"bytes", row.bytes}};
  for (Party& party : parties) {
    std::sort(party.samples.begin(), party.samples.end());
    json["parties"].push_back({{"name", party.name}, {"best_s", party.best()}, {"median_s", party.median()}});
  }
  const Party& ours = parties[0];
  std::printf("| %s | %d | %s | %.1f | %.1f |", row.name.c_str(), threads, unit.name, unit.amount / ours.best(),
              unit.amount / ours.median());
  if (parties.size() == 1) {
    std::printf(" | | | | | |\n");
  } else {
    const auto by_best = [](const Party& a, const Party& b) { return a.best() < b.best(); };
    const auto by_median = [](const Party& a, const Party& b) { return a.median() < b.median(); };
    const Party& best = *std::min_element(parties.begin() + 1, parties.end(), by_best);
    const double median = std::min_element(parties.begin() + 1, parties.end(), by_median)->median();
    const double ratio = best.best() / ours.best(), of_medians = median / ours.median();
    std::printf(" %.1f | %s | %.1f | %.*f | %.*f |", unit.amount / best.best(), best.name.c_str(),
                unit.amount / best.median(), Digits(ratio), ratio, Digits(of_medians), of_medians);
    for (size_t i = 1; i < parties.size(); ++i) {
      if (&parties[i] != &best) std::printf(" %s %.1f", parties[i].name.c_str(), unit.amount / parties[i].best());
    }
    std::printf(" |\n");
    json["ratio"] = ratio;
    json["ratio_of_medians"] = of_medians;
    ratios_[threads].push_back({row.name, ratio});
  }
  std::fflush(stdout);
  rows_.push_back(std::move(json));
}

void Report::Finish(const std::string& json_path) {
  nlohmann::json json = {{"suite", suite_}, {"rows", rows_}};
  for (const auto& [threads, ratios] : ratios_) {
    double logs = 0;
    for (const Ratio& ratio : ratios) logs += std::log(ratio.value);
    const double mean = std::exp(logs / static_cast<double>(ratios.size()));
    const Ratio& worst = *std::min_element(ratios.begin(), ratios.end(),
                                           [](const Ratio& a, const Ratio& b) { return a.value < b.value; });
    std::printf("\n%d thread%s: geometric mean %.2f over %zu rows, worst %.*f (%s)", threads, threads == 1 ? "" : "s",
                mean, ratios.size(), Digits(worst.value), worst.value, worst.row.c_str());
    json["summary"].push_back(
        {{"threads", threads}, {"geometric_mean", mean}, {"worst", worst.value}, {"worst_row", worst.row}});
  }
  std::printf("\n");
  for (const std::string& peer : absent_) std::printf("%s: not installed: ./dev bench --setup\n", peer.c_str());
  if (json_path.empty()) return;
  std::set<int> counts;
  for (const nlohmann::json& row : rows_) counts.insert(row["threads"].get<int>());
  for (const int threads : counts) {
    const Peaks peaks = MeasurePeaks(threads);
    json["peaks"].push_back({{"threads", threads},
                             {"gflops", peaks.gflops},
                             {"cache_gbs", peaks.cache_gbs},
                             {"memory_gbs", peaks.memory_gbs}});
  }
  std::ofstream(json_path) << json.dump(2) << "\n";
}

}  // namespace kiln::bench
