#include "tests/bench/suite.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/check.h"
#include "tests/bench/hand.h"
#include "tests/support/cpu_engine.h"
#include "tests/support/interp_engine.h"

namespace kiln::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  bool smoke = false;
  int turns = 9;
  double burst = 0.012;  // seconds
  std::vector<int> threads = {1, 2};
  std::string only, json_path;
};

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One of those that take turns.
struct Party {
  std::string name;
  std::function<double()> run;  // seconds of one call
  std::vector<double> samples = {};

  double At(double part) const { return samples[static_cast<size_t>(part * static_cast<double>(samples.size() - 1))]; }
  double best() const { return At(0.05); }
  double median() const { return At(0.5); }
};

// Calls that count for nothing, then calls for `burst` seconds.
void TakeTurn(Party& party, double burst) {
  for (auto start = Clock::now(); party.run(), Since(start) < burst / 4;) {
  }
  for (auto start = Clock::now(); party.samples.push_back(party.run()), Since(start) < burst;) {
  }
}

compiler::HostTensor Filled(const Input& input) {
  // A million random values, again and again.
  constexpr size_t kPeriod = 1 << 20;
  compiler::HostTensor tensor;
  tensor.dtype = input.below > 0 ? compiler::DType::kInt32 : compiler::DType::kFloat32;
  tensor.shape.assign(input.shape.begin(), input.shape.end());
  const size_t count = static_cast<size_t>(*client::ElementCount(input.shape)), period = std::min(count, kPeriod);
  tensor.bytes.resize(count * sizeof(float));
  std::mt19937 random(static_cast<uint32_t>(count));
  for (size_t i = 0; i < period; ++i) {
    const float unit = static_cast<float>(random() >> 8) / static_cast<float>(1 << 24);
    const float real = input.low + (input.high - input.low) * unit;
    const int32_t integer = static_cast<int32_t>(unit * static_cast<float>(input.below));
    std::memcpy(&tensor.bytes[i * sizeof(float)], input.below > 0 ? static_cast<const void*>(&integer) : &real,
                sizeof(float));
  }
  for (size_t done = period; done < count; done += std::min(period, count - done)) {
    std::memcpy(&tensor.bytes[done * sizeof(float)], tensor.bytes.data(),
                std::min(period, count - done) * sizeof(float));
  }
  return tensor;
}

// The greatest difference, by the greatest magnitude of what is expected.
double Difference(const std::vector<float>& found, const std::vector<float>& expected) {
  double difference = 0, magnitude = 1e-30;
  for (size_t i = 0; i < found.size(); ++i) {
    const double apart = std::abs(static_cast<double>(found[i]) - expected[i]);
    if (!(apart <= difference)) difference = std::isnan(apart) ? HUGE_VAL : apart;
    magnitude = std::max(magnitude, static_cast<double>(std::abs(expected[i])));
  }
  return difference / magnitude;
}

class Suite {
 public:
  Suite(std::string name, Settings settings) : name_(std::move(name)), settings_(std::move(settings)) {}

  void Run(const Row& row, int threads) {
    client::Graph graph;
    std::vector<client::Tensor> inputs;
    compiler::HostTensors arguments;
    for (const Input& input : row.inputs) {
      const uint32_t slot = static_cast<uint32_t>(inputs.size());
      inputs.push_back(graph.Param(slot, input.below > 0 ? v1::INT32 : v1::FLOAT32, input.shape));
      arguments[slot] = Filled(input);
    }
    graph.Output(row.program(inputs));
    const auto message = graph.Build();
    KILN_CHECK(message.ok());
    testing::CpuEngine& engine = Engine(threads);
    auto program = engine.Load(*message, {});
    KILN_CHECK(program.ok());
    const auto placed = engine.Place(*std::move(program), arguments);
    KILN_CHECK(placed.ok());

    expected_.reset();
    if (settings_.smoke) {
      const auto interpreted = testing::RunInterpreted(*message, arguments);
      KILN_CHECK(interpreted.ok());
      const std::string& bytes = interpreted->results[0].bytes;
      expected_.emplace(bytes.size() / sizeof(float));
      std::memcpy(expected_->data(), bytes.data(), bytes.size());
    }
    arguments.clear();

    Team team(threads);
    Operands operands{{}, static_cast<float*>(placed->results[0].host_data()), team};
    for (const auto& slice : placed->parameters) operands.in.push_back(static_cast<const float*>(slice.host_data()));
    result_ = {operands.out, placed->results[0].bytes / sizeof(float)};

    std::vector<Party> parties = {{"Kiln", [&] {
                                     const auto seconds = engine.RunPlaced(*placed);
                                     KILN_CHECK(seconds.ok());
                                     return *seconds;
                                   }}};
    std::vector<Call> calls(row.peers.size());
    for (size_t i = 0; i < row.peers.size(); ++i) {
      const Call& call = calls[i] = row.peers[i].bind(operands);
      if (!call) {
        absent_[row.peers[i].name] = true;
        continue;
      }
      parties.push_back({row.peers[i].name, [&call] {
                           const auto start = Clock::now();
                           call.run();
                           return Since(start);
                         }});
      CheckValues(row, parties.back(), call.publish);
    }
    CheckValues(row, parties[0], nullptr);

    for (int turn = 0; turn < settings_.turns; ++turn) {
      for (Party& party : parties) TakeTurn(party, settings_.burst);
    }
    for (Party& party : parties) std::sort(party.samples.begin(), party.samples.end());
    Report(row, threads, parties);
  }

  // The last lines, and the file.
  int Finish() {
    for (const auto& [threads, ratios] : ratios_) {
      double logs = 0;
      auto worst = ratios.begin();
      for (auto ratio = ratios.begin(); ratio != ratios.end(); ++ratio) {
        logs += std::log(ratio->second);
        if (ratio->second < worst->second) worst = ratio;
      }
      std::printf("\n%d thread%s: geometric mean %.2f over %zu rows, worst %.2f (%s)", threads, threads == 1 ? "" : "s",
                  std::exp(logs / static_cast<double>(ratios.size())), ratios.size(), worst->second,
                  worst->first.c_str());
    }
    std::printf("\n");
    for (const auto& [name, unused] : absent_) std::printf("%s: not installed: ./dev bench --setup\n", name.c_str());
    if (!settings_.json_path.empty()) {
      nlohmann::json json = {{"suite", name_}, {"rows", rows_}};
      for (const auto& [threads, engine] : engines_) {
        const Peaks peaks = MeasurePeaks(threads);
        json["peaks"].push_back({{"threads", threads},
                                 {"gflops", peaks.gflops},
                                 {"cache_gbs", peaks.cache_gbs},
                                 {"memory_gbs", peaks.memory_gbs}});
      }
      std::ofstream(settings_.json_path) << json.dump(2) << "\n";
    }
    return wrong_ ? 1 : 0;
  }

 private:
  testing::CpuEngine& Engine(int threads) {
    auto& engine = engines_[threads];
    if (engine == nullptr) engine = std::make_unique<testing::CpuEngine>(static_cast<uint32_t>(threads));
    return *engine;
  }

  void CheckValues(const Row& row, const Party& party, const std::function<void()>& publish) {
    std::memset(result_.first, 0xFF, result_.second * sizeof(float));  // NaN
    party.run();
    if (publish != nullptr) publish();
    std::vector<float> found(result_.first, result_.first + result_.second);
    if (!expected_.has_value()) {
      expected_ = std::move(found);
      return;
    }
    const double difference = Difference(found, *expected_);
    if (difference <= row.tolerance) return;
    std::printf("%s: values of %s are wrong by %.1e of the largest\n", row.name.c_str(), party.name.c_str(),
                difference);
    wrong_ = true;
  }

  void Report(const Row& row, int threads, const std::vector<Party>& parties) {
    const double amount = (row.flops > 0 ? row.flops : row.bytes) / 1e9;
    if (rows_.empty()) {
      std::printf("| %s | threads | unit | Kiln | median | best peer | | median | ratio | of medians | others |\n",
                  name_.c_str());
      std::printf("|---|---|---|---|---|---|---|---|---|---|---|\n");
    }
    nlohmann::json json = {
        {"row", row.name}, {"threads", threads}, {"flops", row.elements ? 0 : row.flops}, {"bytes", row.bytes}};
    for (const Party& party : parties) {
      json["parties"].push_back({{"name", party.name}, {"best_s", party.best()}, {"median_s", party.median()}});
    }
    std::printf("| %s | %d | %s | %.1f | %.1f |", row.name.c_str(), threads,
                row.elements    ? "Gelem/s"
                : row.flops > 0 ? "GF/s"
                                : "GB/s",
                amount / parties[0].best(), amount / parties[0].median());
    if (parties.size() > 1) {
      const Party* best = &parties[1];
      double median = parties[1].median();
      std::string others;
      for (size_t i = 2; i < parties.size(); ++i) {
        if (parties[i].best() < best->best()) best = &parties[i];
        median = std::min(median, parties[i].median());
      }
      for (size_t i = 1; i < parties.size(); ++i) {
        char text[80];
        std::snprintf(text, sizeof(text), " %s %.1f", parties[i].name.c_str(), amount / parties[i].best());
        if (&parties[i] != best) others += text;
      }
      const double ratio = best->best() / parties[0].best();
      std::printf(" %.1f | %s | %.1f | %.2f | %.2f |%s |\n", amount / best->best(), best->name.c_str(),
                  amount / best->median(), ratio, median / parties[0].median(), others.c_str());
      json["ratio"] = ratio;
      json["ratio_of_medians"] = median / parties[0].median();
      ratios_[threads].push_back({row.name, ratio});
    } else {
      std::printf(" | | | | | |\n");
    }
    std::fflush(stdout);
    rows_.push_back(std::move(json));
  }

  const std::string name_;
  const Settings settings_;
  std::map<int, std::unique_ptr<testing::CpuEngine>> engines_;
  std::pair<float*, size_t> result_;
  std::optional<std::vector<float>> expected_;
  std::map<std::string, bool> absent_;
  std::map<int, std::vector<std::pair<std::string, double>>> ratios_;
  nlohmann::json rows_;
  bool wrong_ = false;
};

}  // namespace

int RunSuite(int argc, char** argv, const char* name, std::vector<Row> (*rows)(bool smoke)) {
  CLI::App app{"Measures Kiln's kernels beside their peers; a ratio above 1 says that Kiln is faster."};
  Settings settings;
  app.add_flag("--smoke", settings.smoke, "Small sizes, compared with the interpreter, one turn: as a test");
  app.add_option("--turns", settings.turns, "Turns of each party")->check(CLI::PositiveNumber);
  app.add_option("--burst", settings.burst, "Seconds of one turn")->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads, "How many threads, one after the other")->delimiter(',');
  app.add_option("--only", settings.only, "Only rows whose names contain this");
  app.add_option("--json", settings.json_path, "Also write the figures here")->take_last();
  CLI11_PARSE(app, argc, argv);
  if (settings.smoke) {
    settings.turns = 1;
    settings.burst = 1e-6;
  }
  const bool smoke = settings.smoke;
  Suite suite(name, settings);
  for (const Row& row : rows(smoke)) {
    if (row.name.find(settings.only) == std::string::npos) continue;
    for (int threads : settings.threads) suite.Run(row, threads);
  }
  return suite.Finish();
}

}  // namespace kiln::bench
