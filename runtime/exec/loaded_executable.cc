// Tested by load_test and executor_test.
#include "runtime/exec/loaded_executable.h"

#include <algorithm>
#include <utility>

#include "runtime/exec/executable_run.h"

namespace kiln::runtime {
namespace {

// A guess before anything has run, in nanoseconds: what the compiler says, or where it
// does not, that a core does some 8 operations in one; it moves some 8 bytes, and every launch
// costs a little.
uint64_t GuessNs(const Plan& plan, const v1::Cost& cost) {
  uint64_t bytes = cost.bytes_read() + cost.bytes_written();
  for (const PlanResult& result : plan.results) bytes = std::max(bytes, result.bytes);
  for (const PlanParameter& parameter : plan.parameters) bytes = std::max(bytes, parameter.bytes);
  const uint64_t compute_ns = cost.run_ns() != 0 ? cost.run_ns() : cost.flops() / 8;
  return std::max(bytes / 8, compute_ns) + 100 * plan.steps.size();
}

// Of a run that may take any time: long enough for every queue.
constexpr uint64_t kMayBeLongNs = 1'000'000'000;

}  // namespace

LoadedExecutable::LoadedExecutable(hal::Device* device, Plan plan, v1::Signature signature, v1::Cost cost,
                                   std::unique_ptr<hal::Module> module, std::shared_ptr<hal::Buffer> constants)
    : device_(device),
      plan_(std::move(plan)),
      signature_(std::move(signature)),
      cost_(std::move(cost)),
      module_(std::move(module)),
      constants_(std::move(constants)),
      pool_(std::make_unique<ExecutableRunPool>(&plan_)),
      estimate_(GuessNs(plan_, cost_), cost_.varies() ? kMayBeLongNs : 0) {}

LoadedExecutable::~LoadedExecutable() = default;

uint64_t LoadedExecutable::memory_bytes() const {
  // What a vector or a string of a few items takes of the heap, which gives no less. (A program of 16,384 kernels,
  // each with a result, holds 1.2 KiB for each of them, as a profile of the heap has it: most of it is such pieces.)
  constexpr uint64_t kPiece = 32;
  uint64_t bytes = sizeof(LoadedExecutable) + plan_.code_bytes + plan_.constants_bytes +
                   plan_.steps.size() * sizeof(PlanStep) +
                   plan_.operands.size() * (sizeof(PlanOperand) + sizeof(void*)) +
                   plan_.parameters.size() * (sizeof(PlanParameter) + kPiece) +
                   plan_.results.size() * (sizeof(PlanResult) + kPiece) + signature_.SpaceUsedLong();
  for (const std::string& name : plan_.kernel_names) bytes += sizeof(std::string) + kPiece + name.size();
  return bytes;
}

}  // namespace kiln::runtime
