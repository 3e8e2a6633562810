// All-to-all: the tensor is cut into pieces that fit a cache, and whoever is free
// takes the next one, reads it from all who give and writes it to all who receive.
//
// Each input is read once and each output written once, which is as little memory
// traffic as there can be, and no participant waits for another: one that wakes late
// finds its work done. It needs every participant to see all memory. It ends early once nobody
// wants the result: no participant waits for what another leaves out.
#include "runtime/collective/algorithms/job.h"

namespace kiln::runtime::collective {
namespace {

// Of one tensor. A piece of each input and output is in use at once.
constexpr uint64_t kMinPieceBytes = 8 << 10;
constexpr uint64_t kMaxPieceBytes = 128 << 10;
constexpr uint64_t kPiecesPerRank = 8;

void Run(const Job& job, uint32_t rank) {
  const uint64_t least = kMinPieceBytes / job.item_bytes, max_piece = kMaxPieceBytes / job.item_bytes;
  const uint64_t even = job.count / (job.ranks * kPiecesPerRank);
  // Whole cache lines, so that two pieces do not share one.
  const uint64_t piece = std::clamp(even, least, max_piece) / 64 * 64;
  const uint64_t pieces = (job.count + piece - 1) / piece;
  for (uint64_t i = job.team->Claim(); i < pieces; i = job.team->Claim()) {
    if (job.wanted && !job.wanted()) return job.team->Stop();
    DoRange(job, i * piece, std::min(job.count, (i + 1) * piece));
  }
}

bool NeverWantsWork(Kind, const Arithmetic*) { return false; }

}  // namespace

const Algorithm kAllToAllAlgorithm = {
    "all_to_all", /*rank_order=*/true, {Run, Run, Run, Run, Run, Run, Run}, NeverWantsWork};

}  // namespace kiln::runtime::collective
