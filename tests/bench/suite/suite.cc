#include "tests/bench/suite/suite.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "base/check.h"
#include "compiler/interp/scalar.h"
#include "tests/bench/suite/report.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

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
struct Contender {
  Party party;
  std::function<std::vector<double>(int count)> run;  // the seconds of each of so many calls in a row
  double seconds = 0;                                 // of a call, as it was last
  std::vector<double> bests = {};                     // of each turn, the quickest call's seconds
};

// A call that takes longer is not made again.
constexpr double kSlow = 1.5;
// So many times the turns that were asked for, if that is what it takes.
constexpr int kMaxRounds = 4;

// Calls that count for nothing, then calls for some `burst` seconds.
void TakeTurn(Contender& contender, double burst) {
  const auto fitting = [&](double seconds) {
    return static_cast<int>(std::clamp(seconds / contender.seconds, 1.0, 200.0));
  };
  contender.seconds = contender.run(fitting(burst / 4)).back();
  const std::vector<double> samples = contender.run(fitting(burst));
  contender.party.samples.insert(contender.party.samples.end(), samples.begin(), samples.end());
  contender.bests.push_back(*std::min_element(samples.begin(), samples.end()));
}

// A machine that others use has moments at which memory or a core is free, and one turn in such a moment says
// nothing about who is faster: a contender's best is believed when three of its turns agree on it.
bool Settled(const Contender& contender) {
  constexpr size_t kTurns = 3;
  constexpr double kApart = 1.03;
  if (contender.seconds > kSlow) return true;
  std::vector<double> bests = contender.bests;
  if (bests.size() < kTurns) return false;
  std::nth_element(bests.begin(), bests.begin() + kTurns - 1, bests.end());
  return bests[kTurns - 1] <= kApart * *std::min_element(bests.begin(), bests.end());
}

compiler::DType DTypeOf(const Input& input) {
  return input.below > 0 ? compiler::DType::kInt32 : compiler::FromWire(input.dtype);
}

compiler::HostTensor Filled(const Input& input) {
  // A million random values, again and again.
  constexpr size_t kPeriod = 1 << 20;
  compiler::HostTensor tensor;
  tensor.dtype = DTypeOf(input);
  tensor.shape.assign(input.shape.begin(), input.shape.end());
  const size_t count = static_cast<size_t>(*client::ElementCount(input.shape)), period = std::min(count, kPeriod);
  const auto size = static_cast<size_t>(compiler::ItemSize(tensor.dtype));
  tensor.bytes.resize(count * size);
  std::mt19937 random(static_cast<uint32_t>(count));
  for (size_t i = 0; i < period; ++i) {
    const float unit = static_cast<float>(random() >> 8) / static_cast<float>(1 << 24);
    const float value = input.below > 0 ? std::trunc(unit * static_cast<float>(input.below))
                                        : input.low + (input.high - input.low) * unit;
    const auto bits = std::bit_cast<uint32_t>(value);
    compiler::StoreElement(tensor.dtype,
                           compiler::EvalScalar(compiler::Op::CAST, compiler::DType::kFloat32, tensor.dtype, {bits}),
                           &tensor.bytes[i * size]);
  }
  for (size_t done = period; done < count; done += std::min(period, count - done))
    std::memcpy(&tensor.bytes[done * size], tensor.bytes.data(), std::min(period, count - done) * size);
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
  Suite(std::string name, Settings settings) : settings_(std::move(settings)), report_(std::move(name)) {}

  void Run(const Row& row, int threads) {
    client::Graph graph;
    std::vector<client::Tensor> inputs;
    compiler::HostTensors arguments;
    for (const Input& input : row.inputs) {
      const uint32_t slot = static_cast<uint32_t>(inputs.size());
      inputs.push_back(graph.Param(slot, input.below > 0 ? v1::INT32 : input.dtype, input.shape));
      arguments[slot] = Filled(input);
    }
    graph.Output(row.program(inputs));
    const auto message = graph.Build();
    KILN_CHECK(message.ok());
    testing::CpuEngine& engine = Engine(threads);
    compiler::Options options;
    options.constants = row.constants;
    options.fast_math = row.fast_math;
    auto program = engine.Load(*message, options);
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

    std::vector<Contender> contenders = {{{"Kiln"}, [&](int count) {
                                            auto seconds = engine.RunPlaced(*placed, count);
                                            KILN_CHECK(seconds.ok());
                                            return *std::move(seconds);
                                          }}};
    std::vector<Call> calls(row.peers.size());
    for (size_t i = 0; i < row.peers.size(); ++i) {
      const Call& call = calls[i] = row.peers[i].bind(operands);
      if (!call) {
        report_.Absent(row.peers[i].name);
        continue;
      }
      contenders.push_back({{row.peers[i].name}, [&call](int count) {
                              std::vector<double> seconds;
                              while (count-- > 0) {
                                const auto start = Clock::now();
                                call.run();
                                seconds.push_back(Since(start));
                              }
                              return seconds;
                            }});
      CheckValues(row, contenders.back(), call.publish);
    }
    CheckValues(row, contenders[0], nullptr);

    const auto settled = [&] { return settings_.smoke || std::all_of(contenders.begin(), contenders.end(), Settled); };
    for (int turn = 0; turn < settings_.turns || (turn < kMaxRounds * settings_.turns && !settled()); ++turn) {
      for (Contender& contender : contenders) {
        if (contender.seconds <= kSlow) TakeTurn(contender, settings_.burst);
      }
    }
    std::vector<Party> parties;
    for (Contender& contender : contenders) parties.push_back(std::move(contender.party));
    report_.Add(row, threads, std::move(parties));
  }

  // The process's exit status.
  int Finish() {
    report_.Finish(settings_.json_path);
    return wrong_ ? 1 : 0;
  }

 private:
  testing::CpuEngine& Engine(int threads) {
    auto& engine = engines_[threads];
    if (engine == nullptr) engine = std::make_unique<testing::CpuEngine>(static_cast<uint32_t>(threads), core_);
    return *engine;
  }

  void CheckValues(const Row& row, Contender& contender, const std::function<void()>& publish) {
    std::memset(result_.first, 0xFF, result_.second * sizeof(float));  // NaN
    contender.seconds = contender.run(1).front();
    if (contender.seconds > kSlow) contender.party.samples = {contender.seconds};
    if (publish != nullptr) publish();
    std::vector<float> found(result_.first, result_.first + result_.second);
    if (!expected_.has_value()) {
      expected_ = std::move(found);
      return;
    }
    const double difference = Difference(found, *expected_);
    if (difference <= row.tolerance) return;
    std::printf("%s: values of %s are wrong by %.1e of the largest\n", row.name.c_str(), contender.party.name.c_str(),
                difference);
    wrong_ = true;
  }

  const Settings settings_;
  const v1::Target::Tuning::Core core_ = testing::MeasuredCore();
  std::map<int, std::unique_ptr<testing::CpuEngine>> engines_;
  std::pair<float*, size_t> result_;
  std::optional<std::vector<float>> expected_;
  Report report_;
  bool wrong_ = false;
};

}  // namespace

int RunSuite(int argc, char** argv, const char* name, std::vector<Row> (*rows)(bool smoke)) {
  CLI::App app{"Measures Kiln's kernels beside their peers; a ratio above 1 says that Kiln is faster."};
  Settings settings;
  app.add_flag("--smoke", settings.smoke, "Small sizes, compared with the interpreter, one turn: as a test");
  app.add_option("--turns", settings.turns,
                 "Turns of each party; up to four times as many until the best of each has come three times")
      ->check(CLI::PositiveNumber);
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
