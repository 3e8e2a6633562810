#include "compiler/schedule/memory/memory_plan.h"

#include <algorithm>
#include <vector>

namespace kiln::compiler {
namespace {

struct Life {
  UOp* buffer;
  size_t first;
  size_t last;
  int64_t bytes;  // rounded up to the alignment
  int64_t offset = 0;
};

std::vector<Life> LivesOf(const UOp* linear, const absl::flat_hash_set<UOp*>& external) {
  std::vector<Life> lives;
  absl::flat_hash_map<UOp*, size_t> index;
  for (size_t step = 0; step < linear->src().size(); ++step) {
    for (UOp* buffer : linear->src(step)->src().subspan(1)) {
      if (buffer->op() != Op::BUFFER || external.contains(buffer)) continue;
      const auto [found, is_new] = index.emplace(buffer, lives.size());
      if (is_new) {
        const int64_t bytes = MaxElements(buffer->shape()) * ItemSize(buffer->dtype());
        lives.push_back({buffer, step, step, (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment});
      } else {
        lives[found->second].last = step;
      }
    }
  }
  return lives;
}

// The most bytes that are alive at one step.
int64_t MaxAlive(const std::vector<Life>& lives) {
  absl::flat_hash_map<size_t, int64_t> change;
  size_t steps = 0;
  for (const Life& life : lives) {
    change[life.first] += life.bytes;
    change[life.last + 1] -= life.bytes;
    steps = std::max(steps, life.last + 1);
  }
  int64_t alive = 0, max_alive = 0;
  for (size_t step = 0; step < steps; ++step) max_alive = std::max(max_alive, alive += change[step]);
  return max_alive;
}

bool Meet(const Life& a, const Life& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

MemoryPlan PlanMemory(const UOp* linear, const absl::flat_hash_set<UOp*>& external) {
  std::vector<Life> lives = LivesOf(linear, external);
  std::stable_sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  MemoryPlan plan;
  plan.alive_bytes = MaxAlive(lives);
  std::vector<const Life*> placed;  // by offset
  for (Life& life : lives) {
    for (const Life* other : placed) {
      if (!Meet(life, *other)) continue;
      if (life.offset + life.bytes <= other->offset) break;
      life.offset = std::max(life.offset, other->offset + other->bytes);
    }
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &life,
                                   [](const Life* a, const Life* b) { return a->offset < b->offset; }),
                  &life);
    plan.offsets[life.buffer] = life.offset;
    plan.arena_bytes = std::max(plan.arena_bytes, life.offset + life.bytes);
  }
  return plan;
}

}  // namespace kiln::compiler
