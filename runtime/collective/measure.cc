#include "runtime/collective/measure.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "runtime/collective/collective.h"

namespace kiln::runtime::collective {
namespace {

constexpr int kRepeats = 5;
// A device that keeps everyone waiting for longer is not measured now.
constexpr absl::Duration kPatience = absl::Seconds(1);
// By so much must another be faster to be taken instead: noise is no reason.
constexpr double kClearly = 0.95;

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
  const absl::Time begin = absl::Now();
  collectives.Run(request, {}, [&](const absl::StatusOr<Report>& report) {
    good = report.ok();
    ended.Notify();
  });
  ended.WaitForNotification();
  if (!good) return std::nullopt;
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

}  // namespace

std::optional<Choice> MeasureChoice(Meetings& meetings, const std::vector<hal::Device*>& devices, Kind kind) {
  Thresholds unused("", "");
  Collectives collectives(&meetings, &unused, kPatience);
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
    double fastest = std::numeric_limits<double>::infinity();
    for (const AlgorithmId id : {kAllToAll, kNaive, kRing, kTree}) {
      if (AlgorithmOf(id).run[static_cast<int>(kind)] == nullptr) continue;
      request.algorithm = id;
      double best = std::numeric_limits<double>::infinity();
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        const auto seconds = Time(collectives, request);
        if (!seconds.has_value()) return std::nullopt;
        best = std::min(best, *seconds);
      }
      if (best >= fastest * kClearly) continue;
      fastest = best;
      choice[size] = id;
    }
  }
  return choice;
}

}  // namespace kiln::runtime::collective
