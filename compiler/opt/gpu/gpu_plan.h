// OptOps of a GPU's schedule as they are made: which loop has which number, and what is left of it.
#ifndef KILN_COMPILER_OPT_GPU_GPU_PLAN_H_
#define KILN_COMPILER_OPT_GPU_GPU_PLAN_H_

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/opt/apply.h"
#include "compiler/opt/tensor_tile.h"

namespace kiln::compiler {

class GpuPlan {
 public:
  explicit GpuPlan(UOp* sink);

  // Iterations of the outer part of `axis`, an axis of the kernel as it was; 0 if they are no number.
  int64_t Left(UOp* axis) const { return left_.at(axis); }

  // The inner part of the axis becomes lanes.
  void Vectors(UOp* axis, int64_t amount, AxisType type, int64_t dimension);
  // What is left becomes a multiple; what is beyond it reads the last element again.
  void Pad(UOp* axis, int64_t multiple);
  // The inner part becomes `amount` work items; what does not come out even is padded.
  void Items(UOp* axis, int64_t amount, AxisType type);
  // Each of `amount` work items, which divides what is left, reduces iterations that follow each other.
  void Sharers(UOp* axis, int64_t amount);

  // The only OptOps, if there is a choice: a product by tiles, of loops that are fused for it. Says whether there is.
  bool Tile(const std::optional<TileChoice>& choice);

  std::vector<OptOp> Take() { return std::move(opts_); }

 private:
  int Number(UOp* axis) const;
  // A new loop stands beside `axis`: before it, or behind it.
  void AddPart(UOp* axis, bool before);

  std::vector<UOp*> axes_;  // by number; null for parts
  absl::flat_hash_map<UOp*, int64_t> left_;
  std::vector<OptOp> opts_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_GPU_GPU_PLAN_H_
