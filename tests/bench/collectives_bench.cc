// Collectives over CPU devices, each beside copies of as much memory.
//
// What a collective of a tensor of S bytes at n devices must at least move is taken to
// be n copies of S: an all_reduce reads n tensors and writes n. (Scatter and gather move
// one.) Those copies are made by memcpy on the same devices' threads, in pieces handed
// out alike, in turn with the collective; the ratio is the time of the copies by that of
// the collective.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "runtime/collective/collective.h"
#include "runtime/collective/measure.h"
#include "runtime/drivers/cpu/device.h"

namespace kiln::bench {
namespace {

using runtime::collective::Kind;
using runtime::collective::PartOf;
using runtime::collective::Report;
using runtime::collective::Request;
namespace collective = runtime::collective;
namespace hal = runtime::hal;

struct Bench {
  ~Bench() { runtime::hal::DrainAll(owned); }

  std::vector<std::unique_ptr<hal::Device>> owned;
  collective::Meetings meetings;
  collective::Thresholds thresholds{"", ""};
  collective::Collectives collectives{&meetings, &thresholds, absl::Minutes(1)};

  std::vector<hal::Device*> Devices(uint32_t ranks) const {
    std::vector<hal::Device*> devices;
    for (uint32_t i = 0; i < ranks; ++i) devices.push_back(owned[i].get());
    return devices;
  }
};

// Slices for every rank, or for rank 0 alone.
std::vector<hal::BufferSlice> Take(const std::vector<hal::Device*>& devices, uint64_t count, uint64_t item, bool one,
                                   bool parts) {
  std::vector<hal::BufferSlice> slices;
  const auto ranks = static_cast<uint32_t>(devices.size());
  for (uint32_t rank = 0; rank < (one ? 1 : ranks); ++rank) {
    const uint64_t bytes = item * (parts ? PartOf(count, ranks, rank).elements : count);
    slices.push_back(hal::BufferSlice::Whole(*devices[rank]->allocator().Allocate(bytes, hal::MemoryUse::kClient)));
    std::memset(slices.back().host_data(), 0, bytes);  // its pages are there from now on
  }
  return slices;
}

Report Run(Bench& bench, const Request& request) {
  absl::Notification ended;
  Report report;
  bench.collectives.Run(request, {}, [&](absl::StatusOr<Report> outcome) {
    KILN_CHECK(outcome.ok());
    report = *outcome;
    ended.Notify();
  });
  ended.WaitForNotification();
  return report;
}

// Seconds of `copies` copies of `bytes` on the devices' threads.
double Copy(Bench& bench, const std::vector<hal::Device*>& devices, std::vector<std::vector<char>>& memory,
            uint64_t bytes, uint32_t copies) {
  constexpr uint64_t kPiece = 64 << 10;
  const uint64_t pieces = (bytes + kPiece - 1) / kPiece;
  collective::Team team(static_cast<uint32_t>(devices.size()));
  std::atomic<int64_t> begin{0};
  int64_t end = 0;
  absl::Notification ended;
  bench.meetings.Submit({devices,
                         [&](uint32_t) {
                           int64_t none = 0;
                           begin.compare_exchange_strong(none, absl::GetCurrentTimeNanos());
                           for (uint64_t i = team.Claim(); i < pieces * copies; i = team.Claim()) {
                             const uint64_t copy = i / pieces, at = i % pieces * kPiece;
                             std::memcpy(memory[2 * copy + 1].data() + at, memory[2 * copy].data() + at,
                                         std::min(kPiece, bytes - at));
                           }
                         }},
                        [&](const absl::Status& status) {
                          KILN_CHECK(status.ok());
                          end = absl::GetCurrentTimeNanos();
                          ended.Notify();
                        });
  ended.WaitForNotification();
  return static_cast<double>(end - begin.load()) * 1e-9;
}

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

nlohmann::json Measure(Bench& bench, Kind kind, v1::DType dtype, uint32_t ranks, uint64_t bytes, int turns) {
  Request request;
  request.kind = kind;
  request.dtype = dtype;
  const uint64_t item = collective::ItemBytes(dtype);
  request.count = bytes / item;
  request.devices = bench.Devices(ranks);
  request.inputs = Take(request.devices, request.count, item, OneInput(kind), InputsAreParts(kind));
  request.outputs = Take(request.devices, request.count, item, OneOutput(kind), OutputsAreParts(kind));
  const uint32_t copies = kind == Kind::kScatter || kind == Kind::kGather ? 1 : ranks;
  std::vector<std::vector<char>> memory(2 * copies, std::vector<char>(bytes, 1));
  std::vector<double> mine, copied, ratios;
  const char* algorithm = "";
  for (int turn = 0; turn < turns; ++turn) {
    const Report report = Run(bench, request);
    algorithm = report.algorithm;
    mine.push_back(report.seconds);
    copied.push_back(Copy(bench, request.devices, memory, bytes, copies));
    ratios.push_back(copied.back() / mine.back());
  }
  const double best = Quantile(mine, 0.05), best_copied = Quantile(copied, 0.05);
  nlohmann::json row = {{"collective", std::string(KindName(kind))},
                        {"dtype", v1::DType_Name(dtype)},
                        {"devices", ranks},
                        {"bytes", bytes},
                        {"algorithm", algorithm},
                        {"best_us", best * 1e6},
                        {"median_us", Quantile(mine, 0.5) * 1e6},
                        {"bus_gb_s", collective::BusBandwidth(kind, ranks, bytes, best)},
                        {"bus_gb_s_of_copies", collective::BusBandwidth(kind, ranks, bytes, best_copied)},
                        {"ratio_best", best_copied / best},
                        {"ratio_median", Quantile(ratios, 0.5)}};
  std::printf("%-15s %-16s %2u %9llu KiB  %-11s %10.1f us  %7.2f GB/s  %7.2f by copies  %5.2f  %5.2f\n",
              row["collective"].get<std::string>().c_str(), row["dtype"].get<std::string>().c_str(), ranks,
              static_cast<unsigned long long>(bytes >> 10), algorithm, best * 1e6, row["bus_gb_s"].get<double>(),
              row["bus_gb_s_of_copies"].get<double>(), row["ratio_best"].get<double>(),
              row["ratio_median"].get<double>());
  std::fflush(stdout);
  return row;
}

int Main(int argc, char** argv) {
  int turns = 31;
  bool smoke = false;
  std::string json_path;
  CLI::App app("Collectives over CPU devices, beside copies of as much memory in the same run.");
  app.add_option("--turns", turns, "How often each is run")->capture_default_str();
  app.add_option("--json", json_path, "Also write the figures here");
  app.add_flag("--smoke", smoke, "Once, and small");
  CLI11_PARSE(app, argc, argv);
  Bench bench;
  bench.owned = *runtime::cpu::CreateDevices(8, {});
  std::vector<uint64_t> sizes = {4 << 10, 64 << 10, 1 << 20, 16 << 20};
  std::vector<uint32_t> numbers = {2, 4, 8};
  if (smoke) turns = 1, sizes = {4 << 10}, numbers = {2};
  std::printf("%-15s %-16s %2s %13s  %-11s %13s  %12s  %18s  best  median\n", "collective", "dtype", "n", "bytes",
              "algorithm", "best", "bus", "bus");
  nlohmann::json rows = nlohmann::json::array();
  for (int k = 0; k < collective::kKinds; ++k) {
    const Kind kind = static_cast<Kind>(k);
    for (const uint32_t ranks : numbers) {
      const auto choice = MeasureChoice(bench.meetings, bench.Devices(ranks), kind);
      if (choice.has_value()) bench.thresholds.Learn(kind, ranks, *choice);
      for (const uint64_t bytes : sizes) rows.push_back(Measure(bench, kind, v1::FLOAT32, ranks, bytes, turns));
    }
  }
  for (const v1::DType dtype : {v1::FLOAT64, v1::INT32, v1::INT8, v1::FLOAT16, v1::BFLOAT16, v1::FLOAT8_E4M3,
                                v1::FLOAT8_E5M2, v1::FLOAT8_E4M3_FNUZ, v1::FLOAT8_E5M2_FNUZ}) {
    rows.push_back(Measure(bench, Kind::kAllReduce, dtype, 4, sizes.back(), turns));
  }
  if (!json_path.empty()) std::ofstream(json_path) << rows.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
