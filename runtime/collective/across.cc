#include "runtime/collective/across.h"

#include <utility>

namespace kiln::runtime::collective {
namespace {

uint64_t AddressOf(const hal::BufferSlice& slice) { return reinterpret_cast<uint64_t>(slice.device_data()); }

// One collective under way, and what it holds.
struct Running {
  Request request;
  std::vector<std::shared_ptr<hal::Buffer>> scratch;
};

absl::StatusOr<std::vector<Share>> SharesOf(Running& running, Way way, const hal::LaunchControl& control) {
  const Request& request = running.request;
  const auto ranks = static_cast<uint32_t>(request.devices.size());
  std::vector<Share> shares(ranks);
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    shares[OneInput(request.kind) ? request.root : i].input = AddressOf(request.inputs[i]);
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    shares[OneOutput(request.kind) ? request.root : i].output = AddressOf(request.outputs[i]);
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint64_t bytes =
        ScratchBytes(request.kind, way, ranks, request.root, rank, request.count, ItemBytes(request.dtype));
    if (bytes == 0) continue;
    hal::Allocator& allocator = request.devices[rank]->allocator();
    auto scratch =
        allocator.guarantees().Allocate(control.account, allocator, bytes, hal::MemoryUse::kProgram, control.domain);
    if (!scratch.ok()) return std::move(scratch).status();
    shares[rank].scratch = reinterpret_cast<uint64_t>((*scratch)->device_data());
    running.scratch.push_back(*std::move(scratch));
  }
  return shares;
}

}  // namespace

void RunAcross(Request request, Meetings& meetings, absl::Duration timeout, const hal::LaunchControl& control,
               ReportCallback done) {
  const auto running = std::make_shared<Running>();
  running->request = std::move(request);
  const Request& asked = running->request;
  const auto ranks = static_cast<uint32_t>(asked.devices.size());
  const uint32_t item = ItemBytes(asked.dtype);
  const uint64_t bytes = asked.count * item;
  const Way way = WayFor(asked.kind, ranks, bytes);
  const auto shares = SharesOf(*running, way, control);
  if (!shares.ok()) return done(shares.status());
  std::vector<Script> scripts = PlanScripts(asked.kind, way, asked.root, asked.count, item, *shares);
  for (Script& script : scripts) {
    script.dtype = asked.dtype;
    script.op = asked.op;
  }
  MeetWithScripts(meetings, asked.devices, std::move(scripts), asked.outputs, timeout, control,
                  [running, way, ranks, bytes, done = std::move(done)](absl::Status status, double seconds) mutable {
                    if (!status.ok()) return done(std::move(status));
                    Report report;
                    report.algorithm = NameOf(way);
                    report.seconds = seconds;
                    report.bus_gb_s = BusBandwidth(running->request.kind, ranks, bytes, report.seconds);
                    done(report);
                  });
}

}  // namespace kiln::runtime::collective
