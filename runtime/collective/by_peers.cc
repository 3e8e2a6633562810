#include "runtime/collective/by_peers.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace kiln::runtime::collective {
namespace {

// Of a GPU's caches and of what its links carry at once.
constexpr uint64_t kLineBytes = 128;

}  // namespace

bool ByPeers::Can(const std::vector<hal::Device*>& devices) {
  return std::all_of(devices.begin(), devices.end(), [&](hal::Device* to) {
    return std::all_of(devices.begin(), devices.end(), [&](hal::Device* from) { return to->CopiesFrom(*from); });
  });
}

ByPeers::ByPeers(const Job& job, std::vector<Place> inputs, std::vector<Place> outputs)
    : job_(job), inputs_(std::move(inputs)), outputs_(std::move(outputs)), kernels_(job.ranks) {}

bool ByPeers::Prepare(uint32_t rank, Combiner& combiner, ReduceOp op, v1::DType dtype) {
  const Combination combination = {op, dtype, job_.ranks, job_.kind == Kind::kAllReduce ? job_.ranks : 1};
  const absl::StatusOr<CombineKernel*> kernel = combiner.For(*inputs_[rank].device, combination);
  if (kernel.ok()) kernels_[rank] = *kernel;
  return !AnyFailed(unprepared_, !kernel.ok());
}

bool ByPeers::AnyFailed(std::atomic<bool>& step, bool failed) {
  if (failed) step.store(true, std::memory_order_relaxed);
  job_.team->Barrier();
  return step.load(std::memory_order_relaxed);
}

absl::Status ByPeers::Run(uint32_t rank) {
  if (Reduces(job_.kind)) return Reduce(rank);
  switch (job_.kind) {
    case Kind::kBroadcast: return Broadcast(rank);
    case Kind::kScatter: return Fetch(inputs_[job_.root], At(rank), outputs_[rank], 0, Bytes(rank));
    case Kind::kGather: return rank == job_.root ? Gather(rank) : absl::OkStatus();
    default: return Gather(rank);
  }
}

absl::Status ByPeers::Fetch(const Place& from, uint64_t from_offset, const Place& to, uint64_t to_offset,
                            uint64_t bytes) {
  const hal::Move move = {from.data(from_offset), to.writable(to_offset), bytes};
  if (bytes == 0 || move.from == move.to) return absl::OkStatus();
  return to.device->CopyFrom(*from.device, {&move, 1});
}

// All parts to one rank: first its own, then those behind it, so that no two begin with the same.
absl::Status ByPeers::Gather(uint32_t rank) {
  for (uint32_t i = 0; i < job_.ranks; ++i) {
    const uint32_t from = (rank + i) % job_.ranks;
    KILN_RETURN_IF_ERROR(Fetch(inputs_[from], 0, outputs_[rank], At(from), Bytes(from)));
  }
  return absl::OkStatus();
}

absl::Status ByPeers::Broadcast(uint32_t rank) {
  const Place& root = inputs_[job_.root];
  const Place& to = outputs_[rank];
  const bool is_root = rank == job_.root;
  // The root keeps a copy of all; the others take their part.
  absl::Status status =
      is_root ? Fetch(root, 0, to, 0, job_.count * job_.item_bytes) : Fetch(root, At(rank), to, At(rank), Bytes(rank));
  if (AnyFailed(failed_, !status.ok()) || is_root) return status;
  for (uint32_t i = 1; i < job_.ranks; ++i) {
    const uint32_t from = (rank + i) % job_.ranks;
    const Place& source = from == job_.root ? root : outputs_[from];
    KILN_RETURN_IF_ERROR(Fetch(source, At(from), to, At(from), Bytes(from)));
  }
  return absl::OkStatus();
}

absl::Status ByPeers::Reduce(uint32_t rank) {
  hal::Device& device = *inputs_[rank].device;
  // New memory is cleared when the device comes to it. Its own work is ordered behind that, and so is
  // a copy, but not the others' kernels: so it waits for no moves.
  absl::Status status = device.CopyFrom(device, {});
  if (AnyFailed(failed_, !status.ok())) return status;
  return Combine(rank);
}

Part ByPeers::ShareOf(uint32_t rank) const {
  if (OutputsAreParts(job_.kind)) return job_.part(rank);
  // Whole lines of memory, so that shares begin where vectors may, and few elements are one device's.
  const uint64_t line = kLineBytes / job_.item_bytes;
  const Part lines = PartOf((job_.count + line - 1) / line, job_.ranks, rank);
  const uint64_t begin = std::min(job_.count, lines.begin * line), end = std::min(job_.count, lines.end() * line);
  return {begin, end - begin};
}

absl::Status ByPeers::Combine(uint32_t rank) {
  const Part share = ShareOf(rank);
  if (share.elements == 0) return absl::OkStatus();
  const uint64_t offset = share.begin * job_.item_bytes;
  std::vector<const void*> inputs;
  for (const Place& input : inputs_) inputs.push_back(input.data(offset));
  std::vector<void*> outputs;
  switch (job_.kind) {
    case Kind::kReduceScatter: outputs.push_back(outputs_[rank].writable()); break;
    case Kind::kReduce: outputs.push_back(outputs_[job_.root].writable(offset)); break;
    default:
      for (const Place& output : outputs_) outputs.push_back(output.writable(offset));
  }
  hal::Device& device = *inputs_[rank].device;
  absl::Status status = kernels_[rank]->Launch(inputs, outputs, share.elements);
  status.Update(device.FinishLaunches());
  device.TakeLaunchSeconds();  // it is no program's time
  return status;
}

}  // namespace kiln::runtime::collective
