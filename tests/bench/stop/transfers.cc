// Transfers of as many bytes as take far longer than a stop may: what a client copies, fills, sends and fetches.
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/collective/copy_between.h"
#include "runtime/collective/meeting.h"
#include "runtime/drivers/cpu/device.h"
#include "server/fair/lane.h"
#include "tests/bench/stop/places.h"

namespace kiln::bench {
namespace {

namespace hal = runtime::hal;
using hal::BufferSlice;
using hal::LaunchControl;

constexpr uint64_t kBytes = 256 << 20, kSmokeBytes = 64 << 20;

// Touched: what the system needs to find memory is not the transfer's time.
BufferSlice Touched(hal::Device& device, uint64_t bytes) {
  auto buffer = device.allocator().Allocate(bytes, hal::MemoryUse::kClient);
  KILN_CHECK(buffer.ok());
  const BufferSlice slice = BufferSlice::Whole(*std::move(buffer));
  std::memset(slice.host_data(), 1, bytes);
  return slice;
}

// On one device, as a server does it for one caller: `begin` hands it to the lane.
void LaneRow(Stops& stops, server::Turns& turns, hal::Device& device, const std::string& name,
             const std::function<void(server::Lane lane, hal::DoneCallback done)>& begin) {
  if (!stops.Wants(name)) return;
  stops.Row(name, [&](const LaunchControl& control) {
    return Again([&] { return Awaited([&](auto done) { begin(server::Lane(turns, device, control), done); }); });
  });
}

}  // namespace

void TransferRows(Stops& stops) {
  auto devices = runtime::cpu::CreateDevices(2, {});
  KILN_CHECK(devices.ok());
  hal::Device &first = *(*devices)[0], &second = *(*devices)[1];
  {
    const uint64_t bytes = stops.smoke() ? kSmokeBytes : kBytes;
    const BufferSlice from = Touched(first, bytes), to = Touched(first, bytes), there = Touched(second, bytes);
    std::string host(bytes, '\1');
    server::Turns turns(server::Turns::Options(), *devices);
    LaneRow(stops, turns, first, "a copy on a device",
            [&](server::Lane lane, hal::DoneCallback done) { lane.Copy(from, to, std::move(done)); });
    LaneRow(stops, turns, first, "filling a buffer",
            [&](server::Lane lane, hal::DoneCallback done) { lane.Fill(to, "abcd", std::move(done)); });
    LaneRow(stops, turns, first, "bytes to a device, in one message",
            [&](server::Lane lane, hal::DoneCallback done) { lane.Write(host.data(), to, std::move(done)); });
    LaneRow(stops, turns, first, "bytes from a device, in one message",
            [&](server::Lane lane, hal::DoneCallback done) { lane.Read(from, host.data(), std::move(done)); });
    runtime::collective::Meetings meetings;
    if (const std::string name = "a copy between two devices"; stops.Wants(name)) {
      stops.Row(name, [&](const LaunchControl& control) {
        return Again([&] {
          return Awaited([&](auto done) {
            runtime::collective::CopyBetween(meetings, &first, from, &second, there, absl::Minutes(1), control, done);
          });
        });
      });
    }
    hal::DrainAll(*devices);
  }
}

}  // namespace kiln::bench
