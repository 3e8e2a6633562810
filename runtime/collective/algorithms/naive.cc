// Naive: one participant, whoever is first, does everything. No step waits for
// another, so for a few bytes nothing is faster; and what it gives is what the others
// are compared with.
#include "runtime/collective/algorithms/job.h"

namespace kiln::runtime::collective {
namespace {

void Run(const Job& job, uint32_t rank) {
  if (job.team->Claim() == 0) DoRange(job, 0, job.count);
}

bool NeverWantsWork(Kind, const Arithmetic*) { return false; }

}  // namespace

const Algorithm kNaiveAlgorithm = {"naive", /*rank_order=*/true, {Run, Run, Run, Run, Run, Run, Run}, NeverWantsWork};

}  // namespace kiln::runtime::collective
