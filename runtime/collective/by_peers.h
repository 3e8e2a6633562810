// Collectives that only move data, by devices that copy from each other's memory.
//
// Everyone fetches what it is to have. Where the root's tensor goes to all, each fetches its part
// from there and the rest from the others, so that no link carries the whole more often than once.
// What is combined has to be computed where the data is, and the runtime brings no kernels along:
// that is the vendor's library's work (vendor.h), or the host's (by_host.h).
#ifndef KILN_RUNTIME_COLLECTIVE_BY_PEERS_H_
#define KILN_RUNTIME_COLLECTIVE_BY_PEERS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/collective/job.h"
#include "runtime/collective/place.h"

namespace kiln::runtime::collective {

class ByPeers {
 public:
  static constexpr char kName[] = "by_peers";

  // Whether it moves data alone, and every device copies from every other.
  static bool Can(Kind kind, const std::vector<hal::Device*>& devices);

  // `job` has no addresses: `inputs` and `outputs`, by rank, stand for them. It outlives this.
  ByPeers(const Job& job, std::vector<Place> inputs, std::vector<Place> outputs);

  // One participant's share; all call it at the same time.
  absl::Status Run(uint32_t rank);

 private:
  absl::Status Fetch(const Place& from, uint64_t from_offset, const Place& to, uint64_t to_offset, uint64_t bytes);
  absl::Status Gather(uint32_t rank);
  absl::Status Broadcast(uint32_t rank);
  uint64_t At(uint32_t rank) const { return job_.part(rank).begin * job_.item_bytes; }
  uint64_t Bytes(uint32_t rank) const { return job_.part(rank).elements * job_.item_bytes; }

  const Job& job_;
  const std::vector<Place> inputs_, outputs_;
  std::atomic<bool> failed_ = false;
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_BY_PEERS_H_
