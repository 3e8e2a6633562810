// Ring: each participant takes from the one before it, so that every link carries the
// same load all the time. A reduction goes round in n-1 steps, after which each rank
// has one part complete; n-1 more hand the parts on. What suits wires between
// neighbours; where memory is shared, it touches more of it than all-to-all.
//
// A step reads what the neighbour finished in the step before, and a barrier lies in
// between.
#include <cstring>

#include "runtime/collective/algorithms/job.h"

namespace kiln::runtime::collective {
namespace {

void Copy(char* to, const char* from, uint64_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

// Round the ring: afterwards rank r's accumulators have part r + shift complete.
void ReduceRound(const Job& job, uint32_t rank, uint32_t shift) {
  const uint32_t n = job.ranks;
  const Arithmetic& arithmetic = *job.arithmetic;
  char* const mine = AccumulatorsOf(job, rank);
  const char* const before = AccumulatorsOf(job, (rank + n - 1) % n);
  arithmetic.widen(job.inputs[rank], mine, job.count);
  job.team->Barrier();
  for (uint32_t step = 0; step + 1 < n; ++step) {
    // Part p begins at rank p + 1 - shift and has come `step` + 1 ranks further.
    const Part part = job.part((rank + 2 * n + shift - 2 - step) % n);
    arithmetic.combine(mine + part.begin * arithmetic.acc_bytes, before + part.begin * arithmetic.acc_bytes,
                       part.elements);
    job.team->Barrier();
  }
}

// The part at `at` of `from`'s accumulators, as items.
void Narrow(const Job& job, uint32_t from, const Part& part, char* to) {
  job.arithmetic->narrow(AccumulatorsOf(job, from) + part.begin * job.arithmetic->acc_bytes, to, part.elements);
}

// Each rank's output has part r + shift; afterwards it has all.
void HandOn(const Job& job, uint32_t rank, uint32_t shift) {
  const uint32_t n = job.ranks;
  for (uint32_t step = 0; step + 1 < n; ++step) {
    job.team->Barrier();
    const Part part = job.part((rank + 2 * n + shift - 1 - step) % n);
    Copy(job.outputs[rank] + part.begin * job.item_bytes, job.outputs[(rank + n - 1) % n] + part.begin * job.item_bytes,
         part.elements * job.item_bytes);
  }
}

void AllReduce(const Job& job, uint32_t rank) {
  ReduceRound(job, rank, 1);
  const Part part = job.part((rank + 1) % job.ranks);
  Narrow(job, rank, part, job.outputs[rank] + part.begin * job.item_bytes);
  HandOn(job, rank, 1);
}

void ReduceScatter(const Job& job, uint32_t rank) {
  ReduceRound(job, rank, 0);
  Narrow(job, rank, job.part(rank), job.outputs[rank]);
}

void Reduce(const Job& job, uint32_t rank) {
  ReduceRound(job, rank, 0);
  const Part part = job.part(rank);
  Narrow(job, rank, part, job.outputs[job.root] + part.begin * job.item_bytes);
}

void AllGather(const Job& job, uint32_t rank) {
  const Part part = job.part(rank);
  Copy(job.outputs[rank] + part.begin * job.item_bytes, job.inputs[rank], part.elements * job.item_bytes);
  HandOn(job, rank, 0);
}

// A pipeline: while one rank takes a piece, the next takes the piece before.
void Broadcast(const Job& job, uint32_t rank) {
  const uint32_t pieces = 2 * job.ranks;
  const uint32_t distance = (rank + job.ranks - job.root) % job.ranks;
  const char* const source = distance <= 1 ? job.inputs[job.root] : job.outputs[(rank + job.ranks - 1) % job.ranks];
  for (uint32_t step = 0; step < pieces + job.ranks - 1; ++step) {
    if (step >= distance && step - distance < pieces) {
      const Part part = PartOf(job.count, pieces, step - distance);
      Copy(job.outputs[rank] + part.begin * job.item_bytes, source + part.begin * job.item_bytes,
           part.elements * job.item_bytes);
    }
    job.team->Barrier();
  }
}

}  // namespace

const Algorithm kRingAlgorithm = {"ring",
                                  /*rank_order=*/false,
                                  {Broadcast, nullptr, nullptr, Reduce, AllGather, ReduceScatter, AllReduce},
                                  WantsAccumulators};

}  // namespace kiln::runtime::collective
