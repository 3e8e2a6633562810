// Collectives by devices that reach each other's memory, without the host's.
//
// Where data only moves, each device fetches what it is to have. Where the root's tensor goes to all,
// each fetches its part from there and the rest from the others, so that no link carries the whole
// more often than once.
//
// Where it is combined, each device does its share of the tensor in one kernel, which loads the share
// from all inputs, wherever they are, and stores the result to all outputs. A ring moves the same
// bytes over each link, 2 (n - 1) / n of the tensor each way, but in n - 1 steps that each wait for the
// one before, through memory that it needs beside the tensors; it combines each part in another order
// of ranks, and rounds what it passes on. Here each element is combined once, by one device, in the
// order of the ranks: what comes out is what one process computes, and nothing is taken of any memory.
// Rings are for links that do not join all with all; then the host does it (by_host.h).
#ifndef KILN_RUNTIME_COLLECTIVE_BY_PEERS_H_
#define KILN_RUNTIME_COLLECTIVE_BY_PEERS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "runtime/collective/algorithms/job.h"
#include "runtime/collective/combiner.h"
#include "runtime/collective/place.h"

namespace kiln::runtime::collective {

class ByPeers {
 public:
  static constexpr char kName[] = "by_peers";

  // Whether every device copies from every other.
  static bool Can(const std::vector<hal::Device*>& devices);

  // `job` has no addresses: `inputs` and `outputs`, by rank, stand for them. It outlives this.
  ByPeers(const Job& job, std::vector<Place> inputs, std::vector<Place> outputs);

  // Gets what a participant combines with; all call it at the same time. Whether all have theirs,
  // which is the same for all; if not, nothing was done.
  bool Prepare(uint32_t rank, Combiner& combiner, ReduceOp op, v1::DType dtype);

  // One participant's share; all call it at the same time. What reduces has been prepared.
  absl::Status Run(uint32_t rank);

 private:
  absl::Status Fetch(const Place& from, uint64_t from_offset, const Place& to, uint64_t to_offset, uint64_t bytes);
  absl::Status Gather(uint32_t rank);
  absl::Status Broadcast(uint32_t rank);
  absl::Status Reduce(uint32_t rank);
  absl::Status Combine(uint32_t rank);
  // What a rank combines.
  Part ShareOf(uint32_t rank) const;
  // Once all are there, whether any failed in this step, which each of them takes once.
  bool AnyFailed(std::atomic<bool>& step, bool failed);
  uint64_t At(uint32_t rank) const { return job_.part(rank).begin * job_.item_bytes; }
  uint64_t Bytes(uint32_t rank) const { return job_.part(rank).elements * job_.item_bytes; }

  const Job& job_;
  const std::vector<Place> inputs_, outputs_;
  std::vector<CombineKernel*> kernels_;  // by rank
  std::atomic<bool> unprepared_ = false, failed_ = false;
};

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_BY_PEERS_H_
