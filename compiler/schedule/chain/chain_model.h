// What a chain of kernels wins, and how it is cut for that.
#ifndef KILN_COMPILER_SCHEDULE_CHAIN_CHAIN_MODEL_H_
#define KILN_COMPILER_SCHEDULE_CHAIN_CHAIN_MODEL_H_

#include <optional>
#include <vector>

#include "compiler/schedule/chain/chain.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

struct ChainPlan {
  double won = 0;  // cycles
  RowCut cut;
};

// Weighs the traffic of buffers that vanish against what each slice reads, and copies, again. Numbers are those of
// cores of the last ten years, but for the target's caches and how fast the last of them is read; how many cores there
// are is left out, so that values do not depend on it.
class ChainModel {
 public:
  explicit ChainModel(const v1::Target& target);

  // Whether a buffer of so many bytes is worth a look.
  bool IsFar(double bytes) const { return bytes > l2_bytes_; }

  // None if nothing is won, or if no cut leaves slices that local memory and the cache hold.
  std::optional<ChainPlan> PlanOf(const std::vector<ChainMember>& members) const;

 private:
  // Of what goes through the caches that all cores share, or through memory.
  double CyclesPerByte(double bytes) const;
  double WorkOf(const PlainKernel& kernel) const;

  double vector_bytes_, l2_bytes_, l3_bytes_;
  double near_bytes_per_cycle_;  // of the last-level cache, for one core
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_CHAIN_CHAIN_MODEL_H_
