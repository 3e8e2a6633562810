// What a suite found: a line for each row, the mean and the worst at the end, and a file.
#ifndef KILN_TESTS_BENCH_SUITE_REPORT_H_
#define KILN_TESTS_BENCH_SUITE_REPORT_H_

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/suite/suite.h"

namespace kiln::bench {

// One of those that took turns, and the seconds of each of its calls.
struct Party {
  std::string name;
  std::vector<double> samples = {};

  // Of sorted samples.
  double At(double part) const { return samples[static_cast<size_t>(part * static_cast<double>(samples.size() - 1))]; }
  double best() const { return At(0.05); }
  double median() const { return At(0.5); }
};

class Report {
 public:
  explicit Report(std::string suite) : suite_(std::move(suite)) {}

  // Kiln is the first of `parties`.
  void Add(const Row& row, int threads, std::vector<Party> parties);
  // A peer that is not installed.
  void Absent(const std::string& peer) { absent_.insert(peer); }
  // The last lines; the file if a path is given, with what the machine does at most.
  void Finish(const std::string& json_path);

 private:
  struct Ratio {
    std::string row;
    double value;
  };

  const std::string suite_;
  std::set<std::string> absent_;
  std::map<int, std::vector<Ratio>> ratios_;  // by threads
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_SUITE_REPORT_H_
