#include "runtime/collective/collective.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "runtime/collective/across.h"
#include "runtime/collective/by_host.h"
#include "runtime/collective/by_peers.h"
#include "runtime/collective/combiner.h"
#include "runtime/collective/measure.h"
#include "runtime/collective/vendor.h"
#include "runtime/hal/wanted_copy.h"

namespace kiln::runtime::collective {
namespace {

struct KindRow {
  const char* name;
  // The factor of BusBandwidth is (scale * (n - 1)) / n; a scale of 0 means 1.
  int scale;
};
constexpr KindRow kKindRows[kKinds] = {
    {"broadcast", 0},  {"scatter", 1},        {"gather", 1},     {"reduce", 0},
    {"all_gather", 1}, {"reduce_scatter", 1}, {"all_reduce", 2},
};

// One collective under way: what its participants see, and what they keep alive.
struct Running {
  explicit Running(Request r) : request(std::move(r)), team(static_cast<uint32_t>(request.devices.size())) {}
  const Request request;
  Team team;
  Job job;
  // One of these. What the host does not see has outcomes, by rank.
  const Algorithm* algorithm = nullptr;
  bool begins_with_vendor = false;
  Vendor* vendor = nullptr;           // null again once it says that it cannot
  Combiner* combiner = nullptr;       // null where there is none
  std::unique_ptr<ByPeers> by_peers;  // gives way to by_host
  std::unique_ptr<ByHost> by_host;
  std::vector<absl::Status> outcomes;
  std::vector<Place> inputs, outputs;
  std::vector<std::shared_ptr<hal::Buffer>> work;
  // In nanoseconds since the epoch; the first to begin sets it.
  std::atomic<int64_t> begin{0};
};

uint32_t InputRank(const Job& job, uint32_t i) { return OneInput(job.kind) ? job.root : i; }
uint32_t OutputRank(const Job& job, uint32_t i) { return OneOutput(job.kind) ? job.root : i; }

void FillJob(Running& running) {
  const Request& request = running.request;
  Job& job = running.job;
  job.kind = request.kind;
  job.ranks = static_cast<uint32_t>(request.devices.size());
  job.root = request.root;
  job.count = request.count;
  job.item_bytes = ItemBytes(request.dtype);
  job.arithmetic = Reduces(request.kind) ? ArithmeticOf(request.dtype, request.op) : nullptr;
  job.team = &running.team;
}

bool HostSeesAll(const Request& request) {
  const auto seen = [](const hal::BufferSlice& slice) { return slice.host_data() != nullptr; };
  return std::all_of(request.inputs.begin(), request.inputs.end(), seen) &&
         std::all_of(request.outputs.begin(), request.outputs.end(), seen);
}

void FillAddresses(Running& running) {
  Job& job = running.job;
  job.inputs.resize(job.ranks);
  job.outputs.resize(job.ranks);
  for (uint32_t i = 0; i < running.request.inputs.size(); ++i) {
    job.inputs[InputRank(job, i)] = static_cast<const char*>(running.request.inputs[i].host_data());
  }
  for (uint32_t i = 0; i < running.request.outputs.size(); ++i) {
    job.outputs[OutputRank(job, i)] = static_cast<char*>(running.request.outputs[i].host_data());
  }
}

// False if there is no memory for what the algorithm keeps beside the tensors.
bool TakeWork(Running& running, const hal::LaunchControl& control) {
  Job& job = running.job;
  if (!running.algorithm->wants_work(job.kind, job.arithmetic)) return true;
  const uint64_t bytes = job.count * job.arithmetic->acc_bytes;
  for (hal::Device* device : running.request.devices) {
    hal::Allocator& allocator = device->allocator();
    auto buffer =
        allocator.guarantees().Allocate(control.account, allocator, bytes, hal::MemoryUse::kProgram, control.domain);
    if (!buffer.ok()) return false;
    job.work.push_back(static_cast<char*>((*buffer)->host_data()));
    running.work.push_back(*std::move(buffer));
  }
  return true;
}

void ChooseAlgorithm(Running& running, const Thresholds& thresholds, const hal::LaunchControl& control) {
  const Request& asked = running.request;
  Job& job = running.job;
  FillAddresses(running);
  const bool in_order = asked.deterministic_order && job.arithmetic != nullptr;
  const uint64_t bytes = job.count * job.item_bytes;
  // All-to-all ends early once nobody wants it; the other algorithms wait for each other in many places.
  AlgorithmId id = bytes > hal::kMaxUnwatched ? kAllToAll : thresholds.Choose(job.kind, job.ranks, bytes, in_order);
  if (asked.algorithm.has_value()) id = *asked.algorithm;
  if (AlgorithmOf(id).run[static_cast<int>(job.kind)] == nullptr) id = kAllToAll;
  running.algorithm = &AlgorithmOf(id);
  if (TakeWork(running, control)) return;
  running.algorithm = &AlgorithmOf(kAllToAll);
  job.work.clear();
  running.work.clear();
}

// What all devices have in common; null if that is nothing, or there is but one.
Vendor* VendorOf(const std::vector<hal::Device*>& devices) {
  Vendor* const vendor = devices[0]->vendor();
  const bool all =
      std::all_of(devices.begin(), devices.end(), [&](hal::Device* device) { return device->vendor() == vendor; });
  return all && devices.size() > 1 ? vendor : nullptr;
}

absl::Status PrepareByHost(Running& running) {
  KILN_ASSIGN_OR_RETURN(running.by_host, ByHost::Make(running.job, running.inputs, running.outputs));
  return absl::OkStatus();
}

// What the devices, or the host for them, do without the vendor.
absl::Status PrepareOwn(Running& running) {
  const bool has_kernels = !Reduces(running.job.kind) || running.combiner != nullptr;
  if (!has_kernels || !ByPeers::Can(running.request.devices)) return PrepareByHost(running);
  running.by_peers = std::make_unique<ByPeers>(running.job, running.inputs, running.outputs);
  return absl::OkStatus();
}

absl::Status RunOwn(Running& running, uint32_t rank) {
  const Request& asked = running.request;
  if (running.by_peers != nullptr) {
    if (!Reduces(asked.kind) || running.by_peers->Prepare(rank, *running.combiner, asked.op, asked.dtype)) {
      return running.by_peers->Run(rank);
    }
    absl::Status status;
    if (rank == 0) status = PrepareByHost(running);
    running.team.Barrier();
    if (running.by_host == nullptr) return status;
  }
  return running.by_host->Run(rank);
}

absl::Status PrepareUnseen(Running& running) {
  const Request& asked = running.request;
  const Job& job = running.job;
  std::vector<Place>&inputs = running.inputs, &outputs = running.outputs;
  inputs.resize(job.ranks);
  outputs.resize(job.ranks);
  for (uint32_t i = 0; i < asked.inputs.size(); ++i) {
    inputs[InputRank(job, i)] = {asked.devices[InputRank(job, i)], asked.inputs[i]};
  }
  for (uint32_t i = 0; i < asked.outputs.size(); ++i) {
    outputs[OutputRank(job, i)] = {asked.devices[OutputRank(job, i)], asked.outputs[i]};
  }
  running.outcomes.resize(job.ranks);
  Vendor* const vendor = VendorOf(asked.devices);
  if (vendor != nullptr && vendor->Does(job.kind, asked.op, asked.dtype, asked.deterministic_order)) {
    running.vendor = vendor;
    running.begins_with_vendor = true;
    return absl::OkStatus();
  }
  return PrepareOwn(running);
}

// One participant's thread does it for all. Whether there is nothing left to do for this one.
bool DoByVendor(Running& running, uint32_t rank, absl::Duration timeout) {
  if (rank == 0) {
    const Request& asked = running.request;
    if (absl::Status prepared = running.vendor->Prepare(asked.devices); prepared.ok()) {
      running.outcomes[0] = running.vendor->Run(
          {running.job, asked.op, asked.dtype, asked.devices, running.inputs, running.outputs}, timeout);
    } else {
      running.vendor = nullptr;
      running.outcomes[0] = PrepareOwn(running);
    }
  }
  running.team.Barrier();
  return running.vendor != nullptr || !running.outcomes[0].ok();
}

const char* NameOf(const Running& running) {
  if (running.algorithm != nullptr) return running.algorithm->name;
  if (running.vendor != nullptr) return running.vendor->name();
  return running.by_host != nullptr ? ByHost::kName : ByPeers::kName;
}

}  // namespace

absl::string_view KindName(Kind kind) { return kKindRows[static_cast<int>(kind)].name; }

double BusBandwidth(Kind kind, uint32_t ranks, uint64_t bytes, double seconds) {
  if (ranks < 2 || bytes == 0 || seconds <= 0) return 0;
  const int scale = kKindRows[static_cast<int>(kind)].scale;
  const double factor = scale == 0 ? 1 : static_cast<double>(scale) * (ranks - 1) / ranks;
  return static_cast<double>(bytes) / seconds * factor / 1e9;
}

Collectives::Collectives(Meetings* meetings, Thresholds* thresholds, absl::Duration timeout, Background background,
                         Combiner* combiner)
    : meetings_(meetings),
      thresholds_(thresholds),
      timeout_(timeout),
      background_(std::move(background)),
      combiner_(combiner) {}

void Collectives::Run(Request request, const hal::LaunchControl& control, ReportCallback done) {
  if (absl::Status status = Check(request); !status.ok()) return done(std::move(status));
  if (AnyRemote(request.devices)) {
    absl::Status seen = CheckSeen(request.inputs);
    seen.Update(CheckSeen(request.outputs));
    if (!seen.ok()) return done(std::move(seen));
    return RunAcross(std::move(request), *meetings_, timeout_, control, std::move(done));
  }
  const auto running = std::make_shared<Running>(std::move(request));
  const Request& asked = running->request;
  FillJob(*running);
  const Job& job = running->job;
  running->job.wanted = [control] { return control.Check().ok(); };
  running->combiner = combiner_;
  const uint64_t bytes = job.count * job.item_bytes;
  if (HostSeesAll(asked)) {
    ChooseAlgorithm(*running, *thresholds_, control);
    if (background_ != nullptr && !asked.algorithm.has_value() && thresholds_->ShouldMeasure(job.kind, job.ranks)) {
      MeasureLater(asked);
    }
  } else if (absl::Status status = PrepareUnseen(*running); !status.ok()) {
    return done(std::move(status));
  }

  MeetingRequest meeting;
  meeting.devices = asked.devices;
  meeting.timeout = timeout_;
  meeting.control = control;
  meeting.work = [running, timeout = timeout_](uint32_t rank) {
    int64_t none = 0;
    running->begin.compare_exchange_strong(none, absl::GetCurrentTimeNanos(), std::memory_order_relaxed);
    // Any rank may be the first to write to any of them.
    for (const hal::BufferSlice& output : running->request.outputs) output.buffer->Changed();
    if (running->algorithm != nullptr) {
      return running->algorithm->run[static_cast<int>(running->job.kind)](running->job, rank);
    }
    if (running->begins_with_vendor && DoByVendor(*running, rank, timeout)) return;
    running->outcomes[rank] = RunOwn(*running, rank);
  };
  meetings_->Submit(std::move(meeting), [running, bytes, control, done = std::move(done)](absl::Status status) mutable {
    for (const absl::Status& outcome : running->outcomes) status.Update(outcome);
    if (running->team.stopped()) status.Update(control.Check());
    if (!status.ok()) return done(std::move(status));
    Report report;
    report.algorithm = NameOf(*running);
    report.seconds = static_cast<double>(absl::GetCurrentTimeNanos() - running->begin.load()) * 1e-9;
    report.bus_gb_s = BusBandwidth(running->job.kind, running->job.ranks, bytes, report.seconds);
    done(report);
  });
}

void Collectives::WhenReady(std::vector<hal::Device*> devices, const hal::LaunchControl& control,
                            hal::DoneCallback done) {
  meetings_->Submit({std::move(devices), nullptr, timeout_, control}, std::move(done));
}

void Collectives::MeasureLater(const Request& request) {
  background_([this, kind = request.kind, devices = request.devices] {
    const auto choice = MeasureChoice(*meetings_, devices, kind);
    if (choice.has_value()) thresholds_->Learn(kind, static_cast<uint32_t>(devices.size()), *choice);
  });
}

}  // namespace kiln::runtime::collective
