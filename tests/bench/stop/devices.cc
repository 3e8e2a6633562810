// At devices: waiting for one's turn, and what several do together.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/account.h"
#include "base/check.h"
#include "runtime/collective/collective.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/drivers/null/device.h"
#include "server/fair/turns.h"
#include "tests/bench/stop/places.h"

namespace kiln::bench {
namespace {

namespace collective = runtime::collective;
namespace hal = runtime::hal;

constexpr uint32_t kRanks = 4;
// Of one participant: far more than what is not looked at while it works.
constexpr uint64_t kBytes = 64 << 20, kSmokeBytes = 16 << 20;

// Behind a run of another tenant's that keeps the device.
void WaitForTurn(Stops& stops, const std::string& name) {
  std::vector<std::unique_ptr<hal::Device>> devices;
  devices.push_back(*runtime::null::CreateDevice({.name = "NULL:0"}));
  server::Turns turns(server::Turns::Options(), devices);
  const auto asked_by = [&](Account& account) {
    server::TurnRequest request;
    request.control.account = &account;
    request.devices = {devices[0].get()};
    request.estimate_ns = 1000;
    // Nobody is refused beforehand for what is known of the run.
    request.guessed = true;
    request.may_be_long = true;
    return request;
  };
  Account working, waiting;
  server::Turn held;
  turns.Take(asked_by(working), [&](absl::StatusOr<server::Turn> turn) { held = *std::move(turn); });
  stops.Row(name, [&](const hal::LaunchControl& control) {
    return Awaited([&](auto done) {
      server::TurnRequest request = asked_by(waiting);
      request.control.cancelled = control.cancelled;
      request.control.deadline = control.deadline;
      turns.Take(std::move(request), [done](const absl::StatusOr<server::Turn>& turn) { done(turn.status()); });
    });
  });
  held.End();
}

// In the middle of an all_reduce; one follows the other.
void AllReduce(Stops& stops, const std::string& name) {
  auto owned = runtime::cpu::CreateDevices(kRanks, {});
  KILN_CHECK(owned.ok());
  {
    collective::Meetings meetings;
    collective::Thresholds thresholds("", "");
    collective::Collectives collectives(&meetings, &thresholds, absl::Minutes(1));
    collective::Request request;
    request.kind = collective::Kind::kAllReduce;
    request.dtype = v1::FLOAT32;
    const uint64_t bytes = stops.smoke() ? kSmokeBytes : kBytes;
    request.count = bytes / sizeof(float);
    const auto touched = [&](hal::Device& device) {
      auto buffer = device.allocator().Allocate(bytes, hal::MemoryUse::kClient);
      KILN_CHECK(buffer.ok());
      const auto slice = hal::BufferSlice::Whole(*std::move(buffer));
      std::memset(slice.host_data(), 0, bytes);
      return slice;
    };
    for (const auto& device : *owned) {
      request.devices.push_back(device.get());
      request.inputs.push_back(touched(*device));
      request.outputs.push_back(touched(*device));
    }
    stops.Row(name, [&](const hal::LaunchControl& control) {
      return Again([&] {
        return Awaited([&](auto done) {
          collectives.Run(request, control,
                          [done](const absl::StatusOr<collective::Report>& report) { done(report.status()); });
        });
      });
    });
    hal::DrainAll(*owned);
  }
}

}  // namespace

void DeviceRows(Stops& stops) {
  if (const std::string name = "waiting for a device, behind another tenant's run"; stops.Wants(name))
    WaitForTurn(stops, name);
  if (const std::string name = "an all_reduce of 4 devices"; stops.Wants(name)) AllReduce(stops, name);
}

}  // namespace kiln::bench
