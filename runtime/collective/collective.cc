#include "runtime/collective/collective.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/error.h"
#include "runtime/collective/across.h"
#include "runtime/collective/measure.h"
#include "runtime/collective/mirrors.h"

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
  const Algorithm* algorithm = nullptr;
  Mirrors mirrors;
  std::vector<absl::Status> outcomes;  // of what concerns the mirrors, by rank
  std::vector<std::shared_ptr<hal::Buffer>> work;
  std::vector<std::unique_ptr<char[]>> host_work;  // instead, where there are mirrors
  // In nanoseconds since the epoch; the first to begin sets it.
  std::atomic<int64_t> begin{0};
};

void FillJob(Running& running) {
  const Request& request = running.request;
  Job& job = running.job;
  job.kind = request.kind;
  job.ranks = static_cast<uint32_t>(request.devices.size());
  job.root = request.root;
  job.count = request.count;
  job.item_bytes = ItemBytes(request.dtype);
  job.arithmetic = Reduces(request.kind) ? ArithmeticOf(request.dtype, request.op) : nullptr;
  job.inputs.resize(job.ranks);
  job.outputs.resize(job.ranks);
  for (uint32_t i = 0; i < request.inputs.size(); ++i) {
    const uint32_t rank = OneInput(job.kind) ? job.root : i;
    job.inputs[rank] = running.mirrors.Place(rank, request.inputs[i], /*input=*/true);
  }
  for (uint32_t i = 0; i < request.outputs.size(); ++i) {
    const uint32_t rank = OneOutput(job.kind) ? job.root : i;
    job.outputs[rank] = running.mirrors.Place(rank, request.outputs[i], /*input=*/false);
  }
  job.team = &running.team;
  running.outcomes.resize(job.ranks);
}

// False if there is no memory for what the algorithm keeps beside the tensors.
bool TakeWork(Running& running) {
  Job& job = running.job;
  if (!running.algorithm->wants_work(job.kind, job.arithmetic)) return true;
  const uint64_t bytes = job.count * job.arithmetic->acc_bytes;
  for (hal::Device* device : running.request.devices) {
    if (running.mirrors.any()) {
      job.work.push_back(running.host_work.emplace_back(std::make_unique<char[]>(bytes)).get());
      continue;
    }
    auto buffer = device->allocator().Allocate(bytes, hal::MemoryUse::kProgram);
    if (!buffer.ok()) return false;
    job.work.push_back(static_cast<char*>((*buffer)->host_data()));
    running.work.push_back(*std::move(buffer));
  }
  return true;
}

}  // namespace

absl::string_view KindName(Kind kind) { return kKindRows[static_cast<int>(kind)].name; }

double BusBandwidth(Kind kind, uint32_t ranks, uint64_t bytes, double seconds) {
  if (ranks < 2 || bytes == 0 || seconds <= 0) return 0;
  const int scale = kKindRows[static_cast<int>(kind)].scale;
  const double factor = scale == 0 ? 1 : static_cast<double>(scale) * (ranks - 1) / ranks;
  return static_cast<double>(bytes) / seconds * factor / 1e9;
}

Collectives::Collectives(Meetings* meetings, Thresholds* thresholds, absl::Duration patience, Background background)
    : meetings_(meetings), thresholds_(thresholds), patience_(patience), background_(std::move(background)) {}

void Collectives::Run(Request request, const hal::LaunchControl& control, ReportCallback done) {
  if (absl::Status status = Check(request); !status.ok()) return done(std::move(status));
  if (AnyRemote(request.devices)) {
    return RunAcross(std::move(request), *meetings_, patience_, control, std::move(done));
  }
  const auto running = std::make_shared<Running>(std::move(request));
  const Request& asked = running->request;
  FillJob(*running);
  const Job& job = running->job;
  const uint64_t bytes = job.count * job.item_bytes;
  const bool in_order = asked.deterministic_order && job.arithmetic != nullptr;
  AlgorithmId id =
      asked.algorithm.has_value() ? *asked.algorithm : thresholds_->Choose(job.kind, job.ranks, bytes, in_order);
  if (AlgorithmOf(id).run[static_cast<int>(job.kind)] == nullptr) id = kAllToAll;
  running->algorithm = &AlgorithmOf(id);
  if (!TakeWork(*running)) {
    running->algorithm = &AlgorithmOf(kAllToAll);
    running->job.work.clear();
    running->work.clear();
  }
  if (background_ != nullptr && !asked.algorithm.has_value() && thresholds_->ShouldMeasure(job.kind, job.ranks)) {
    MeasureLater(asked);
  }

  MeetingRequest meeting;
  meeting.devices = asked.devices;
  meeting.patience = patience_;
  meeting.control = control;
  meeting.keeps_place = asked.keeps_place;
  meeting.work = [running](uint32_t rank) {
    int64_t none = 0;
    running->begin.compare_exchange_strong(none, absl::GetCurrentTimeNanos(), std::memory_order_relaxed);
    // Any rank may be the first to write to any of them.
    for (const hal::BufferSlice& output : running->request.outputs) output.buffer->Changed();
    const auto run = running->algorithm->run[static_cast<int>(running->job.kind)];
    if (!running->mirrors.any()) return run(running->job, rank);
    // Any rank may read or write what is another's.
    running->outcomes[rank] = running->mirrors.Fetch(rank);
    running->team.Barrier();
    run(running->job, rank);
    running->team.Barrier();
    running->outcomes[rank].Update(running->mirrors.BringBack(rank));
  };
  meetings_->Submit(std::move(meeting), [running, bytes, done = std::move(done)](absl::Status status) mutable {
    for (const absl::Status& outcome : running->outcomes) status.Update(outcome);
    if (!status.ok()) return done(std::move(status));
    Report report;
    report.algorithm = running->algorithm->name;
    report.seconds = static_cast<double>(absl::GetCurrentTimeNanos() - running->begin.load()) * 1e-9;
    report.bus_gb_s = BusBandwidth(running->job.kind, running->job.ranks, bytes, report.seconds);
    done(report);
  });
}

void Collectives::WhenReady(std::vector<hal::Device*> devices, const hal::LaunchControl& control,
                            hal::DoneCallback done) {
  meetings_->Submit({std::move(devices), nullptr, patience_, control, /*keeps_place=*/false}, std::move(done));
}

void Collectives::MeasureLater(const Request& request) {
  background_([this, kind = request.kind, devices = request.devices] {
    const auto choice = MeasureChoice(*meetings_, devices, kind);
    if (choice.has_value()) thresholds_->Learn(kind, static_cast<uint32_t>(devices.size()), *choice);
  });
}

}  // namespace kiln::runtime::collective
