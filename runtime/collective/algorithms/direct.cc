// Collectives element by element: the meaning of each, and what naive and all-to-all
// are made of.
#include <cstring>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "runtime/collective/algorithms/job.h"

namespace kiln::runtime::collective {
namespace {

void Copy(char* to, const char* from, uint64_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

// Calls fn(rank, begin, end) for the elements of [begin, end) that lie in each rank's
// part.
template <typename Fn>
void ForParts(const Job& job, uint64_t begin, uint64_t end, const Fn& fn) {
  for (uint32_t rank = 0; rank < job.ranks; ++rank) {
    const Part part = job.part(rank);
    const uint64_t from = std::max(begin, part.begin), to = std::min(end, part.end());
    if (from < to) fn(rank, from, to);
  }
}

// Combines [begin, end) of all inputs into `outputs`, which are for that range alone.
void Reduce(const Job& job, uint64_t begin, uint64_t end, void* const* outputs, uint32_t output_count) {
  absl::InlinedVector<const void*, 16> inputs;
  for (const char* input : job.inputs) inputs.push_back(input + begin * job.item_bytes);
  job.arithmetic->reduce(inputs.data(), job.ranks, outputs, output_count, end - begin);
}

}  // namespace

void DoRange(const Job& job, uint64_t begin, uint64_t end) {
  const uint64_t item = job.item_bytes;
  const auto offset_in = [&](uint32_t rank, uint64_t at) { return (at - job.part(rank).begin) * item; };
  switch (job.kind) {
    case Kind::kBroadcast:
      for (char* output : job.outputs) {
        Copy(output + begin * item, job.inputs[job.root] + begin * item, (end - begin) * item);
      }
      return;
    case Kind::kScatter:
      return ForParts(job, begin, end, [&](uint32_t rank, uint64_t from, uint64_t to) {
        Copy(job.outputs[rank] + offset_in(rank, from), job.inputs[job.root] + from * item, (to - from) * item);
      });
    case Kind::kGather:
      return ForParts(job, begin, end, [&](uint32_t rank, uint64_t from, uint64_t to) {
        Copy(job.outputs[job.root] + from * item, job.inputs[rank] + offset_in(rank, from), (to - from) * item);
      });
    case Kind::kAllGather:
      return ForParts(job, begin, end, [&](uint32_t rank, uint64_t from, uint64_t to) {
        const char* source = job.inputs[rank] + offset_in(rank, from);
        for (char* output : job.outputs) Copy(output + from * item, source, (to - from) * item);
      });
    case Kind::kReduce: {
      void* output = job.outputs[job.root] + begin * item;
      return Reduce(job, begin, end, &output, 1);
    }
    case Kind::kReduceScatter:
      return ForParts(job, begin, end, [&](uint32_t rank, uint64_t from, uint64_t to) {
        void* output = job.outputs[rank] + offset_in(rank, from);
        Reduce(job, from, to, &output, 1);
      });
    case Kind::kAllReduce: {
      absl::InlinedVector<void*, 16> outputs;
      for (char* output : job.outputs) outputs.push_back(output + begin * item);
      return Reduce(job, begin, end, outputs.data(), job.ranks);
    }
  }
}

bool WantsAccumulators(Kind kind, const Arithmetic* arithmetic) {
  if (!Reduces(kind)) return false;
  return kind != Kind::kAllReduce || arithmetic->acc_bytes != arithmetic->item_bytes;
}

char* AccumulatorsOf(const Job& job, uint32_t rank) { return job.work.empty() ? job.outputs[rank] : job.work[rank]; }

const Algorithm& AlgorithmOf(AlgorithmId id) {
  static constexpr const Algorithm* kAlgorithms[kAlgorithmCount] = {&kNaiveAlgorithm, &kRingAlgorithm, &kTreeAlgorithm,
                                                                    &kAllToAllAlgorithm};
  return *kAlgorithms[id];
}

}  // namespace kiln::runtime::collective
