#include "runtime/collective/by_peers.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace kiln::runtime::collective {

bool ByPeers::Can(Kind kind, const std::vector<hal::Device*>& devices) {
  if (Reduces(kind)) return false;
  return std::all_of(devices.begin(), devices.end(), [&](hal::Device* to) {
    return std::all_of(devices.begin(), devices.end(), [&](hal::Device* from) { return to->CopiesFrom(*from); });
  });
}

ByPeers::ByPeers(const Job& job, std::vector<Place> inputs, std::vector<Place> outputs)
    : job_(job), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

absl::Status ByPeers::Run(uint32_t rank) {
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
  if (!status.ok()) failed_.store(true, std::memory_order_relaxed);
  job_.team->Barrier();
  if (is_root || failed_.load(std::memory_order_relaxed)) return status;
  for (uint32_t i = 1; i < job_.ranks; ++i) {
    const uint32_t from = (rank + i) % job_.ranks;
    const Place& source = from == job_.root ? root : outputs_[from];
    KILN_RETURN_IF_ERROR(Fetch(source, At(from), to, At(from), Bytes(from)));
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime::collective
