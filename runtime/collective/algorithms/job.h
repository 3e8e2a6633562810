// One collective, as its participants see it while they work.
//
// The host sees the memory of all devices (else: by_host.h), so a participant may read
// what another gives and write where another receives. What an algorithm decides is who
// touches what, and when.
#ifndef KILN_RUNTIME_COLLECTIVE_ALGORITHMS_JOB_H_
#define KILN_RUNTIME_COLLECTIVE_ALGORITHMS_JOB_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/collective/algorithms/arithmetic.h"

namespace kiln::runtime::collective {

// A tensor of `count` elements, and its parts, one a rank (PartOf).
enum class Kind : uint8_t {
  kBroadcast,      // the root's tensor to all
  kScatter,        // of the root's tensor, each its part
  kGather,         // each one's part, together at the root
  kReduce,         // all tensors combined, at the root
  kAllGather,      // each one's part, together at all
  kReduceScatter,  // all tensors combined, each its part of that
  kAllReduce,      // all tensors combined, at all
};
inline constexpr int kKinds = 7;

inline bool Reduces(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kReduceScatter || kind == Kind::kAllReduce;
}
inline bool HasRoot(Kind kind) { return kind <= Kind::kReduce; }
// Whether inputs, or outputs, are parts and not whole tensors.
inline bool InputsAreParts(Kind kind) { return kind == Kind::kGather || kind == Kind::kAllGather; }
inline bool OutputsAreParts(Kind kind) { return kind == Kind::kScatter || kind == Kind::kReduceScatter; }
// Whether the root alone gives, or receives.
inline bool OneInput(Kind kind) { return kind == Kind::kBroadcast || kind == Kind::kScatter; }
inline bool OneOutput(Kind kind) { return kind == Kind::kGather || kind == Kind::kReduce; }

// As numpy.array_split cuts: the first count % ranks parts have one element more.
struct Part {
  uint64_t begin = 0;
  uint64_t elements = 0;
  uint64_t end() const { return begin + elements; }
};
inline Part PartOf(uint64_t count, uint32_t ranks, uint32_t rank) {
  const uint64_t least = count / ranks, longer = count % ranks;
  return {rank * least + std::min<uint64_t>(rank, longer), least + (rank < longer ? 1 : 0)};
}

// What the participants share while they work.
class Team {
 public:
  explicit Team(uint32_t size) : size_(size) {}

  // Returns once all have called it as often as this one has.
  void Barrier() {
    const uint32_t round = round_.load(std::memory_order_acquire);
    if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      waiting_.store(0, std::memory_order_relaxed);
      round_.fetch_add(1, std::memory_order_release);
      round_.notify_all();
      return;
    }
    while (round_.load(std::memory_order_acquire) == round) round_.wait(round, std::memory_order_acquire);
  }

  // Hands out pieces of work: the first is 0. No piece goes to two.
  uint64_t Claim() { return next_.fetch_add(1, std::memory_order_relaxed); }

  // A piece was left out, as nobody wants the result any more.
  void Stop() { stopped_.store(true, std::memory_order_relaxed); }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

 private:
  const uint32_t size_;
  std::atomic<uint32_t> waiting_{0};
  std::atomic<uint32_t> round_{0};
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> stopped_{false};
};

struct Job {
  Kind kind = Kind::kAllReduce;
  uint32_t ranks = 1;
  uint32_t root = 0;
  uint64_t count = 0;
  uint32_t item_bytes = 0;
  const Arithmetic* arithmetic = nullptr;  // null unless it reduces
  // By rank; null for those that give, or receive, nothing. An input may lie where
  // the same rank's output does, item on item, and nowhere else.
  std::vector<const char*> inputs;
  std::vector<char*> outputs;
  // By rank, `count` accumulators; empty unless the algorithm wants it.
  std::vector<char*> work;
  Team* team = nullptr;
  // Whether anybody still wants the result; may be null. Safe from several threads.
  std::function<bool()> wanted;

  Part part(uint32_t rank) const { return PartOf(count, ranks, rank); }
};

// An algorithm: one row of kAlgorithms.
struct Algorithm {
  const char* name;
  // Whether values are combined in the order of their ranks, whatever their number.
  bool rank_order;
  // One participant's share, by Kind; all call it at the same time. Null: it has no
  // way of doing that.
  void (*run[kKinds])(const Job& job, uint32_t rank);
  // Whether it wants Job::work.
  bool (*wants_work)(Kind kind, const Arithmetic* arithmetic);
};

// The order is that of Choice (thresholds.h).
enum AlgorithmId : int { kNaive, kRing, kTree, kAllToAll };
inline constexpr int kAlgorithmCount = 4;
const Algorithm& AlgorithmOf(AlgorithmId id);

// The rows, each in a file of its own.
extern const Algorithm kNaiveAlgorithm;
extern const Algorithm kRingAlgorithm;
extern const Algorithm kTreeAlgorithm;
extern const Algorithm kAllToAllAlgorithm;

// Elements [begin, end) of the tensor, from all inputs straight to all outputs, values
// combined in the order of their ranks.
void DoRange(const Job& job, uint64_t begin, uint64_t end);

// What algorithms that add up step by step have in common: a tensor of accumulators
// at each rank. An all_reduce whose items are accumulators keeps it in the output.
bool WantsAccumulators(Kind kind, const Arithmetic* arithmetic);
char* AccumulatorsOf(const Job& job, uint32_t rank);

}  // namespace kiln::runtime::collective

#endif  // KILN_RUNTIME_COLLECTIVE_ALGORITHMS_JOB_H_
