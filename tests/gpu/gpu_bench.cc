// Kernels, whole models and launches on the GPUs of this machine: seconds of a program's steps by the card's own clock,
// warm, the best of several runs. Sampled elements of each result are compared with the host's. A large copy within the
// card's memory is the measure of what moves memory.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/interp/scalar.h"
#include "runtime/exec/loaded_executable.h"
#include "runtime/hal/device.h"
#include "tests/gpu/bench_rows.h"
#include "tests/gpu/cards.h"

namespace kiln::testing {
namespace {

constexpr int kNoCard = 77;  // the status; gpu.sh knows it

// A million numbers of a normal distribution, again and again, but not at any round distance; of integers, zeros.
compiler::HostTensors ArgumentsOf(const v1::Signature& signature) {
  constexpr size_t kPeriod = 1'000'003;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> numbers(kPeriod);
  std::generate(numbers.begin(), numbers.end(), [&] { return normal(random); });
  compiler::HostTensors arguments;
  for (const auto& parameter : signature.parameters()) {
    compiler::HostTensor& tensor = arguments[parameter.slot()];
    tensor.dtype = compiler::FromWire(parameter.dtype());
    tensor.shape.assign(parameter.shape().begin(), parameter.shape().end());
    tensor.bytes.assign(parameter.bytes(), '\0');
    if (!compiler::IsFloat(tensor.dtype)) continue;
    const auto size = static_cast<size_t>(compiler::ItemSize(tensor.dtype));
    std::string period(kPeriod * size, '\0');
    // Each parameter begins elsewhere: two that hold the same would hide which is which.
    for (size_t i = 0; i < kPeriod; ++i) {
      const auto bits = std::bit_cast<uint32_t>(numbers[(i + 7919 * size_t{parameter.slot()}) % kPeriod]);
      compiler::StoreElement(tensor.dtype,
                             compiler::EvalScalar(compiler::Op::CAST, compiler::DType::kFloat32, tensor.dtype, {bits}),
                             &period[i * size]);
    }
    for (size_t done = 0; done < tensor.bytes.size(); done += period.size())
      period.copy(&tensor.bytes[done], std::min(period.size(), tensor.bytes.size() - done));
  }
  return arguments;
}

// What a run on the card left, against the host's: the first and the last element, and some in between.
absl::Status Check(DeviceEngine& engine, const Row& row, const DeviceEngine::Placed& placed,
                   const compiler::HostTensors& arguments) {
  constexpr int64_t kSamples = 64;
  const auto& signature = placed.program->signature().results(0);
  const runtime::hal::BufferSlice& slice = placed.results[0];
  if (slice.buffer == nullptr) return absl::InternalError("the result is an argument: nothing was computed");
  compiler::HostTensor result;
  result.dtype = compiler::FromWire(signature.dtype());
  result.bytes.resize(slice.bytes);
  KILN_RETURN_IF_ERROR(engine.device().Load(slice.device_data(), slice.bytes, result.bytes.data()));
  const auto elements = static_cast<int64_t>(slice.bytes) / compiler::ItemSize(result.dtype);
  for (int64_t sample = 0; sample < std::min(kSamples, elements); ++sample) {
    // A large odd number's multiples: rows and columns of every tile, in no order.
    const int64_t index = sample == 1 ? elements - 1 : sample * 2654435761 % elements;
    const double got = ElementAt(result, index);
    if (!row.expected) {
      if (!std::isfinite(got)) return absl::DataLossError(absl::StrCat("element ", index, " is ", got));
      continue;
    }
    const Expected want = row.expected(arguments, index);
    if (!(std::abs(got - want.value) <= want.tolerance)) {
      return absl::DataLossError(absl::StrCat("wrong: element ", index, " is ", got, ", and by the host ", want.value,
                                              " to within ", want.tolerance));
    }
  }
  return absl::OkStatus();
}

// Seconds of a run by the host's clock, of runs that are queued so many at a time; the least.
absl::StatusOr<double> SecondsOfReplays(DeviceEngine& engine, const DeviceEngine::Placed& placed, int queued,
                                        int turns) {
  absl::Duration best = absl::InfiniteDuration();
  for (int turn = 0; turn < turns; ++turn) {
    const absl::Time begun = absl::Now();
    KILN_RETURN_IF_ERROR(engine.RunPlaced(placed, queued).status());
    best = std::min(best, absl::Now() - begun);
  }
  return absl::ToDoubleSeconds(best) / queued;
}

absl::StatusOr<double> Seconds(DeviceEngine& engine, const Row& row, int turns) {
  compiler::Options options;
  options.fast_math = row.fast_math;
  KILN_ASSIGN_OR_RETURN(const auto program, engine.Load(row.graph(), options));
  if (row.kernels > 0 && program->plan().steps.size() != static_cast<size_t>(row.kernels))
    return absl::InternalError(absl::StrCat("a program of ", program->plan().steps.size(), " kernels"));
  const compiler::HostTensors arguments = ArgumentsOf(program->signature());
  KILN_ASSIGN_OR_RETURN(const DeviceEngine::Placed placed, engine.Place(program, arguments));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> seconds, engine.RunPlaced(placed, turns + 1));
  double best = *std::min_element(seconds.begin(), seconds.end());
  if (row.kernels > 0) {
    KILN_ASSIGN_OR_RETURN(best, SecondsOfReplays(engine, placed, row.queued, row.queued == 1 ? 20 * turns : turns));
  }
  KILN_RETURN_IF_ERROR(Check(engine, row, placed, arguments));
  return best;
}

// Whether the row was measured, and its result right.
bool Measure(DeviceEngine& engine, const Row& row, int turns, const std::string& json_path) {
  const absl::StatusOr<double> seconds = Seconds(engine, row, turns);
  const std::string name(engine.device().name());
  nlohmann::json line = {{"device", name}, {"card", std::string(engine.device().description())}, {"row", row.name}};
  if (!seconds.ok()) {
    line["error"] = std::string(seconds.status().message());
    std::printf("| %s | %s | |\n", row.name.c_str(), std::string(seconds.status().message()).c_str());
  } else {
    line["seconds"] = *seconds;
    std::printf("| %s | %.4f ms |", row.name.c_str(), *seconds * 1e3);
    if (row.flops > 0) {
      line["flops"] = row.flops;
      std::printf(" %.1f TFLOP/s |\n", row.flops / *seconds * 1e-12);
    } else if (row.bytes > 0) {
      line["bytes"] = row.bytes;
      std::printf(" %.0f GB/s |\n", row.bytes / *seconds * 1e-9);
    } else {
      std::printf(" |\n");
    }
  }
  std::fflush(stdout);
  if (!json_path.empty()) std::ofstream(json_path, std::ios::app) << line.dump() << "\n";
  return seconds.ok();
}

int Run(int argc, char** argv) {
  CLI::App app{"Kernels, models and launches on each GPU of this machine, as a table in Markdown."};
  std::string only, exactly, json_path;
  int turns = 20;
  bool small = false, list = false, list_cards = false;
  app.add_option("--only", only, "Only rows whose names contain this");
  app.add_option("--row", exactly, "Only the row of this name");
  app.add_option("--turns", turns, "Runs of each row; the best counts")->check(CLI::PositiveNumber);
  app.add_option("--json", json_path, "Add the figures to this file, an object a line");
  app.add_flag("--small", small, "Of sizes that show only whether results are right; figures say nothing");
  app.add_flag("--list", list, "Only say which rows there are");
  app.add_flag("--cards", list_cards, "Only say which GPUs there are; the status is 77 if there is none");
  CLI11_PARSE(app, argc, argv);
  std::vector<Row> rows = BenchRows(small);
  std::erase_if(rows, [&](const Row& row) {
    return row.name.find(only) == std::string::npos || (!exactly.empty() && row.name != exactly);
  });
  if (list) {
    for (const Row& row : rows) std::printf("%s\n", row.name.c_str());
    return 0;
  }
  if (rows.empty()) {
    std::fprintf(stderr, "there is no such row\n");
    return 1;
  }
  const Cards cards = FindCards();
  if (cards.engines.empty()) {
    std::printf("there is no GPU:\n%s", cards.absent.c_str());
    return list_cards ? kNoCard : 0;
  }
  bool all = true;
  for (const auto& engine : cards.engines) {
    std::printf("%s: %s\n", std::string(engine->device().name()).c_str(),
                std::string(engine->device().description()).c_str());
    if (list_cards) continue;
    std::printf("\n| work | best | |\n|---|---|---|\n");
    for (const Row& row : rows) all = Measure(*engine, row, turns, json_path) && all;
  }
  if (list_cards) std::printf("%s", cards.absent.c_str());
  return all ? 0 : 1;
}

}  // namespace
}  // namespace kiln::testing

int main(int argc, char** argv) { return kiln::testing::Run(argc, argv); }
