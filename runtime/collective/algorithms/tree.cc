// Tree: pairs, then pairs of pairs. What has n - 1 steps in a ring has log2 n here, each
// over the whole tensor: for few bytes and many participants.
//
// Places are counted from the root. Place v with its lowest set bit b takes from
// place v - b when things go out, and place v - b combines what v has when they come in.
#include <cstring>

#include "runtime/collective/algorithms/job.h"

namespace kiln::runtime::collective {
namespace {

uint32_t RankAt(const Job& job, uint32_t place) { return (place + job.root) % job.ranks; }
uint32_t PlaceOf(const Job& job, uint32_t rank) { return (rank + job.ranks - job.root) % job.ranks; }

// From the root's `source` into all outputs.
void SendOut(const Job& job, uint32_t rank, const char* source) {
  const uint32_t place = PlaceOf(job, rank);
  const uint64_t bytes = job.count * job.item_bytes;
  if (place == 0 && job.outputs[rank] != source && bytes != 0) std::memcpy(job.outputs[rank], source, bytes);
  uint32_t step = 1;
  while (step < job.ranks) step *= 2;
  for (step /= 2; step > 0; step /= 2) {
    job.team->Barrier();
    if (place % (2 * step) == step && bytes != 0) {
      const uint32_t parent = RankAt(job, place - step);
      std::memcpy(job.outputs[rank], parent == job.root ? source : job.outputs[parent], bytes);
    }
  }
}

// All inputs combined, in the root's accumulators.
void BringIn(const Job& job, uint32_t rank) {
  const uint32_t place = PlaceOf(job, rank);
  job.arithmetic->widen(job.inputs[rank], AccumulatorsOf(job, rank), job.count);
  for (uint32_t step = 1; step < job.ranks; step *= 2) {
    job.team->Barrier();
    if (place % (2 * step) == 0 && place + step < job.ranks) {
      job.arithmetic->combine(AccumulatorsOf(job, rank), AccumulatorsOf(job, RankAt(job, place + step)), job.count);
    }
  }
}

void Broadcast(const Job& job, uint32_t rank) { SendOut(job, rank, job.inputs[job.root]); }

void Reduce(const Job& job, uint32_t rank) {
  BringIn(job, rank);
  if (rank == job.root) job.arithmetic->narrow(AccumulatorsOf(job, rank), job.outputs[rank], job.count);
}

void AllReduce(const Job& job, uint32_t rank) {
  BringIn(job, rank);
  if (rank == job.root) job.arithmetic->narrow(AccumulatorsOf(job, rank), job.outputs[rank], job.count);
  SendOut(job, rank, job.outputs[job.root]);
}

}  // namespace

const Algorithm kTreeAlgorithm = {"tree",
                                  /*rank_order=*/false,
                                  {Broadcast, nullptr, nullptr, Reduce, nullptr, nullptr, AllReduce},
                                  WantsAccumulators};

}  // namespace kiln::runtime::collective
