#include "runtime/collective/measure.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "runtime/collective/collective.h"

namespace kiln::runtime::collective {
namespace {

// In turns, so that what else the machine does meets all alike.
constexpr int kRounds = 9;
// A device that keeps everyone waiting for longer is not measured now.
constexpr absl::Duration kTimeout = absl::Seconds(1);
// By so much must another be faster to be taken instead: noise is no reason.
constexpr double kClearly = 0.85;

// Slices for every rank, or for the root alone, of `buffers`.
std::vector<hal::BufferSlice> Slices(const std::vector<std::shared_ptr<hal::Buffer>>& buffers, uint64_t count, bool one,
                                     bool parts) {
  std::vector<hal::BufferSlice> slices;
  const auto ranks = static_cast<uint32_t>(buffers.size());
  for (uint32_t rank = 0; rank < (one ? 1 : ranks); ++rank) {
    slices.push_back({buffers[rank], 0, 4 * (parts ? PartOf(count, ranks, rank).elements : count)});
  }
  return slices;
}

// Seconds from the asking until the answer, as a caller sees it.
std::optional<double> Time(Collectives& collectives, const Request& request) {
  absl::Notification ended;
  bool good = false;
  const absl::Time begin = SteadyNow();
  collectives.Run(request, {}, [&](const absl::StatusOr<Report>& report) {
    good = report.ok();
    ended.Notify();
  });
  ended.WaitForNotification();
  if (!good) return std::nullopt;
  return absl::ToDoubleSeconds(SteadyNow() - begin);
}

// Whether two rounds have shown that one need not go on: every time was far above all of
// another's.
bool Hopeless(const std::vector<double>& times, const std::vector<double>& others) {
  constexpr double kFar = 3;
  return times.size() >= 2 && others.size() >= 2 &&
         *std::min_element(times.begin(), times.end()) > kFar * *std::max_element(others.begin(), others.end());
}

}  // namespace

std::optional<Choice> MeasureChoice(Meetings& meetings, const std::vector<hal::Device*>& devices, Kind kind) {
  Thresholds unused("", "");
  Collectives collectives(&meetings, &unused, kTimeout);
  std::vector<std::shared_ptr<hal::Buffer>> inputs, outputs;
  for (hal::Device* device : devices) {
    for (auto* buffers : {&inputs, &outputs}) {
      auto buffer = device->allocator().Allocate(kMeasuredBytes[kSizeClasses - 1], hal::MemoryUse::kClient);
      if (!buffer.ok()) return std::nullopt;
      buffers->push_back(*std::move(buffer));
    }
  }
  Choice choice{};
  for (int size = 0; size < kSizeClasses; ++size) {
    Request request;
    request.kind = kind;
    request.dtype = v1::FLOAT32;
    request.count = kMeasuredBytes[size] / 4;
    request.devices = devices;
    request.inputs = Slices(inputs, request.count, OneInput(kind), InputsAreParts(kind));
    request.outputs = Slices(outputs, request.count, OneOutput(kind), OutputsAreParts(kind));
    std::array<std::vector<double>, kAlgorithmCount> times;
    for (int round = 0; round < kRounds; ++round) {
      for (int id = 0; id < kAlgorithmCount; ++id) {
        if (AlgorithmOf(static_cast<AlgorithmId>(id)).run[static_cast<int>(kind)] == nullptr) continue;
        if (Hopeless(times[id], times[kAllToAll])) continue;
        request.algorithm = static_cast<AlgorithmId>(id);
        const auto seconds = Time(collectives, request);
        if (!seconds.has_value()) return std::nullopt;
        times[id].push_back(*seconds);
      }
    }
    // What waits for others at every step is fast only with luck; the median has none.
    std::array<double, kAlgorithmCount> typical;
    for (int id = 0; id < kAlgorithmCount; ++id) {
      std::sort(times[id].begin(), times[id].end());
      typical[id] = times[id].empty() ? std::numeric_limits<double>::infinity() : times[id][times[id].size() / 2];
    }
    choice[size] = kAllToAll;
    for (const AlgorithmId id : {kNaive, kRing, kTree}) {
      // The last class has no upper end, and one thread is no match for all of them there,
      // however busy the machine is now.
      if (id == kNaive && size == kSizeClasses - 1) continue;
      if (typical[id] < typical[choice[size]] * kClearly) choice[size] = id;
    }
  }
  return choice;
}

}  // namespace kiln::runtime::collective
